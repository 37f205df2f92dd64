//! Copies of arrays between streams and between devices. Also access by their address, for work that this crate does not see: once the work is
//! announced, it is ordered.

use super::extent::same_len;
use super::{Array, Element};
use crate::device::Device;
use gpucache_engine::Result;

impl<T: Element, D: Device> Array<T, D> {
    /// A copy of this array on another device or stream, in the order of both streams.
    ///
    /// The copy waits for the work that is on this array's stream now. Later work on the copy and later writes of this array wait until
    /// the copy is done. The calling thread does not wait for copies between streams of one device and between two GPUs. Copies between
    /// GPUs run on a stream of their own. Between a GPU and a host they pass through the calling thread, which waits.
    ///
    /// # Errors
    /// As for [`zeros`](Array::zeros) on `device`; a failure of either device; [`is_unavailable`](crate::Error::is_unavailable) between two
    /// GPUs while a graph is captured.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let (first, second) = (Host::new_stream()?, Host::new_stream()?);
    /// let activations = Array::full(&first, [2, 3], 0.5f32)?; // work of the first stage
    /// let input = activations.to_device(&second)?; // for the second one
    /// assert_eq!(input.to_vec()?, [0.5; 6]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    #[track_caller]
    pub fn to_device<E: Device>(&self, device: &E) -> Result<Array<T, E>> {
        let mut copy = Array::allocate(device, self.shape())?;
        copy.copy_from(self)?;
        Ok(copy)
    }

    /// Overwrites all elements with those of an array of the same length, on any device and stream. The streams are ordered as for
    /// [`to_device`](Array::to_device).
    ///
    /// # Errors
    /// [`is_invalid_shape`](crate::Error::is_invalid_shape) if the lengths differ; otherwise as for [`to_device`](Array::to_device).
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let (first, second) = (Host::new_stream()?, Host::new_stream()?);
    /// let mut input = Array::<f32, _>::zeros(&second, 6)?;
    /// input.copy_from(&Array::full(&first, [2, 3], 0.5f32)?)?;
    /// assert_eq!(input.to_vec()?, [0.5; 6]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn copy_from<E: Device>(&mut self, other: &Array<T, E>) -> Result<()> {
        same_len::<T>(self.shape(), other.len())?;
        let (to, from) = (self.block.stream(), other.block.stream());
        to.check()?;
        from.check()?;
        if to.memory_id() == from.memory_id() {
            return self.block.copy_from(&other.block);
        }
        #[cfg(feature = "cuda")]
        if self.block.copy_across(&other.block)? {
            return Ok(());
        }
        self.copy_from_slice(&other.to_vec()?)
    }

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
