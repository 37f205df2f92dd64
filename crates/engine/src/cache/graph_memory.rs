//! The memory of a graph that other code captures, launches and destroys.
//!
//! The graph may be launched on any stream and at any time. So its memory is reserved ([`Reservation::apart`]) until the driver tells that
//! the graph, everything made from it, and all launches have ended ([`GraphEnd`]). If the driver never tells it, the memory stays reserved.
//!
//! The driver tells an end on a thread of its own, or within some call. The memory is freed later: when a thread next requests memory of a
//! device, or trims a device, while no graph is captured.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::block::Block;
use super::reservation::Reservation;
use crate::base::error::Result;
use crate::base::sync::{Mutex, lock};
use crate::device::{GraphEnd, Stream};
use crate::record::Request;

/// The reservations of one graph, and the blocks that its work uses and that were freed in its capture.
pub struct GraphMemory {
    end: GraphEnd,
    /// One for each stream that is captured, since the streams are in no order.
    reservations: Mutex<Vec<Arc<Reservation>>>,
    kept: Mutex<Vec<Block>>,
}

/// The memory of all graphs that may be launched again.
static ALL: Mutex<Vec<Arc<GraphMemory>>> = Mutex::new(Vec::new());

/// The number of ends up to which memory was freed.
static SEEN: AtomicUsize = AtomicUsize::new(0);

impl GraphMemory {
    /// Memory that stays reserved until `end` comes.
    pub fn until(end: GraphEnd) -> Arc<GraphMemory> {
        let new = Arc::new(GraphMemory { end, reservations: Mutex::default(), kept: Mutex::default() });
        lock(&ALL).push(new.clone());
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

    /// Frees the memory of graphs that have ended. While a graph is captured, it stays: the return of a block may call the driver.
    #[inline]
    pub fn free_ended() {
        if GraphEnd::count() != SEEN.load(Relaxed) {
            GraphMemory::free();
        }
    }

    #[cold]
    fn free() {
        if Stream::is_any_in_capture() {
            return;
        }
        // Read first: an end that comes meanwhile is seen the next time.
        SEEN.store(GraphEnd::count(), Relaxed);
        let ended: Vec<_> = lock(&ALL).extract_if(.., |memory| memory.end.has_come()).collect();
        // The blocks return while no lock is held.
        drop(ended);
    }
}
