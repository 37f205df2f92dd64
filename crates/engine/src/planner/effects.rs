//! What the owner's side of planning wants done by who may call devices.

#[cfg(feature = "tracing")]
use crate::base::subscriber::is_heard;
use crate::device::Stream;
#[cfg(feature = "tracing")]
use crate::home::{Deviations, Sample};
use crate::pressure::lease::Leased;
use crate::pressure::transit::Transit;
use crate::record::{ArenaId, RecordStack};
use gpucache_plan::entries::Evicted;
use smallvec::SmallVec;

use super::backoff::Refused;

/// What is to be done before an entry begins.
pub(crate) enum Begin {
    Ready,
    /// Planning is over, which has effects.
    Clear,
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
    pub(crate) vacated: SmallVec<[Vacated; 2]>,
    /// What is behind so many bytes of the ring goes back to the range.
    pub(crate) shorten: Option<u64>,
    /// To be dropped.
    pub(crate) records: Vec<RecordStack>,
    /// To be dropped after all else.
    pub(crate) streams: Vec<Stream>,
    /// The range of this stream may hold more than is needed from now on; with what it had freed at the last look.
    pub(crate) may_trim: Option<(Stream, Option<u64>)>,
    /// What a subscriber of `tracing` is to be told; nothing where there is none.
    #[cfg(feature = "tracing")]
    pub(crate) news: Vec<News>,
}

impl Effects {
    /// An entry went another way than its plan, if it saw any such allocation.
    #[cfg(feature = "tracing")]
    pub(super) fn note_deviation(&mut self, seen: Deviations, first: Option<Sample>) {
        if seen.is_any() && is_heard() {
            self.news.push(News::Deviated { seen, first });
        }
    }

    /// Whether there is anything to do, which most entries leave nothing of.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        #[cfg(feature = "tracing")]
        if !self.news.is_empty() {
            return true;
        }
        let has_dropped = !self.records.is_empty() || !self.streams.is_empty();
        has_dropped || !self.vacated.is_empty() || self.shorten.is_some() || self.may_trim.is_some()
    }
}

/// What became of a scope's plans.
#[cfg(feature = "tracing")]
pub(crate) enum News {
    /// The plan that the entry went by has a layout, a first one or another.
    LaidOut {
        positions: u64,
        bytes: u64,
        bound_bytes: u64,
        /// Allocations of the entry, on the stream of the plan, if it was recorded.
        allocations: Option<u64>,
    },
    /// The entry went another way than its plan. The sample is the first allocation that was not as expected; there is none
    /// where allocations are missing alone.
    Deviated { seen: Deviations, first: Option<Sample> },
}

/// An arena or a ring that goes back to the range, but for what is live in it.
pub(crate) struct Vacated {
    pub(crate) leased: Leased,
    pub(crate) arena: ArenaId,
    pub(crate) live: Vec<Evicted>,
    pub(crate) transit: Transit,
}
