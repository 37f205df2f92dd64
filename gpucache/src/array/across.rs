//! Copies of arrays between streams and between devices.

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
        let mut copy = Array::for_copy(device, self.shape())?;
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
}
