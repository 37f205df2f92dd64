//! Memory that stays reserved for work that is repeated behind the program's back, as a captured graph is.
//!
//! While a reservation is made, what is allocated on its stream comes from the range, as memory of a stream of its own over
//! the same queue: what is dropped in between serves the next allocation of the same reservation, and nothing else. Blocks
//! of others that are used meanwhile are kept when they are dropped. When it ends, all of this is free as if it had been
//! dropped at that moment.

use super::block::Block;
use super::record::Record;
use super::supply;
use crate::base::error::Result;
use crate::base::key::Request;
use crate::device::Stream;
use crate::range::DeviceRange;

/// Memory that nobody else gets while this lives.
pub(crate) struct Reservation {
    stream: Stream,
    /// The stream over whose queue it is.
    home: Stream,
}

impl Reservation {
    /// Reserves what is allocated on `stream`, and what is used there, from now on.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) if that is done already.
    pub(crate) fn begin(stream: &Stream) -> Result<Reservation> {
        Ok(Reservation { stream: stream.reserve()?, home: stream.clone() })
    }

    /// No more is reserved than what is by now.
    pub(crate) fn close(&self) {
        self.home.end_reserving();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.close();
        let kept = self.stream.end_reservation();
        if let Some(range) = DeviceRange::of(&self.stream) {
            range.release(&self.stream);
        }
        // Back where each came from, behind all that is on the queue now.
        drop(kept);
    }
}

/// Memory on the stream of a reservation, of no scope. Repeated work writes it at any time.
pub(super) fn allocate(stream: &Stream, request: &Request<'_>) -> Result<Box<Record>> {
    let record = supply::reserved(stream, request)?;
    record.bare()?;
    Ok(record)
}

/// Keeps a record that is dropped for the reservations that it was used in, for one after the other; hands it out if all of
/// them have ended.
pub(super) fn keep(mut record: Box<Record>) -> Option<Box<Record>> {
    while let Some(mut streams) = record.take_reservations() {
        let Some(stream) = streams.pop() else { break };
        streams.iter().for_each(|other| record.keep_for(other));
        match stream.keep_reserved(Box::new(Block::of(record))) {
            Ok(()) => return None,
            Err(block) => record = block.into_record(),
        }
    }
    Some(record)
}

#[cfg(test)]
mod tests {
    use super::{Block, Reservation};
    use crate::base::key::Request;
    use crate::device::{Device, Stream, Virtual};
    use crate::range::{DeviceRange, Patience};

    const BYTES: usize = 2 << 20;

    fn new(stream: &Stream) -> Block {
        Block::allocate(stream, &Request::of::<u8>(&[BYTES]).unwrap()).unwrap()
    }

    fn held(device: &Virtual) -> usize {
        DeviceRange::of(device.stream_handle()).unwrap().trim(0, Patience::None).unwrap();
        device.memory().bytes as usize
    }

    #[test]
    fn what_is_reserved_serves_its_reservation_alone() {
        let device = Virtual::new(64 * BYTES);
        let stream = device.stream_handle();
        let reservation = Reservation::begin(stream).unwrap();
        assert!(Reservation::begin(stream).is_err_and(|error| error.is_unavailable()));
        let first = new(stream).address();
        let again = new(stream);
        assert_eq!(again.address(), first, "dropped within, it serves again");
        let other = new(stream);
        reservation.close();
        drop(again);
        // Its stream is a handle for others now.
        let outside = [new(stream), new(other.stream())];
        assert!(outside.iter().all(|block| block.address() != first && block.stream().id() == stream.id()));
        drop(outside);
        assert_eq!(held(&device), 2 * BYTES, "what is reserved is no free memory");
        drop(reservation);
        // The queue of both is one, so that what the one freed is the other's at once.
        let next = Reservation::begin(stream).unwrap();
        assert_eq!(new(stream).address(), first);
        drop(next);
        assert_eq!(held(&device), BYTES, "one is alive");
        drop(other);
        assert_eq!(held(&device), 0);
    }

    #[test]
    fn what_is_used_meanwhile_is_kept() {
        let device = Virtual::new(64 * BYTES);
        let stream = device.stream_handle();
        let setup = Reservation::begin(stream).unwrap();
        let of_another = new(stream);
        setup.close();
        drop(setup);
        let mut used = [new(stream), of_another];
        let reservations = [(); 2].map(|()| {
            let reservation = Reservation::begin(stream).unwrap();
            used[0].fill(&[1]).unwrap();
            used[1].read_on(stream).unwrap();
            reservation.close();
            reservation
        });
        assert_eq!(device.memory().bytes as usize, 2 * BYTES);
        drop(used);
        let [first, second] = reservations;
        assert_eq!(held(&device), 2 * BYTES, "two keep them");
        drop(first);
        assert_eq!(held(&device), 2 * BYTES, "one keeps them");
        drop(second);
        assert_eq!(held(&device), 0);
    }
}
