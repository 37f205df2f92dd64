//! Arrays by their address, for work that this crate is not shown: it is in order once it is announced.

use super::{Array, Element};
use crate::device::Device;
use gpucache_engine::Result;

impl<T: Element, D: Device> Array<T, D> {
    /// Where the first element lies in the device's memory; 0 without elements. The calling thread waits for nothing. Work on
    /// the array's own stream is in order with its other uses: it comes behind those before this call, and those afterwards
    /// behind it. (Where a stream without a handle, or a slice, reads the array while it is shared, a write by address comes
    /// behind that once it is announced by [`announce_write`](Array::announce_write).) Work on other streams is in order once it
    /// was announced ([`announce_read`](Array::announce_read), [`announce_write`](Array::announce_write)).
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let array = Host::new().zeros::<f32>([2, 3])?;
    /// assert!(array.address().is_multiple_of(256));
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn address(&self) -> u64 {
        self.block.bare_address()
    }

    /// Announces that work which is put on the stream of `device` from now on reads this array, through its address or otherwise.
    ///
    /// That work waits for what is on the array's own stream now, and for writes that were announced before; the array's
    /// memory is used again, and written by whoever announces it, only after that work, put there before the array is
    /// dropped or written. It costs one event for everything that is on a stream, and none for an array's own.
    ///
    /// Launches and copies that show their stream ([`Host::launch`](crate::device::Host::launch), cudarc's copies and cuBLAS,
    /// kernel launches) need no such word.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) for a stream of another device, or while a graph is captured; a failure
    /// of the device.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let (mine, other) = (Host::new_stream()?, Host::new_stream()?);
    /// let array = Array::full(&mine, 100, 1u8)?;
    /// array.announce_read(&other)?; // `other` may be given work on the array's address now
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    #[doc(alias = "record_stream")]
    pub fn announce_read(&self, device: &D) -> Result<()> {
        self.block.read_on(device.stream_handle())
    }

    /// As [`announce_read`](Array::announce_read), for work that writes: it also waits for all work that was announced to read.
    ///
    /// # Errors
    /// As for [`announce_read`](Array::announce_read).
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let (mine, other) = (Host::new_stream()?, Host::new_stream()?);
    /// let mut array = mine.zeros::<u8>(100)?;
    /// array.announce_write(&other)?; // `other` may be given work that writes at the array's address now
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    #[doc(alias = "record_stream")]
    pub fn announce_write(&mut self, device: &D) -> Result<()> {
        self.block.write_on(device.stream_handle())
    }
}
