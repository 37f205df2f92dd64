//! Memory that stays reserved for work that is repeated behind the program's back, as a captured graph is.
//!
//! While a reservation is made, what is allocated on its stream comes from the range, as memory of a stream of its own over
//! the same queue: what is dropped in between serves the next allocation of the same reservation, and nothing else. Blocks
//! of others that are used meanwhile are kept when they are dropped. When it ends, all of this is free as if it had been
//! dropped at that moment.

use crate::base::error::Result;
use crate::device::Stream;
use crate::range::DeviceRange;

/// Memory that nobody else gets while this lives.
pub struct Reservation {
    stream: Stream,
    /// The stream over whose queue it is.
    home: Stream,
}

impl Reservation {
    /// Reserves what is allocated on `stream`, and what is used there, from now on.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) if that is done already.
    pub fn begin(stream: &Stream) -> Result<Reservation> {
        Ok(Reservation { stream: stream.reserve()?, home: stream.clone() })
    }

    /// No more is reserved than what is by now.
    pub fn close(&self) {
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
