//! Arrays on CUDA: `CudaSlice`s for whoever wants one, plain pointers for launches.
//!
//! Invariants: the `CudaSlice` of a block is made once, when it is first asked for, stays with the block through its
//! lives, and never frees the memory unless it was adopted. While cudarc manages several streams, every use goes through
//! it and so through its events; while there is one stream, none does, and no event is recorded.
#![allow(unsafe_code)]

use std::mem::ManuallyDrop;
use std::ops::{Deref, RangeBounds};
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{
    CudaSlice, CudaStream, CudaViewMut, DevicePtr, DevicePtrMut, DeviceSlice, LaunchArgs, PushKernelArg, SyncOnDrop,
};

use super::{Array, Element, len_of};
use crate::base::error::{Error, Result};
use crate::base::key::Request;
use crate::cache::{Block, View};
use crate::device::{Cuda, Device};

/// A block's memory as a `CudaSlice`.
struct Lent<T: Element> {
    slice: ManuallyDrop<CudaSlice<T>>,
    /// Whether the slice owns the memory, or the block does.
    adopted: bool,
}

impl<T: Element> Array<T, Cuda> {
    fn slice(&self) -> &CudaSlice<T> {
        match self.block.view(|| Lent::of(&self.block)) {
            Some(lent) => &lent.slice,
            // A block's dtype is `T` in all its lives, and this is the one place that makes its view.
            None => unreachable!("a block's view of another type"),
        }
    }

    fn slice_mut(&mut self) -> &mut CudaSlice<T> {
        self.slice();
        match self.block.view_mut::<Lent<T>>() {
            Some(lent) => &mut lent.slice,
            None => unreachable!("a block's view of another type"),
        }
    }

    /// Whether cudarc orders streams by events now, which a slice's own events are needed for.
    fn is_tracked(&self) -> bool {
        self.device().stream().context().is_managing_stream_synchronization()
    }

    /// All elements as a mutable view, for calls that take views by value.
    pub fn as_view_mut(&mut self) -> CudaViewMut<'_, T> {
        self.slice_mut().as_view_mut()
    }

    /// A part of the elements as a mutable view; `None` if `range` does not lie within the array.
    pub fn try_slice_mut(&mut self, range: impl RangeBounds<usize>) -> Option<CudaViewMut<'_, T>> {
        self.slice_mut().try_slice_mut(range)
    }

    /// The first `mid` elements and the others as mutable views; `None` if there are fewer.
    pub fn try_split_at_mut(&mut self, mid: usize) -> Option<(CudaViewMut<'_, T>, CudaViewMut<'_, T>)> {
        self.slice_mut().try_split_at_mut(mid)
    }
}

/// Shared access only: a mutable `CudaSlice` could be swapped for another one. Use the array itself as a mutable
/// argument, or its mutable views.
impl<T: Element> Deref for Array<T, Cuda> {
    type Target = CudaSlice<T>;

    fn deref(&self) -> &CudaSlice<T> {
        self.slice()
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
        match self.is_tracked() {
            true => read_behind_others(self.slice(), stream),
            false => (self.block.address(), SyncOnDrop::Record(None)),
        }
    }
}

impl<T: Element> DevicePtrMut<T> for Array<T, Cuda> {
    fn device_ptr_mut<'a>(&'a mut self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        match self.is_tracked() {
            true => self.slice_mut().device_ptr_mut(stream),
            false => (self.block.address(), SyncOnDrop::Record(None)),
        }
    }
}

// SAFETY: pushes the place that holds the array's device pointer, which stays where it is for as long as the array is
// borrowed, as the launch needs it; or leaves this to the slice.
unsafe impl<'a, 'b: 'a, T: Element> PushKernelArg<&'b Array<T, Cuda>> for LaunchArgs<'a> {
    #[inline(always)]
    fn arg(&mut self, array: &'b Array<T, Cuda>) -> &mut Self {
        match array.is_tracked() {
            true => self.arg(array.slice()),
            false => self.arg(array.block.address_ref()),
        }
    }
}

// SAFETY: as for the shared reference.
unsafe impl<'a, 'b: 'a, T: Element> PushKernelArg<&'b mut Array<T, Cuda>> for LaunchArgs<'a> {
    #[inline(always)]
    fn arg(&mut self, array: &'b mut Array<T, Cuda>) -> &mut Self {
        match array.is_tracked() {
            true => self.arg(array.slice_mut()),
            false => self.arg(array.block.address_ref()),
        }
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
        array.slice();
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
    let mut slice = upgrade(stream, memory.leak(), array.len());
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
        let view = Box::new(Lent { slice: ManuallyDrop::new(slice), adopted: true });
        let block = Block::adopt(device.stream_handle(), &Request::of::<T>(&dims)?, address, view);
        Ok(Array { block, typed: std::marker::PhantomData })
    }
}

impl<T: Element> Lent<T> {
    /// A slice over the memory of a block, ordered behind all work that is on the block's stream by now.
    fn of(block: &Block) -> Lent<T> {
        // SAFETY: the block of an `Array<T, Cuda>` lies on the stream of a `Cuda`.
        let stream = unsafe { Cuda::from_stream_handle(block.stream()) }.stream();
        let mut slice = upgrade(stream, block.address(), len_of::<T>(block));
        // Fresh events order nothing. This records one behind the work so far.
        drop(slice.device_ptr_mut(stream));
        Lent { slice: ManuallyDrop::new(slice), adopted: false }
    }

    fn into_slice(self) -> CudaSlice<T> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, so its slice is taken once, and it owns the memory from now on.
        unsafe { ManuallyDrop::take(&mut this.slice) }
    }
}

impl<T: Element> View for Lent<T> {
    fn read(&self, operation: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let (_, _recorded) = read_behind_others(&self.slice, self.slice.stream());
        operation()
    }

    fn write(&mut self, operation: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let stream = self.slice.stream().clone();
        let (_, _recorded) = self.slice.device_ptr_mut(&stream);
        operation()
    }
}

impl<T: Element> Drop for Lent<T> {
    fn drop(&mut self) {
        // SAFETY: taken here alone, in the one drop.
        let slice = unsafe { ManuallyDrop::take(&mut self.slice) };
        let context = slice.context().clone();
        // `CudaSlice` frees in whatever context is current.
        context.record_err(context.bind_to_thread());
        if self.adopted {
            drop(slice);
        } else {
            // Orders the stream behind the slice's uses, and leaves the memory to the block.
            let _ = slice.leak();
        }
    }
}

/// As [`DevicePtr::device_ptr`], behind earlier reads too: a slice has one event for reads, which this read records anew,
/// and so must stand for all of them.
fn read_behind_others<'a, T>(slice: &'a CudaSlice<T>, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
    let (address, recorded) = slice.device_ptr(stream);
    if let SyncOnDrop::Record(Some((reads, _))) = &recorded
        && slice.context().is_managing_stream_synchronization()
    {
        stream.context().record_err(stream.wait(reads));
    }
    (address, recorded)
}

/// A `CudaSlice` over memory. cudarc panics if it cannot make the slice's events, so this sees first whether it can; if
/// not, the context is lost, the slice has no events, and the next fallible call says so.
fn upgrade<T>(stream: &Arc<CudaStream>, address: u64, len: usize) -> CudaSlice<T> {
    let context = stream.context();
    let lost = context.is_event_tracking().then(|| context.new_event(None).err()).flatten();
    // SAFETY: slices made meanwhile lack events, as this one does; no stream of a lost context runs anything.
    lost.inspect(|_| unsafe { context.disable_event_tracking() });
    // SAFETY: the block has room for `len` elements at `address`; `Lent` sees to it that the slice does not free it.
    let slice = unsafe { stream.upgrade_device_ptr(address, len) };
    if let Some(error) = lost {
        // SAFETY: as it was before.
        unsafe { context.enable_event_tracking() };
        context.record_err::<()>(Err(error));
    }
    slice
}
