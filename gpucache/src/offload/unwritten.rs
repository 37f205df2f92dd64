//! Placed arrays without contents, for programs that write every element first.
#![allow(unsafe_code)]

use super::slot::find_room;
use super::{Placed, host_pools, recorder};
use crate::array::{Array, Element, Room, Shape};
use crate::device::Device;
use gpucache_engine::Result;

impl<T: Element, D: Device> Placed<T, D> {
    /// As [`zeros`](Placed::zeros), but with undefined contents: the device need not clear the memory.
    ///
    /// # Errors
    /// As for [`Array::zeros`].
    ///
    /// # Safety
    /// As for [`Array::uninit`]: every element is written, by the host or by work on the device's stream, before anything reads it.
    ///
    /// ```
    /// use gpucache::{prelude::*, offload::Placed};
    ///
    /// // SAFETY: `fill` writes every element.
    /// let mut sums = unsafe { Placed::<f32, _>::uninit(&Host::new(), [2, 3])? };
    /// sums.fetch_mut()?.fill(1.0);
    /// assert_eq!(sums.to_vec()?, [1.0; 6]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub unsafe fn uninit(device: &D, shape: impl Shape) -> Result<Self> {
        // Asked once: what safe code answers the second time may be another shape.
        let dims = shape.dims();
        let room = Placed::<T, D>::room_for(device, dims)?;
        // SAFETY: the caller promises to write every element first. An array that leaves before that is copied as it is.
        let array = unsafe { Array::uninit_in(room) };
        Ok(Placed::with(array, recorder::placement()))
    }

    /// Memory for a new array of this shape: where the schedule has it, or else where other arrays leave for it.
    pub(super) fn room_for(device: &D, dims: &[usize]) -> Result<Room<T>> {
        let bytes = dims.iter().try_fold(size_of::<T>(), |bytes, &dim| bytes.checked_mul(dim)).unwrap_or(0);
        let (at, handle) = (recorder::make_way(), device.stream_handle());
        handle.check()?;
        // The handle of the per-thread default streams has no work of its own.
        let here = handle.here()?;
        let stream = here.as_ref().unwrap_or(handle);
        find_room(&host_pools::of(stream), stream, dims, (bytes as u64, at))
    }
}
