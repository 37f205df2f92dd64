//! What tells a request that finds no memory whether another attempt may succeed: memory that was freed since its last attempt.

use super::{reclaim, transit};
use crate::base::error::Error;
use crate::device::{Stream, process};
use crate::range::DeviceRange;

/// How often memory was given back to the device, to the range, or found its place there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    releases: u64,
    frees: u64,
    arrivals: u64,
    undone: u64,
}

impl Seen {
    pub(super) fn with(frees: u64, undone: u64) -> Seen {
        Seen { releases: reclaim::releases(), frees, arrivals: transit::arrivals(), undone }
    }

    /// After a call met this error. What others had counted in and did not get matters where a limit was met alone: the
    /// device itself tells what it has, and refuses this thread too.
    pub(super) fn after(error: &Error, stream: &Stream) -> Seen {
        let frees = DeviceRange::of(stream).map_or(0, |range| range.occupancy().frees);
        let undone = match error.is_of_limit() {
            true if error.is_of_process() => process::undone(),
            true => stream.meter().undone(),
            false => 0,
        };
        Seen::with(frees, undone)
    }
}
