//! The memory of a graph that is captured once and launched many times.
//!
//! The graph may be launched on any stream and at any time, so its memory is reserved ([`Reservation`]) until the graph ends. Three captures
//! differ in who gets reserved memory, and in how the end is known:
//!
//! - **A capture of the program** on one stream ([`GraphMemory::begin`]): all that is allocated or used on the stream. The program's value for
//!   the graph keeps this one.
//! - **A capture of other code** ([`GraphMemory::of_capture`]): what the front end asks for. The driver tells when the graph, everything made
//!   from it, and all launches have ended ([`GraphEnd`]). If the driver never tells it, the memory stays reserved. Otherwise it is freed when a
//!   thread next requests memory of a device, or invalidates a scope, while no graph is captured.
//! - **A pool of a framework** (a default value): what the front end asks for, until it drops this value.

#[cfg(feature = "foreign")]
use std::sync::Arc;

#[cfg(feature = "foreign")]
use super::block::Block;
use super::reservation::Reservation;
use crate::base::error::Result;
#[cfg(feature = "foreign")]
use crate::base::sync::{Mutex, lock};
use crate::device::Stream;
#[cfg(feature = "foreign")]
use crate::device::{GraphEnd, Handle};
#[cfg(feature = "foreign")]
use crate::record::Request;

/// Memory that nobody but the work of a graph uses while this value lives.
#[derive(Default)]
pub struct GraphMemory {
    /// That of the stream on which the program captures.
    own: Option<Reservation>,
    /// One for each stream that is captured, since the streams are in no order.
    #[cfg(feature = "foreign")]
    apart: Mutex<Vec<Arc<Reservation>>>,
    /// Blocks that the work uses and that were freed in its capture.
    #[cfg(feature = "foreign")]
    kept: Mutex<Vec<Block>>,
}

impl GraphMemory {
    /// From now on, reserves the memory that is allocated or used on `stream`.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) if the stream has an open reservation already.
    pub fn begin(stream: &Stream) -> Result<GraphMemory> {
        Ok(GraphMemory {
            own: Some(Reservation::begin(stream)?),
            #[cfg(feature = "foreign")]
            apart: Mutex::default(),
            #[cfg(feature = "foreign")]
            kept: Mutex::default(),
        })
    }

    /// Ends the reserving: memory that is reserved by now stays reserved, and no more is added.
    pub fn close(&self) {
        self.own.iter().for_each(Reservation::close);
    }
}

/// Functions for front ends whose clients capture.
#[cfg(feature = "foreign")]
impl GraphMemory {
    /// Memory for the graph that is captured on the stream of `handle` now. It stays reserved until the driver tells the end of the graph.
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
        let reservation = {
            let mut apart = lock(&self.apart);
            let known = apart.iter().find(|known| known.home().id() == stream.id()).cloned();
            known.unwrap_or_else(|| {
                let new = Arc::new(Reservation::apart(stream));
                apart.push(new.clone());
                new
            })
        };
        reservation.allocate(request)
    }

    /// Takes back a block that captured work on `stream` frees. If the block was allocated there in the same capture, it serves the capture
    /// again. Otherwise it is kept until the graph ends.
    pub fn take_back(&self, stream: &Stream, block: Block) {
        let is_own = |known: &Arc<Reservation>| known.home().id() == stream.id() && known.serves(&block);
        if lock(&self.apart).iter().any(is_own) {
            return drop(block);
        }
        lock(&self.kept).push(block);
    }

    /// The streams on which [`allocate`](GraphMemory::allocate) reserved memory.
    pub fn streams(&self) -> Vec<Stream> {
        lock(&self.apart).iter().map(|reservation| reservation.home().clone()).collect()
    }
}
