//! Spans: the time that a stretch of a stream's work takes, between two marks.

use std::time::Duration;

use super::mark::Mark;
use super::stream::Stream;
use crate::base::error::Result;

/// A stretch of a stream's work, between two marks.
#[derive(Debug)]
pub struct Span {
    from: Box<dyn Mark>,
    to: Box<dyn Mark>,
}

/// A mark on `stream` now, if its device has such and no graph is captured. One that fails is none: it tells a time and orders nothing,
/// and what is wrong with the stream is met by the next call.
pub(super) fn mark(stream: &Stream) -> Option<Box<dyn Mark>> {
    let is_captured = stream.can_capture() && stream.is_capturing();
    if is_captured { None } else { stream.shared_backend().mark().unwrap_or(None) }
}

impl Span {
    /// A mark on `stream` now, if its device has such and no graph is captured.
    pub fn mark(stream: &Stream) -> Option<Box<dyn Mark>> {
        mark(stream)
    }

    /// Runs `act` between two marks on `stream`.
    pub fn around<R>(stream: &Stream, act: impl FnOnce() -> R) -> (R, Option<Span>) {
        let from = mark(stream);
        let answer = act();
        let span = from.and_then(|from| Some(Span { from, to: mark(stream)? }));
        (answer, span)
    }

    /// How long it took, once it is over.
    ///
    /// # Errors
    /// What the device answered.
    pub fn length(&self) -> Result<Option<Duration>> {
        self.to.since(&*self.from)
    }
}
