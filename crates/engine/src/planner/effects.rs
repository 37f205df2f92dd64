//! The actions that planning leaves to callers that may call devices.

#[cfg(feature = "tracing")]
use crate::base::subscriber::is_heard;
use crate::device::Stream;
#[cfg(feature = "tracing")]
use crate::home::{Deviations, Sample};
use crate::pressure::lease::Leased;
use crate::pressure::transit::Transit;
use crate::record::{ArenaId, OuterBlock, RecordStack};
use gpucache_plan::entries::Evicted;
use smallvec::SmallVec;

use super::backoff::Refused;

/// The task of the caller before an entry begins.
pub(crate) enum Begin {
    Ready,
    /// Carry out the effects, since planning has ended.
    Clear,
    /// Find an arena of this many bytes on this stream.
    Install {
        bytes: u64,
        stream: Stream,
        refused: Option<Refused>,
        /// Whether the range may reserve a little more than its peak rather than refuse the arena.
        may_grow: bool,
        /// Whether the range may reserve as much more as the arena and the live memory need.
        insists: bool,
    },
}

/// The actions that are due once the owner's side is not borrowed any more.
#[derive(Default)]
pub(crate) struct Effects {
    pub(crate) vacated: SmallVec<[Vacated; 2]>,
    /// How many bytes of the ring stay. The rest, behind them, goes back to the range.
    pub(crate) shorten: Option<u64>,
    /// Records to drop.
    pub(crate) records: Vec<RecordStack>,
    /// Streams to drop, after all else.
    pub(crate) streams: Vec<Stream>,
    /// The stream whose range may reserve more than the scopes need from now on, with the range's count of frees at the last look.
    pub(crate) may_trim: Option<(Stream, Option<u64>)>,
    /// News for subscribers of `tracing`; empty if nobody subscribes.
    #[cfg(feature = "tracing")]
    pub(crate) news: Vec<News>,
}

impl Effects {
    /// Notes that an entry deviated from its plan, if it had any deviation.
    #[cfg(feature = "tracing")]
    pub(super) fn note_deviation(&mut self, seen: Deviations, first: Option<Sample>) {
        if seen.is_any() && is_heard() {
            self.news.push(News::Deviated { seen, first });
        }
    }

    /// Whether there is anything to do. Most entries leave nothing.
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

/// A change of a scope's plans.
#[cfg(feature = "tracing")]
pub(crate) enum News {
    /// The plan of the entry has a new layout, its first or another one.
    LaidOut {
        positions: u64,
        bytes: u64,
        bound_bytes: u64,
        /// The number of allocations of the entry on the plan's stream, if the entry was recorded.
        allocations: Option<u64>,
    },
    /// The entry deviated from its plan. The sample is the first unexpected allocation; there is none if the only deviations are
    /// missing allocations.
    Deviated { seen: Deviations, first: Option<Sample> },
}

/// The memory of an arena or a ring.
pub(crate) enum ArenaMemory {
    OfRange(Leased),
    /// The arena of a scope inside another one lies in a block of that one.
    OfOuter(OuterBlock, Stream),
}

/// An arena or a ring whose memory goes back, except the parts that are alive.
pub(crate) struct Vacated {
    pub(crate) memory: ArenaMemory,
    pub(crate) arena: ArenaId,
    pub(crate) live: Vec<Evicted>,
    /// Whether something else needs the memory.
    pub(crate) is_needed: bool,
    pub(crate) transit: Transit,
}
