//! Arrays on CUDA: `CudaSlice`s for whoever wants one, plain pointers for launches.
//!
//! Invariant: a use on the array's own stream, or on one that is shown ([`Launch`]), is ordered by what the block knows of
//! others, and needs no event of its own. Any other use while cudarc manages several streams goes through the block's
//! `CudaSlice` ([`Lent`]) and so through its events, and once there is that slice, every use does.
#![allow(unsafe_code)]

mod launch;
mod lent;

use std::ops::{Deref, RangeBounds};
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{
    CudaSlice, CudaStream, CudaViewMut, DevicePtr, DevicePtrMut, DeviceSlice, LaunchArgs, PushKernelArg, SyncOnDrop,
};

pub use launch::Launch;
use lent::Lent;

use super::{Array, Element};
use crate::base::error::{Error, Result};
use crate::base::key::Request;
use crate::cache::Block;
use crate::device::{Cuda, Device};

impl<T: Element> Array<T, Cuda> {
    /// The block's slice, behind all that was announced so far.
    fn lent(&self) -> &Lent<T> {
        // Who is not known by a slice yet is waited for by the stream, on which its first event is recorded.
        let make = || {
            let ordered = self.block.read_on(self.block.stream());
            ordered.unwrap_or_else(|error| self.block.stream().keep(error));
            Lent::of(&self.block)
        };
        match self.block.view(make) {
            Some(lent) => lent,
            // A block's dtype is `T` in all its lives, and this is the one place that makes its view.
            None => unreachable!("a block's view of another type"),
        }
    }

    /// The block's slice, exclusively, for a write.
    fn lent_mut(&mut self) -> &mut Lent<T> {
        let has_users = self.block.end_uses();
        self.lent();
        match self.block.view_mut::<Lent<T>>() {
            Some(lent) => {
                if has_users {
                    lent.fall_behind();
                }
                lent
            }
            None => unreachable!("a block's view of another type"),
        }
    }

    /// The memory's address, if no events are needed: one stream alone may use it, and is behind all that did.
    #[inline]
    fn plain(&self) -> Option<&u64> {
        if self.device().stream().context().is_managing_stream_synchronization() {
            return None;
        }
        if let Some(lent) = self.block.known_view::<Lent<T>>() {
            lent.settle();
        }
        Some(self.block.address_ref())
    }

    /// As [`plain`](Array::plain), for a use of this stream, which may be the array's own.
    fn plain_on(&self, stream: &CudaStream) -> Option<&u64> {
        let is_at_home = || self.block.known_view::<Lent<T>>().is_none() && **self.device().stream() == *stream;
        let follows = || self.block.read_on(self.block.stream()).is_ok();
        self.plain().or_else(|| (is_at_home() && follows()).then(|| self.block.address_ref()))
    }

    /// All elements as a mutable view, for calls that take views by value.
    pub fn as_view_mut(&mut self) -> CudaViewMut<'_, T> {
        self.lent_mut().writing().as_view_mut()
    }

    /// A part of the elements as a mutable view; `None` if `range` does not lie within the array.
    pub fn try_slice_mut(&mut self, range: impl RangeBounds<usize>) -> Option<CudaViewMut<'_, T>> {
        self.lent_mut().writing().try_slice_mut(range)
    }

    /// The first `mid` elements and the others as mutable views; `None` if there are fewer.
    pub fn try_split_at_mut(&mut self, mid: usize) -> Option<(CudaViewMut<'_, T>, CudaViewMut<'_, T>)> {
        self.lent_mut().writing().try_split_at_mut(mid)
    }
}

/// Shared access only: a mutable `CudaSlice` could be swapped for another one. Use the array itself as a mutable
/// argument, or its mutable views.
impl<T: Element> Deref for Array<T, Cuda> {
    type Target = CudaSlice<T>;

    fn deref(&self) -> &CudaSlice<T> {
        self.lent().reading()
    }
}

impl<T: Element> DeviceSlice<T> for Array<T, Cuda> {
    fn len(&self) -> usize {
        self.len()
    }

    fn stream(&self) -> &Arc<CudaStream> {
        self.device().stream()
    }
}

impl<T: Element> DevicePtr<T> for Array<T, Cuda> {
    fn device_ptr<'a>(&'a self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        match self.plain_on(stream) {
            Some(address) => (*address, SyncOnDrop::Record(None)),
            None => self.lent().reading().device_ptr(stream),
        }
    }
}

impl<T: Element> DevicePtrMut<T> for Array<T, Cuda> {
    fn device_ptr_mut<'a>(&'a mut self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        match self.plain_on(stream).copied() {
            Some(address) => {
                self.block.end_uses();
                (address, SyncOnDrop::Record(None))
            }
            None => self.lent_mut().writing().device_ptr_mut(stream),
        }
    }
}

// SAFETY: pushes the place that holds the array's device pointer, which stays where it is for as long as the array is
// borrowed, as the launch needs it; or leaves this to the slice.
unsafe impl<'a, 'b: 'a, T: Element> PushKernelArg<&'b Array<T, Cuda>> for LaunchArgs<'a> {
    #[inline(always)]
    fn arg(&mut self, array: &'b Array<T, Cuda>) -> &mut Self {
        match array.plain() {
            Some(address) => self.arg(address),
            None => self.arg(array.lent().reading()),
        }
    }
}

// SAFETY: as for the shared reference.
unsafe impl<'a, 'b: 'a, T: Element> PushKernelArg<&'b mut Array<T, Cuda>> for LaunchArgs<'a> {
    #[inline(always)]
    fn arg(&mut self, array: &'b mut Array<T, Cuda>) -> &mut Self {
        if array.plain().is_some() {
            array.block.end_uses();
            return self.arg(array.block.address_ref());
        }
        self.arg(array.lent_mut().writing())
    }
}

/// The memory leaves its scope for good: without a copy if the array was a plain one, copied into an allocation of
/// cudarc's if a scope had it from the device's range, whose pages no slice can free.
///
/// # Errors
/// A failure of the device, or no memory for the copy; the array is dropped then.
impl<T: Element> TryFrom<Array<T, Cuda>> for CudaSlice<T> {
    type Error = Error;

    fn try_from(array: Array<T, Cuda>) -> Result<CudaSlice<T>> {
        if !array.block.can_leave() {
            return copied(&array);
        }
        array.lent();
        match array.block.detach::<Lent<T>>() {
            Some(lent) => Ok(lent.into_slice()),
            None => unreachable!("a block's view of another type"),
        }
    }
}

fn copied<T: Element>(array: &Array<T, Cuda>) -> Result<CudaSlice<T>> {
    let (stream, bytes) = (array.device().stream(), array.byte_len());
    let failure = |error| Error::device_failure(format_args!("{:?}", array.device()), "a copy for a CudaSlice", error);
    // A slice without elements has an allocation nonetheless, for its drop to free.
    // SAFETY: the copy writes all of it before anyone reads.
    let memory = unsafe { stream.alloc::<u8>(bytes.max(1)) }.map_err(failure)?;
    let mut slice = lent::upgrade(stream, memory.leak(), array.len());
    if bytes > 0 {
        stream.memcpy_dtod(array, &mut slice).map_err(failure)?;
    }
    Ok(slice)
}

/// A one-dimensional array over the slice's own memory, which is freed with it and not kept by a scope.
///
/// # Errors
/// [`is_unavailable`](Error::is_unavailable) if the slice is on a stream that [`Cuda::with_stream`] refuses.
impl<T: Element> TryFrom<CudaSlice<T>> for Array<T, Cuda> {
    type Error = Error;

    fn try_from(slice: CudaSlice<T>) -> Result<Array<T, Cuda>> {
        let device = Cuda::with_stream(slice.stream().clone())?;
        let address = slice.device_ptr(device.stream()).0;
        let dims = [slice.len()];
        let view = Box::new(Lent::adopting(slice));
        let block = Block::adopt(device.stream_handle(), &Request::of::<T>(&dims)?, address, view);
        Ok(Array { block, typed: std::marker::PhantomData })
    }
}
