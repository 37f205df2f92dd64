//! What front ends ask a stream and a device's memory, and users of front ends do not see.
//!
//! These are traits, so that a front end can hand [`Stream`] and [`Memory`] on to its users without them.

use std::sync::Arc;

use super::every;
use super::memory::Memory;
use super::meter::Meter;
use super::stream::Stream;
use crate::base::error::{Error, Result};

/// What a front end asks a [`Stream`].
pub trait StreamInside {
    /// Names the stream, for the life of the process.
    fn id(&self) -> u64;

    /// The memory that its blocks lie in.
    fn memory(&self) -> &Arc<Memory>;

    /// Names the queue through which the work goes: streams with the same one are in order with each other.
    fn queue(&self) -> u64;

    /// Names the device, for the life of the process.
    fn memory_id(&self) -> u64;

    /// Counts what the device holds for this process.
    fn meter(&self) -> &Meter;

    /// Returns the failure of an earlier drop or of late work on this stream, once.
    ///
    /// # Errors
    /// That failure.
    fn check(&self) -> Result<()>;

    /// Returns the failure that a library below the backend kept.
    ///
    /// # Errors
    /// That failure.
    fn check_kept(&self) -> Result<()>;

    /// Keeps the first failure for [`check`](StreamInside::check).
    fn keep(&self, error: Error);

    /// Waits until all work of the stream is done.
    ///
    /// # Errors
    /// What the device answered.
    fn synchronize(&self) -> Result<()>;

    /// Whether work that is put on the stream is captured into a graph now.
    fn is_capturing(&self) -> bool;

    /// Whether the kind of device has graphs at all.
    fn can_capture(&self) -> bool;

    /// The stream that it means on the calling thread, if that is another one on each.
    ///
    /// # Errors
    /// The thread has none, as it is about to end.
    fn here(&self) -> Result<Option<Stream>>;
}

#[doc(hidden)]
impl StreamInside for Stream {
    #[inline]
    fn id(&self) -> u64 {
        Stream::id(self)
    }

    #[inline]
    fn memory(&self) -> &Arc<Memory> {
        Stream::memory(self)
    }

    #[inline]
    fn queue(&self) -> u64 {
        Stream::queue(self)
    }

    fn memory_id(&self) -> u64 {
        Stream::memory_id(self)
    }

    fn meter(&self) -> &Meter {
        Stream::meter(self)
    }

    #[inline]
    fn check(&self) -> Result<()> {
        Stream::check(self)
    }

    fn check_kept(&self) -> Result<()> {
        Stream::check_kept(self)
    }

    fn keep(&self, error: Error) {
        Stream::keep(self, error);
    }

    fn synchronize(&self) -> Result<()> {
        Stream::synchronize(self)
    }

    fn is_capturing(&self) -> bool {
        Stream::is_capturing(self)
    }

    fn can_capture(&self) -> bool {
        Stream::can_capture(self)
    }

    #[inline]
    fn here(&self) -> Result<Option<Stream>> {
        Stream::here(self)
    }
}

/// What a front end asks a device's [`Memory`].
pub trait MemoryInside {
    /// The memories of all devices of the process, in the order in which their first streams came.
    fn every() -> Vec<Arc<Memory>>;

    /// Names the device, for the life of the process.
    fn id(&self) -> u64;

    /// Counts what the device holds for this process.
    fn meter(&self) -> &Arc<Meter>;

    /// How many bytes the device has, if it tells.
    fn capacity(&self) -> Option<u64>;

    /// The most bytes that one allocation could have if nothing else were held: by the device's size and by the limits.
    fn most(&self) -> u64;

    /// The host's memory for arrays that leave this device. It lasts as long as the device.
    fn host_side(&self) -> &Arc<Memory>;

    /// The same, if any array ever left.
    fn known_host_side(&self) -> Option<&Arc<Memory>>;

    /// Somebody gets an address of this memory, and does not tell on which stream it is used.
    fn note_unknown_work(&self);
}

#[doc(hidden)]
impl MemoryInside for Memory {
    fn every() -> Vec<Arc<Memory>> {
        every::every()
    }

    #[inline]
    fn id(&self) -> u64 {
        Memory::id(self)
    }

    fn meter(&self) -> &Arc<Meter> {
        Memory::meter(self)
    }

    fn capacity(&self) -> Option<u64> {
        Memory::capacity(self)
    }

    fn most(&self) -> u64 {
        Memory::most(self)
    }

    fn host_side(&self) -> &Arc<Memory> {
        Memory::host_side(self)
    }

    fn known_host_side(&self) -> Option<&Arc<Memory>> {
        Memory::known_host_side(self)
    }

    fn note_unknown_work(&self) {
        Memory::note_unknown_work(self);
    }
}
