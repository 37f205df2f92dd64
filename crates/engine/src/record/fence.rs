//! Points in a stream's work, for which another stream can be made to wait.

use crate::base::error::{Error, Result};
use crate::device::Stream;
use crate::order::Epoch;
use crate::range::DeviceRange;

/// A point in a stream's work for which other streams can wait.
pub struct Fence {
    stream: Stream,
    /// `None` on a device without a range, where epochs are not counted.
    epoch: Option<Epoch>,
}

impl Fence {
    /// The present point. Calls no device.
    pub(crate) fn now(stream: &Stream) -> Fence {
        let epoch = DeviceRange::of(stream).map(|range| range.streams(|streams| streams.used(stream)));
        Fence { stream: stream.clone(), epoch }
    }

    /// The present point, with the end of its epoch. A stream that waits for it does not wait for later work of this stream. Costs an
    /// event.
    pub(crate) fn sealed(stream: &Stream) -> Fence {
        let fence = Fence::now(stream);
        DeviceRange::of(stream).into_iter().for_each(|range| range.streams(|streams| streams.seal(stream)));
        fence
    }

    /// The end of an epoch that the stream reported; the present point if it reported none.
    pub(crate) fn told(stream: &Stream, epoch: u64) -> Fence {
        match epoch {
            0 => Fence::now(stream),
            _ => Fence { stream: stream.clone(), epoch: Some(Epoch(epoch)) },
        }
    }

    /// Moves forward to another fence of the same stream, if that one is later.
    pub(crate) fn extend(&mut self, other: Fence) {
        self.epoch = self.epoch.max(other.epoch);
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    pub(crate) fn into_stream(self) -> Stream {
        self.stream
    }

    /// Makes later work of `stream` wait for this point.
    ///
    /// # Errors
    /// A failure of the device, or a capture on either stream.
    pub(crate) fn precede(&self, stream: &Stream) -> Result<()> {
        if self.stream.queue() == stream.queue() {
            return Ok(());
        }
        if self.stream.memory_id() != stream.memory_id() {
            return self.precede_apart(stream);
        }
        match (DeviceRange::of(stream), self.epoch) {
            (Some(range), Some(epoch)) => range.streams(|streams| streams.order(stream, &self.stream, epoch)),
            _ => stream.follow(&self.stream),
        }
    }

    /// Makes later work of a stream of another device wait for all present work. Each device counts epochs of its own streams only.
    #[cold]
    fn precede_apart(&self, stream: &Stream) -> Result<()> {
        if self.stream.is_capturing() || stream.is_capturing() {
            return Err(Error::unavailable(
                "memory that a stream of another device used",
                "a CUDA graph is being captured, and a graph cannot wait for work outside it",
                "free the memory before the capture or after it",
            ));
        }
        stream.follow(&self.stream)
    }
}

/// Makes later work of `stream` wait for the work of `other` up to the end of an epoch that it reported; 0 stands for the present one.
///
/// # Errors
/// [`is_unavailable`](crate::Error::is_unavailable) for streams of two devices; otherwise as for [`Fence::precede`].
pub(crate) fn order(stream: &Stream, other: &Stream, epoch: u64) -> Result<()> {
    if stream.memory_id() != other.memory_id() {
        return Err(Error::unavailable(
            "an array of another device",
            "its memory and this stream share no events",
            "copy it to this stream's device, or use a stream of its own",
        ));
    }
    Fence::told(other, epoch).precede(stream)
}

/// Whether all work that is on the stream now is done, as far as a query tells.
pub(crate) fn is_done(stream: &Stream) -> bool {
    DeviceRange::of(stream).is_some_and(|range| range.streams(|streams| streams.is_done(stream)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Virtual;

    /// The ranges of two devices number the epochs of their own streams. A stream has one number of its present epoch.
    #[test]
    fn a_wait_for_a_stream_of_another_device_leaves_its_epoch() {
        let [home, user] = [(); 2].map(|()| Virtual::new(1 << 30).stream_handle().clone());
        (0..3).for_each(|_| drop(Fence::sealed(&user)));
        let epoch = user.epoch();
        Fence::told(&user, epoch).precede(&home).unwrap();
        assert_eq!(user.epoch(), epoch);
        assert!(order(&home, &user, epoch).unwrap_err().is_unavailable());
    }
}
