//! Memory that stays reserved for work that the driver repeats without the program's calls, such as a captured graph.
//!
//! While a reservation is open, allocations on its stream come from the range, through a second stream over the same queue. Memory
//! that is dropped meanwhile serves only later allocations of the same reservation. If blocks of other owners are used meanwhile,
//! the reservation keeps them when they are dropped. When the reservation ends, all of this memory is free, as if it had been
//! dropped at that moment.

#[cfg(feature = "foreign")]
use super::block::Block;
use crate::base::error::Result;
use crate::device::Stream;
use crate::range::DeviceRange;
#[cfg(feature = "foreign")]
use crate::record::Request;

/// Memory that nobody else gets while this value lives.
pub(super) struct Reservation {
    stream: Stream,
    /// The stream over whose queue the reservation is made.
    #[cfg(feature = "foreign")]
    home: Stream,
}

impl Reservation {
    /// From now on, reserves the memory that is allocated or used on `stream`.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) if the stream has an open reservation already.
    pub(super) fn begin(stream: &Stream) -> Result<Reservation> {
        Ok(Reservation {
            stream: stream.reserve()?,
            #[cfg(feature = "foreign")]
            home: stream.clone(),
        })
    }

    /// A reservation on the queue of `stream` that takes only what [`allocate`](Reservation::allocate) asks for.
    #[cfg(feature = "foreign")]
    pub(super) fn apart(stream: &Stream) -> Reservation {
        Reservation { stream: stream.reserved_apart(), home: stream.clone() }
    }

    /// Reserved memory: what was freed in this reservation, or else more memory of the range.
    ///
    /// # Errors
    /// As for [`Block::allocate`].
    #[cfg(feature = "foreign")]
    pub(super) fn allocate(&self, request: &Request<'_>) -> Result<Block> {
        Block::reserved(&self.stream, request)
    }

    /// Whether the block has memory of this reservation.
    #[cfg(feature = "foreign")]
    pub(super) fn serves(&self, block: &Block) -> bool {
        block.stream().id() == self.stream.id()
    }

    /// The stream over whose queue the reservation is made.
    #[cfg(feature = "foreign")]
    pub(super) fn home(&self) -> &Stream {
        &self.home
    }

    /// Ends the reserving: memory that is reserved by now stays reserved, and no more is added.
    pub(super) fn close(&self) {
        self.stream.end_reserving();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.close();
        let kept = self.stream.end_reservation();
        if let Some(range) = DeviceRange::of(&self.stream) {
            range.release(&self.stream);
        }
        // Each block goes back to where it came from, behind all work that is on the queue now.
        drop(kept);
    }
}
