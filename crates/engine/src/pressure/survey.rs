//! What is told of a request that no rung of the ladder served: what there is of the device, and who has it.

use super::ask::Asked;
use super::reclaim;
use crate::base::error::Error;
use crate::base::shortage::Shortage;
#[cfg(feature = "tracing")]
use crate::base::subscriber::{self, TARGET};
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
    let error = error.with_shortage(shortage.held_by(reclaim::holdings(stream.memory_id())));
    #[cfg(feature = "tracing")]
    tell(&error, stream.memory_id());
    error
}

/// Tells a subscriber of `tracing` what is returned to the program too.
#[cfg(feature = "tracing")]
fn tell(error: &Error, device: u64) {
    let Some(Shortage { bytes, scope, scope_site, bound, most_bytes, held_bytes, live_bytes, idle_bytes, .. }) =
        error.shortage()
    else {
        return;
    };
    let event = || {
        tracing::warn!(
            target: TARGET,
            scope = scope.as_deref(),
            device,
            bytes,
            %bound,
            most_bytes,
            held_bytes,
            live_bytes,
            idle_bytes,
            site = scope_site.map(display),
            "out of memory"
        );
    };
    subscriber::tell(event);
}
