//! Waits for other work: always without a lock, and for a limited time.

use std::time::{Duration, Instant};

use crate::base::error::Result;

/// The work for which a trim waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitFor {
    /// No work.
    Nothing,
    /// Work on unknown streams, for a limited time.
    UnknownWork,
    /// Work on unknown streams and on all known ones, for a limited time.
    AnyWork,
}

/// The longest wait for pages. It is longer than a step of most programs. It is short enough for a thread whose stream in turn waits for
/// that thread.
pub(super) const LONG: Duration = Duration::from_millis(250);
/// The longest wait for work without which a request fails, or arrays are not side by side. It is longer than the steps of large models. A
/// stream that waits for the calling thread delays that thread by as much, but only once.
pub(crate) const LONGEST: Duration = Duration::from_secs(10);
/// The longest wait before a range grows, and before a capture begins. Each takes as long. It is longer than a GPU takes to report that a stream has no work left.
pub(super) const SHORT: Duration = Duration::from_micros(100);

/// The first pause between two queries, a tenth of [`SHORT`]. Each later pause is twice as long.
const SHORTEST_SLEEP: Duration = Duration::from_micros(10);
/// The longest pause between two queries. So the end of long work is noticed at most 2 ms late, with 125 queries during all of [`LONG`].
const LONGEST_SLEEP: Duration = Duration::from_millis(2);

/// Repeats a query until there is an answer, for at most `most`.
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
