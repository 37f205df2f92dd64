//! What the owner's side of planning wants done by who may call devices.

use crate::cache::record::Stack;
use crate::cache::transit::Transit;
use crate::device::Stream;
use crate::plan::Evicted;
use crate::range;

/// What is to be done before an entry begins.
pub(in crate::cache) enum Begin {
    Ready,
    /// Planning is over.
    Clear(Errands),
    /// A block of so many bytes on this stream is to be found.
    Install {
        bytes: u64,
        stream: Stream,
        refused: Option<Refused>,
    },
}

/// No block was to be had while so much of the range was in use. Another try is made when it is less, or after a wait,
/// twice as long each time.
#[derive(Clone, Copy)]
pub(in crate::cache) struct Refused {
    pub(in crate::cache) live: u64,
    pub(in crate::cache) wait: u32,
    pub(in crate::cache) last_wait: u32,
}

/// What is to be done once the owner's side is not borrowed any more.
#[derive(Default)]
pub(in crate::cache) struct Errands {
    pub(in crate::cache) vacated: Option<Vacated>,
    /// To be dropped.
    pub(in crate::cache) records: Vec<Stack>,
    /// To be dropped after all else.
    pub(in crate::cache) streams: Vec<Stream>,
    pub(in crate::cache) may_trim: Option<Trim>,
}

/// A look at the range of this stream, which may hold more than is needed from now on.
pub(in crate::cache) struct Trim {
    pub(in crate::cache) stream: Stream,
    /// What the range had freed at the last look.
    pub(in crate::cache) last: Option<u64>,
}

/// A block that goes back to the range, but for what is live in it.
pub(in crate::cache) struct Vacated {
    pub(in crate::cache) block: range::Block,
    pub(in crate::cache) stream: Stream,
    pub(in crate::cache) epoch: u64,
    pub(in crate::cache) live: Vec<Evicted>,
    pub(in crate::cache) transit: Transit,
}
