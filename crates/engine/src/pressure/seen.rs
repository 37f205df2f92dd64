//! Shows a request that found no memory whether another attempt may succeed: whether memory was freed since its last attempt.

use super::{reclaim, transit};
use crate::base::error::Error;
use crate::device::{Stream, process};
use crate::range::DeviceRange;

/// How often memory was given back to the device, freed in the range, arrived in the range, and was counted in in vain.
pub(super) type Seen = [u64; 4];

pub(super) fn seen(frees: u64, undone: u64) -> Seen {
    [reclaim::releases(), frees, transit::arrivals(), undone]
}

/// The counts after a call met this error. If the error is of a limit, memory that other threads had counted in but did not get
/// also matters. The device itself refuses such memory to this thread too.
pub(super) fn seen_after(error: &Error, stream: &Stream) -> Seen {
    let frees = DeviceRange::of(stream).map_or(0, |range| range.occupancy().frees);
    let undone = match error.is_of_limit() {
        true if error.is_of_process() => process::undone(),
        true => stream.meter().undone(),
        false => 0,
    };
    seen(frees, undone)
}
