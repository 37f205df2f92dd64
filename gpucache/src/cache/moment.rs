//! Points in a stream's work, and how another stream is put behind them.

use crate::base::error::{Error, Result};
use crate::device::Stream;
use crate::order::Epoch;
use crate::range::DeviceRange;

/// A point in a stream's work.
pub(super) struct Moment {
    stream: Stream,
    /// `None` on a device without a range, which knows of no epochs.
    epoch: Option<Epoch>,
}

impl Moment {
    /// Now. Calls no device.
    pub(super) fn now(stream: &Stream) -> Moment {
        let epoch = DeviceRange::of(stream).map(|range| range.used(stream));
        Moment { stream: stream.clone(), epoch }
    }

    /// The end of an epoch that the stream told.
    pub(super) fn at(stream: &Stream, epoch: u64) -> Moment {
        Moment { stream: stream.clone(), epoch: Some(Epoch::numbered(epoch)) }
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Orders later work of `stream` behind it.
    ///
    /// # Errors
    /// A failure of the device, or a capture on either stream.
    pub(super) fn precede(&self, stream: &Stream) -> Result<()> {
        if self.stream.queue() == stream.queue() {
            return Ok(());
        }
        match (DeviceRange::of(stream), self.epoch) {
            (Some(range), Some(epoch)) => range.order(stream, &self.stream, epoch),
            _ => stream.follow(&self.stream),
        }
    }
}

/// Orders later work of `stream` behind all that is on `other` now.
///
/// # Errors
/// [`is_unavailable`](crate::Error::is_unavailable) for streams of two devices; otherwise as for [`Moment::precede`].
pub(super) fn order(stream: &Stream, other: &Stream) -> Result<()> {
    if stream.memory_id() != other.memory_id() {
        return Err(Error::unavailable(
            "an array of another device",
            "its memory and this stream share no events",
            "copy it to this stream's device, or use a stream of its own",
        ));
    }
    Moment::now(other).precede(stream)
}
