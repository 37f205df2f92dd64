//! Spans: the time that a part of a stream's work takes, measured between two marks.

use std::time::Duration;

use super::mark::Mark;
use super::stream::Stream;
use crate::base::error::Result;

/// A part of a stream's work, between two marks.
#[derive(Debug)]
pub struct Span {
    from: Box<dyn Mark>,
    to: Box<dyn Mark>,
}

impl Span {
    /// Sets a mark on `stream` now. `None` if its device has no marks, if a graph is being captured, or if the call fails. The error is
    /// ignored: a mark only tells a time and orders nothing, and the next call meets any error of the stream.
    pub fn mark(stream: &Stream) -> Option<Box<dyn Mark>> {
        let is_captured = stream.can_capture() && stream.is_capturing();
        if is_captured { None } else { stream.shared_backend().mark().unwrap_or(None) }
    }

    /// Runs `act` between two marks on `stream`.
    pub fn around<R>(stream: &Stream, act: impl FnOnce() -> R) -> (R, Option<Span>) {
        let from = Span::mark(stream);
        let answer = act();
        let span = from.and_then(|from| Some(Span { from, to: Span::mark(stream)? }));
        (answer, span)
    }

    /// The time that the work took; `None` until it is done.
    ///
    /// # Errors
    /// The answer of the device.
    pub fn length(&self) -> Result<Option<Duration>> {
        self.to.since(&*self.from)
    }
}
