//! The memory of a graph that is captured once and launched many times.
//!
//! The graph may be launched on any stream and at any time, so its memory is reserved until the graph ends. While a reservation is open,
//! allocations on its stream come from the range, through a second stream over the same queue. Memory that is dropped meanwhile serves only
//! later allocations of the same reservation. If blocks of other owners are used meanwhile, the reservation keeps them when they are dropped.
//! When the reservation ends, all of this memory is free, as if it had been dropped at that moment. Three captures differ in who gets
//! reserved memory, and in how the end is known:
//!
//! - **A capture of the program** on one stream ([`GraphMemory::begin`]): all that is allocated or used on the stream. The program's value for
//!   the graph keeps this one.
//! - **A capture of other code** ([`GraphMemory::of_capture`]): what the front end asks for. The driver tells when the graph, everything made
//!   from it, and all launches have ended ([`GraphEnd`]). If the driver never tells it, the memory stays reserved. Otherwise it is freed when a
//!   thread next requests memory of a device, or invalidates a scope, while no graph is captured.
//! - **A pool of a framework** (a default value): what the front end asks for, until it drops this value.

#[cfg(feature = "cuda")]
use std::sync::Arc;

use super::block::Block;
use crate::base::error::Result;
use crate::base::sync::{Mutex, lock};
use crate::device::Stream;
#[cfg(feature = "cuda")]
use crate::device::{GraphEnd, Handle};
use crate::range::DeviceRange;
use crate::record::Request;

/// Memory that nobody but the work of a graph uses while this value lives.
#[derive(Default)]
pub struct GraphMemory {
    /// That of the stream on which the program captures.
    own: Option<Reservation>,
    /// One for each stream that is captured, since the streams are in no order.
    apart: Mutex<Vec<(Stream, Reservation)>>,
    /// Blocks that the work uses and that were freed in its capture.
    kept: Mutex<Vec<Block>>,
}

/// Memory that nobody else gets while this value lives: that of this stream.
struct Reservation(Stream);

impl Drop for Reservation {
    fn drop(&mut self) {
        self.0.end_reserving();
        let kept = self.0.end_reservation();
        if let Some(range) = DeviceRange::of(&self.0) {
            range.streams(|streams| streams.release(&self.0));
        }
        // Each block goes back to where it came from, behind all work that is on the queue now.
        drop(kept);
    }
}

impl GraphMemory {
    /// From now on, reserves the memory that is allocated or used on `stream`.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) if the stream has an open reservation already.
    pub fn begin(stream: &Stream) -> Result<GraphMemory> {
        Ok(GraphMemory { own: Some(Reservation(stream.reserve()?)), apart: Mutex::default(), kept: Mutex::default() })
    }

    /// Ends the reserving: memory that is reserved by now stays reserved, and no more is added. Memory that the stream could not free in the
    /// capture is freed now, so the driver must have ended the capture.
    pub fn close(&self) {
        self.own.iter().for_each(|own| own.0.end_reserving());
    }

    /// Learns which free memory no work uses any more. To be called before a capture on the stream begins: its requests take only such memory,
    /// and within a capture nobody can learn more. Does nothing while any graph is captured.
    pub fn prepare(stream: &Stream) {
        if Stream::is_any_in_capture() {
            return;
        }
        #[cfg(feature = "cuda")]
        GraphEnd::free_ended();
        // A failure is the device's own, and the first request of the capture meets it as well.
        let _ = DeviceRange::of(stream).map(DeviceRange::learn_idle);
    }

    /// Memory for the graph that is captured on the stream of `handle` now. It stays reserved until the driver tells the end of the graph.
    #[cfg(feature = "cuda")]
    pub fn of_capture(handle: Handle) -> Arc<GraphMemory> {
        let new = Arc::new(GraphMemory::default());
        GraphEnd::of_capture(handle).keep(new.clone());
        new
    }

    /// Memory that the captured work on `stream` may use: memory that was freed there in the same capture, or else more memory of the range.
    ///
    /// # Errors
    /// As for [`Block::allocate`].
    pub fn allocate(&self, stream: &Stream, request: &Request<'_>) -> Result<Block> {
        let reserved = {
            let mut apart = lock(&self.apart);
            let known = apart.iter().find(|(home, _)| home.id() == stream.id()).map(|(_, known)| known.0.clone());
            known.unwrap_or_else(|| {
                let new = stream.reserved_apart();
                apart.push((stream.clone(), Reservation(new.clone())));
                new
            })
        };
        Block::reserved(&reserved, request)
    }

    /// Takes back a block that captured work on `stream` frees. If the block was allocated there in the same capture, it serves the capture
    /// again. Otherwise it is kept until the graph ends.
    pub fn take_back(&self, stream: &Stream, block: Block) {
        let is_own =
            |(home, own): &(Stream, Reservation)| home.id() == stream.id() && own.0.id() == block.stream().id();
        if lock(&self.apart).iter().any(is_own) {
            return drop(block);
        }
        lock(&self.kept).push(block);
    }

    /// The streams on which [`allocate`](GraphMemory::allocate) reserved memory.
    pub fn streams(&self) -> Vec<Stream> {
        lock(&self.apart).iter().map(|(home, _)| home.clone()).collect()
    }
}
