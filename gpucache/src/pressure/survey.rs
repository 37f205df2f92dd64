//! What is told of a request that no rung of the ladder served: what there is of the device, and who has it.

use super::ask::Asked;
use super::reclaim;
use crate::base::error::Error;
use crate::base::shortage::Shortage;
use crate::device::process;
use crate::range::DeviceRange;

/// The error of a request, with what there was when it failed.
pub(crate) fn told(error: Error, asked: &Asked<'_>) -> Error {
    let Asked { stream, bytes, dims, holder } = *asked;
    let mut shortage = Shortage {
        bytes,
        shape: dims.to_vec(),
        scope: holder.and_then(|holder| holder.name()),
        scope_site: holder.and_then(|holder| holder.site()),
        stream: stream.id(),
        held_bytes: stream.meter().held(),
        process_bytes: process::held(),
        // A driver that is asked while a graph is captured may end the capture.
        elsewhere_bytes: if stream.is_capturing() { None } else { stream.memory().held_elsewhere() },
        ..Shortage::default()
    };
    if let Some(range) = DeviceRange::of(stream) {
        let occupancy = range.occupancy();
        shortage.reserved_bytes = occupancy.reserved;
        shortage.live_bytes = occupancy.live;
        shortage.idle_bytes = occupancy.reserved.saturating_sub(occupancy.live);
        shortage.longest_free_bytes = range.longest_free();
    }
    error.with_shortage(shortage.held_by(reclaim::holdings(stream.memory_id())))
}
