//! What the owner's side of planning wants done by who may call devices.

use crate::device::Stream;
use crate::plan::Evicted;
use crate::pressure::lease::Leased;
use crate::pressure::transit::Transit;
use crate::record::{ArenaId, Stack};

use super::refused::Refused;

/// What is to be done before an entry begins.
pub(crate) enum Begin {
    Ready,
    /// Planning is over.
    Clear(Effects),
    /// An arena of so many bytes on this stream is to be found.
    Install {
        bytes: u64,
        stream: Stream,
        refused: Option<Refused>,
        /// Whether the range may rather reserve a little more than ever than not have it.
        may_grow: bool,
    },
}

/// What is to be done once the owner's side is not borrowed any more.
#[derive(Default)]
pub(crate) struct Effects {
    pub(crate) vacated: Vec<Vacated>,
    /// What is behind so many bytes of the ring goes back to the range.
    pub(crate) shorten: Option<u64>,
    /// To be dropped.
    pub(crate) records: Vec<Stack>,
    /// To be dropped after all else.
    pub(crate) streams: Vec<Stream>,
    pub(crate) may_trim: Option<Trim>,
}

impl Effects {
    /// Whether there is anything to do, which most entries leave nothing of.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        let has_dropped = !self.records.is_empty() || !self.streams.is_empty();
        has_dropped || !self.vacated.is_empty() || self.shorten.is_some() || self.may_trim.is_some()
    }
}

/// A look at the range of this stream, which may hold more than is needed from now on.
pub(crate) struct Trim {
    pub(crate) stream: Stream,
    /// What the range had freed at the last look.
    pub(crate) last: Option<u64>,
}

/// An arena or a ring that goes back to the range, but for what is live in it.
pub(crate) struct Vacated {
    pub(crate) leased: Leased,
    pub(crate) arena: ArenaId,
    pub(crate) live: Vec<Evicted>,
    pub(crate) transit: Transit,
}
