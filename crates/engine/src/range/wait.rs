//! Waiting for other people's work: always without a lock, and for a bounded time.

use std::time::{Duration, Instant};

use crate::base::error::Result;

/// Which work a trim waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// None: it returns at once.
    Nothing,
    /// Work of which nobody tells, for a bounded time.
    UnknownWork,
    /// That work's and any stream's, for a bounded time.
    AnyWork,
}

/// The longest wait for pages: longer than a step of most programs takes, and short enough for a thread whose stream waits, in
/// turn, for that thread.
pub(super) const LONG: Duration = Duration::from_millis(250);
/// The longest wait before a range grows: as long as a growth takes, and longer than a GPU takes to tell that a stream had
/// nothing left to do.
pub(super) const SHORT: Duration = Duration::from_micros(100);

/// The first time between two questions, a tenth of [`SHORT`]; each next one is twice as long.
const SHORTEST_SLEEP: Duration = Duration::from_micros(10);
/// The longest time between two questions: what has taken long is found to be done 2 ms late at most, at 125 questions in
/// all of [`LONG`].
const LONGEST_SLEEP: Duration = Duration::from_millis(2);

/// Asks again and again until there is an answer, for no longer than `most`.
pub(super) fn poll<T>(most: Duration, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
    let (start, mut pause) = (Instant::now(), SHORTEST_SLEEP);
    loop {
        let answer = ask()?;
        if answer.is_some() || start.elapsed() >= most {
            return Ok(answer);
        }
        std::thread::sleep(pause);
        pause = LONGEST_SLEEP.min(2 * pause);
    }
}
