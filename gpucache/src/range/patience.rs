//! Waiting for other people's work: always without a lock, and for a bounded time.

use std::time::{Duration, Instant};

use crate::base::error::Result;

/// For whose work a trim waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Nobody's.
    None,
    /// Any stream's, for a bounded time.
    Some,
}

/// Longer than a step of most programs takes, and short enough for whoever waits for a stream that waits for him.
pub(super) const LONG: Duration = Duration::from_millis(250);
/// As long as a range takes to grow, and longer than a GPU takes to tell that a stream had nothing left to do.
pub(super) const SHORT: Duration = Duration::from_micros(100);

const FIRST_PAUSE: Duration = Duration::from_micros(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

/// Asks again and again until there is an answer, for no longer than `most`.
pub(super) fn patiently<T>(most: Duration, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
    let (start, mut pause) = (Instant::now(), FIRST_PAUSE);
    loop {
        let answer = ask()?;
        if answer.is_some() || start.elapsed() >= most {
            return Ok(answer);
        }
        std::thread::sleep(pause);
        pause = LONGEST_PAUSE.min(2 * pause);
    }
}
