//! Access to arrays by their address, for work that this crate does not see. Once the work is announced, it is ordered.

use super::{Array, Element};
use crate::device::Device;
use gpucache_engine::Result;

impl<T: Element, D: Device> Array<T, D> {
    /// The address of the first element in the device's memory; 0 without elements. The calling thread does not wait.
    ///
    /// Work on the array's own stream is ordered with the array's other uses, before and after this call. (There is one exception: a
    /// stream without a handle, or a slice, may read the array while it is shared. A write by address waits for that read only after
    /// [`announce_write`](Array::announce_write).) Work on other streams must be announced to be ordered:
    /// [`announce_read`](Array::announce_read), [`announce_write`](Array::announce_write).
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

    /// Announces a read of this array, by its address or otherwise, by work that is queued on the stream of `device` after
    /// this call.
    ///
    /// That work waits for everything that is on the array's own stream now, and for writes that were announced before. In turn,
    /// announced writes and the reuse of the memory wait for this work, if it is queued before the array is written or dropped. The
    /// call costs one event for all work on a stream, and none for the array's own stream.
    ///
    /// Launches and copies that show their stream ([`Host::launch`](crate::device::Host::launch), cudarc's copies and cuBLAS,
    /// kernel launches) need no announcement.
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

    /// Like [`announce_read`](Array::announce_read), but for work that writes: it also waits for all work that was announced to read.
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
