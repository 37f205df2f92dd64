//! A request that may find no memory: how it is made, whether another attempt may succeed, and the content of its error.

use super::reclaim::{self, Holder};
use super::transit;
use crate::base::error::{Error, Result};
use crate::base::shortage::Shortage;
#[cfg(feature = "tracing")]
use crate::base::subscriber::{self, TARGET};
use crate::device::{Stream, process};
use crate::range::{Carved, DeviceRange};

/// A way to ask for memory.
pub(crate) trait Ask {
    type Memory;

    /// Makes the call. If it `insists`, it accepts memory that other streams still use, and orders the request behind their work.
    fn ask(&self, asked: &Asked<'_>, insists: bool) -> Result<Self::Memory>;

    /// Makes the call with the memory that is free now. As few pages as possible move for it. `None` if that is not enough.
    fn ask_for_free(&self, asked: &Asked<'_>) -> Result<Option<Self::Memory>>;

    /// How many bytes the device must give for it, besides the memory that is free. 0 if it waits for work alone.
    fn needs(&self, asked: &Asked<'_>) -> u64;
}

/// The requested memory, and who requests it.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) stream: &'a Stream,
    pub(crate) bytes: u64,
    pub(crate) dims: &'a [usize],
    /// The memory of the thread's innermost scope.
    pub(crate) holder: Option<&'static dyn Holder>,
}

/// A call that asks the device itself.
impl<M, F: Fn() -> Result<M>> Ask for F {
    type Memory = M;

    fn ask(&self, _asked: &Asked<'_>, _insists: bool) -> Result<M> {
        self()
    }

    /// Free pages of the range are the device's memory too.
    fn ask_for_free(&self, asked: &Asked<'_>) -> Result<Option<M>> {
        DeviceRange::of(asked.stream).map_or(Ok(0), |range| range.give_back(asked.bytes))?;
        match self() {
            Err(error) if error.is_shortage() => Ok(None),
            answer => answer.map(Some),
        }
    }

    fn needs(&self, asked: &Asked<'_>) -> u64 {
        asked.bytes
    }
}

/// A request to the device's range.
impl Ask for DeviceRange {
    type Memory = Carved;

    fn ask(&self, asked: &Asked<'_>, insists: bool) -> Result<Carved> {
        self.allocate(asked.stream, asked.bytes, insists)
    }

    fn ask_for_free(&self, asked: &Asked<'_>) -> Result<Option<Carved>> {
        self.move_pages(asked.stream, asked.bytes)
    }

    fn needs(&self, asked: &Asked<'_>) -> u64 {
        self.needs(asked.bytes)
    }
}

/// How often scopes released memory, memory was freed in the range, arrived in the range, and was counted in in vain. The last number is how
/// often other threads gave memory back to the device.
pub(super) type Seen = [u64; 5];

pub(super) fn seen(stream: &Stream, frees: u64, undone: u64) -> Seen {
    [reclaim::releases(), frees, transit::arrivals(), undone, stream.meter().given_back_by_others()]
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
    seen(stream, frees, undone)
}

impl Asked<'_> {
    /// The error of the request, with the device's memory now, and the scopes that reserve it.
    pub(crate) fn refused(&self, error: Error) -> Error {
        let Asked { stream, bytes, dims, holder } = *self;
        let mut shortage = Shortage {
            bytes,
            shape: dims.to_vec(),
            scope: holder.and_then(|holder| holder.name()),
            scope_site: holder.and_then(|holder| holder.site()),
            stream: stream.id(),
            held_bytes: stream.meter().held(),
            scope_bytes: holder.filter(|_| error.is_of_scope()).map(|holder| {
                let (busy, idle) = holder.held_bytes();
                busy.saturating_add(idle)
            }),
            process_bytes: process::held(),
            // A question to the driver while a graph is captured may end the capture.
            elsewhere_bytes: if stream.is_capturing() { None } else { stream.memory().held_elsewhere() },
            ..Shortage::default()
        };
        reclaim::note_staying(stream.memory(), &mut shortage);
        if let Some(range) = DeviceRange::of(stream) {
            let occupancy = range.occupancy();
            shortage.reserved_bytes = occupancy.reserved;
            shortage.live_bytes = occupancy.live;
            shortage.idle_bytes = occupancy.reserved.saturating_sub(occupancy.live);
            shortage.longest_free_bytes = range.longest_free();
            shortage.outside_bytes = shortage.held_bytes.saturating_sub(occupancy.reserved);
        }
        let error = error.with_shortage(shortage.held_by(reclaim::scope_memory(stream.memory_id())));
        #[cfg(feature = "tracing")]
        tell(&error, stream.memory_id());
        error
    }
}

/// Tells a subscriber of `tracing` about the error that the program gets.
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
            site = scope_site.map(tracing::field::display),
            "out of memory"
        );
    };
    subscriber::tell(event);
}
