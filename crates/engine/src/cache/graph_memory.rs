//! The memory of a graph that other code captures, launches and destroys.
//!
//! The graph may be launched on any stream and at any time. So its memory is reserved ([`Reservation::apart`]) until the driver tells that
//! the graph, everything made from it, and all launches have ended ([`GraphEnd`]). If the driver never tells it, the memory stays reserved.
//!
//! The memory is freed when a thread next requests memory of a device, or invalidates a scope, while no graph is captured.

use std::sync::Arc;

use super::block::Block;
use super::reservation::Reservation;
use crate::base::error::Result;
use crate::base::sync::{Mutex, lock};
use crate::device::{GraphEnd, Stream};
use crate::record::Request;

/// The reservations of one graph, and the blocks that its work uses and that were freed in its capture.
#[derive(Default)]
pub struct GraphMemory {
    /// One for each stream that is captured, since the streams are in no order.
    reservations: Mutex<Vec<Arc<Reservation>>>,
    kept: Mutex<Vec<Block>>,
}

impl GraphMemory {
    /// Memory that stays reserved until `end` comes.
    pub fn until(end: GraphEnd) -> Arc<GraphMemory> {
        let new = Arc::new(GraphMemory::default());
        end.keep(new.clone());
        new
    }

    /// Memory that the captured work on `stream` may use: memory that was freed there in the same capture, or else more memory of the range.
    ///
    /// # Errors
    /// As for [`Block::allocate`].
    pub fn allocate(&self, stream: &Stream, request: &Request<'_>) -> Result<Block> {
        let reservation = {
            let mut reservations = lock(&self.reservations);
            let known = reservations.iter().find(|known| known.home().id() == stream.id()).cloned();
            known.unwrap_or_else(|| {
                let new = Arc::new(Reservation::apart(stream));
                reservations.push(new.clone());
                new
            })
        };
        reservation.allocate(request)
    }

    /// Takes back a block that captured work on `stream` frees. If the block was allocated there in the same capture, it serves the capture
    /// again. Otherwise it is kept until the graph ends.
    pub fn take_back(&self, stream: &Stream, block: Block) {
        let is_own = |known: &Arc<Reservation>| known.home().id() == stream.id() && known.serves(&block);
        if lock(&self.reservations).iter().any(is_own) {
            return drop(block);
        }
        lock(&self.kept).push(block);
    }
}
