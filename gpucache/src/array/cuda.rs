//! Arrays on CUDA: as `CudaSlice`s for callers that need a slice, and as plain pointers for launches.
//!
//! Invariant: if a use shows its stream, the stream is compared with the array's own by the driver's id, and ordered by the uses that
//! the block knows; cudarc's objects are never asked which streams exist. If a use shows no stream, the block's
//! [`ForeignUses`] notes what was lent.
#![allow(unsafe_code)]

mod foreign_uses;
mod graph;
mod launch;
mod slices;
mod view;
mod view_mut;

use std::ops::Deref;
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{
    CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DeviceSlice, LaunchArgs, PushKernelArg, SyncOnDrop,
};

use foreign_uses::ForeignUses;
#[cfg(feature = "nccl")]
use foreign_uses::MemoryOwner;
pub use graph::Graph;
pub use launch::{KernelArgument, Launch};
use slices::TrackedSlice;
pub use view::ArrayView;
pub use view_mut::ArrayViewMut;

use super::{Array, Element};
use crate::device::{Cuda, Device};
use gpucache_engine::cache::Block;
#[cfg(feature = "nccl")]
use gpucache_engine::device::Stream;
use gpucache_engine::device::{GpuStream, Peer};
use gpucache_engine::{Error, Result};

/// A write whose end the code that queues its work tells (`Block::end_write_on`): the block, and the stream that it knows as its writer.
/// Otherwise a write lasts until the array is dropped, and whoever waits for it waits for all work that is on its stream at that time. A
/// training step reduces its gradients on one stream, while another one reads those that are done. With known ends, one event serves all
/// writes of an epoch, and the end of the step needs none.
#[cfg(feature = "nccl")]
pub(crate) type QueuedWrite<'a> = Option<(&'a Block, Stream)>;

impl<T: Element> Array<T, Cuda> {
    fn foreign_uses(&self) -> &ForeignUses<T> {
        match self.block.view(|| ForeignUses::new(self.device())) {
            Some(uses) => uses,
            // Views are created here and where a slice is adopted. A record that keeps its view from one life to the next is in a
            // list, and all blocks of a list have the same dtype and shape (`Record::leave_view`).
            None => unreachable!("a block's view of another type"),
        }
    }

    /// Orders later work of the array's own stream behind other streams' writes.
    fn catch_up(&self) {
        let ordered = self.block.read_on(self.block.stream());
        ordered.unwrap_or_else(|error| self.device().0.wait_instead(error));
    }

    /// Orders later work of the array's own stream behind all uses by other streams.
    fn take_over(&mut self) {
        let ordered = self.block.end_uses();
        ordered.unwrap_or_else(|error| self.device().0.wait_instead(error));
    }

    /// A slice for one read that cudarc reports, or for any number of unreported reads.
    fn lend(&self, is_untold: bool) -> &TrackedSlice<T> {
        self.catch_up();
        self.foreign_uses().reading(&self.block, is_untold)
    }

    /// The slice for writes.
    fn lend_mut(&mut self, is_untold: bool) -> &mut CudaSlice<T> {
        self.take_over();
        self.foreign_uses().slices(&self.block);
        match self.block.view_mut::<ForeignUses<T>>().and_then(|uses| uses.writing(is_untold)) {
            Some(slice) => slice,
            None => unreachable!("a block's view of another type"),
        }
    }

    /// Called before a slice is lent whose uses are not reported, when the array's own stream is behind all others. If a stream may use
    /// the slice that cudarc does not order behind the slice's events, the calling thread waits for the array's stream.
    fn let_out(&self) {
        let context = self.device().stream().context();
        let is_left_alone = !context.is_in_multi_stream_mode() || self.device().0.has_deaf();
        if context.is_event_tracking() && is_left_alone && self.device().0.is_mixed() {
            self.device().0.wait_for_work().unwrap_or_else(|error| self.device().0.wait_instead(error));
        }
    }

    /// Whether a launch by cudarc's own builder counts as one on the array's own stream. This is so if the context object has no other
    /// streams, and this process has shown none of another object. (A context that tracks no events leaves the order to the program.)
    #[inline]
    fn is_alone(&self) -> bool {
        let context = self.device().stream().context();
        let is_mixed = || context.is_event_tracking() && self.device().0.is_mixed();
        !(context.is_managing_stream_synchronization() || is_mixed())
    }

    /// Lets work read the array that is queued on `stream` while the returned guard is alive.
    fn read_guard<'a>(&'a self, stream: &'a CudaStream) -> SyncOnDrop<'a> {
        let peer = self.device().0.peer(stream);
        let ordered = match &peer {
            Peer::Known(user) => self.block.read_on(user.stream_handle()),
            Peer::Home | Peer::Passing => {
                self.catch_up();
                Ok(())
            }
        };
        self.guard(stream, peer, ordered)
    }

    /// Lets work write the array that is queued on `stream` while the returned guard is alive.
    fn write_guard<'a>(&'a mut self, stream: &'a CudaStream) -> SyncOnDrop<'a> {
        let (peer, ordered) = self.order_write(stream);
        self.guard(stream, peer, ordered)
    }

    /// Orders later work of `stream` behind all uses of the array.
    fn order_write(&mut self, stream: &CudaStream) -> (Peer, Result<()>) {
        let peer = self.device().0.peer(stream);
        let ordered = match &peer {
            Peer::Known(user) => self.block.write_on(user.stream_handle()),
            Peer::Home | Peer::Passing => {
                self.take_over();
                Ok(())
            }
        };
        (peer, ordered)
    }

    /// What cudarc has to do after it has queued work that was ordered behind the array's uses. It does nothing if the block
    /// knows the stream. Otherwise, or if the order failed, the calling thread waits.
    fn guard<'a>(&self, stream: &'a CudaStream, peer: Peer, ordered: Result<()>) -> SyncOnDrop<'a> {
        match (ordered, peer) {
            (Ok(()), Peer::Home | Peer::Known(_)) => SyncOnDrop::Record(None),
            (Ok(()), Peer::Passing) => self.foreign_uses().wait_around(stream),
            (Err(error), _) => {
                self.device().0.wait_instead(error);
                self.foreign_uses().wait_around(stream)
            }
        }
    }
}

/// Shared access only: the contents of a `&mut CudaSlice` could be swapped with another slice. Use the array itself as a mutable
/// argument, or its mutable views.
///
/// The slice can be used any number of times, on streams that this crate does not see. Before the array's stream writes the array or
/// reuses its memory, it therefore waits for all work of the array's context. The array itself, as an argument,
/// and its [`as_view`](Array::as_view) cost less.
impl<T: Element> Deref for Array<T, Cuda> {
    type Target = CudaSlice<T>;

    fn deref(&self) -> &CudaSlice<T> {
        let tracked = self.lend(true);
        self.let_out();
        tracked.slice()
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
        (self.block.address(), self.read_guard(stream))
    }
}

impl<T: Element> DevicePtrMut<T> for Array<T, Cuda> {
    fn device_ptr_mut<'a>(&'a mut self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        (self.block.address(), self.write_guard(stream))
    }
}

// SAFETY: this pushes a reference to the field that has the array's device pointer. The field stays at its place as long as the array is
// borrowed, as the launch requires. Or a slice does this, which is borrowed as long.
unsafe impl<'a, 'b: 'a, T: Element> PushKernelArg<&'b Array<T, Cuda>> for LaunchArgs<'a> {
    #[inline(always)]
    fn arg(&mut self, array: &'b Array<T, Cuda>) -> &mut Self {
        array.device().0.note_unknown_work();
        if array.is_alone() {
            array.catch_up();
            return self.arg(array.block.address_ref());
        }
        let tracked = array.lend(array.device().0.is_mixed());
        array.let_out();
        self.arg(tracked.slice())
    }
}

// SAFETY: this pushes a reference to the field that has the array's device pointer. The field stays at its place as long as the array is
// borrowed exclusively, as the launch requires. Or the slice for writes does this, which is borrowed as long.
unsafe impl<'a, 'b: 'a, T: Element> PushKernelArg<&'b mut Array<T, Cuda>> for LaunchArgs<'a> {
    #[inline(always)]
    fn arg(&mut self, array: &'b mut Array<T, Cuda>) -> &mut Self {
        array.device().0.note_unknown_work();
        if array.is_alone() {
            array.take_over();
            return self.arg(array.block.address_ref());
        }
        let is_untold = array.device().0.is_mixed();
        array.take_over();
        array.let_out();
        self.arg(array.lend_mut(is_untold))
    }
}

#[cfg(feature = "nccl")]
impl<T: Element> Array<T, Cuda> {
    /// As `device_ptr_mut`, for one write whose end the caller tells. If the block does not know the stream, the write lasts until the array is
    /// dropped.
    pub(crate) fn queue_write<'a>(&'a mut self, stream: &'a CudaStream) -> (u64, SyncOnDrop<'a>, QueuedWrite<'a>) {
        let (peer, ordered) = self.order_write(stream);
        let writer = match &peer {
            Peer::Known(user) if ordered.is_ok() => Some(user.stream_handle().clone()),
            _ => None,
        };
        let guard = self.guard(stream, peer, ordered);
        (self.block.address(), guard, writer.map(|writer| (&self.block, writer)))
    }

    /// An array over memory that another library allocated. It belongs to no scope, and its contents are old. Its drop waits for all work
    /// that uses the memory, and frees it by `owner`.
    ///
    /// # Errors
    /// [`is_invalid_shape`](Error::is_invalid_shape) if the bytes overflow.
    ///
    /// # Safety
    /// An array of this shape fits at `address` on the GPU of `device` until `owner` is called or dropped, aligned to 256 bytes, and nobody else uses
    /// that memory. Every element is written before anything reads it.
    pub(crate) unsafe fn owned_by(device: &Cuda, dims: &[usize], address: u64, owner: MemoryOwner) -> Result<Self> {
        let device = Cuda(device.0.clone().here()?);
        let request = super::extent::request::<T>(dims)?;
        let view = Box::new(ForeignUses::<T>::owned_by(&device, owner));
        // SAFETY: the caller promises that the bytes of the request lie at `address` until the owner is called or dropped. The view
        // does that in its own drop only, after all work that it knows of.
        let block = unsafe { Block::adopt(device.stream_handle(), &request, address, view) };
        Ok(Array { block, typed: std::marker::PhantomData })
    }
}

/// Takes the memory out of its scope for good. A plain array's memory is not copied. Memory from the device's range is copied into an
/// allocation of cudarc, because no slice can free the range's pages. So is memory that a graph uses, which the graph keeps.
///
/// # Errors
/// A failure of the device, or no memory for the copy. The array is dropped then.
impl<T: Element> TryFrom<Array<T, Cuda>> for CudaSlice<T> {
    type Error = Error;

    fn try_from(mut array: Array<T, Cuda>) -> Result<CudaSlice<T>> {
        if !array.block.can_leave() {
            return copied(&array);
        }
        // The slice's events are then recorded behind all work on the array's stream.
        array.take_over();
        array.foreign_uses().slices(&array.block);
        match array.block.detach::<ForeignUses<T>>().map(|uses| uses.into_slice()).transpose()?.flatten() {
            Some(slice) => Ok(slice),
            None => unreachable!("a block's view of another type"),
        }
    }
}

fn copied<T: Element>(array: &Array<T, Cuda>) -> Result<CudaSlice<T>> {
    let (stream, bytes) = (array.device().stream(), array.byte_len());
    let (gpu, handle) = (&array.device().0, array.device().stream_handle());
    let failure = |error| gpu.failure("a copy for a CudaSlice", error);
    // cudarc's calls below would return an older failure as their own.
    gpu.take_kept(stream.context());
    handle.check()?;
    handle.check_thread()?;
    // A slice without elements also has an allocation, for its drop to free.
    // SAFETY: nobody reads the memory before it is written: the copy below writes `bytes` bytes, which are all that the slice
    // covers.
    let memory = unsafe { stream.alloc::<u8>(bytes.max(1)) }.map_err(failure)?;
    let mut slice = slices::upgrade(array.device(), memory.leak(), array.len());
    if bytes > 0 {
        stream.memcpy_dtod(array, &mut slice).map_err(failure)?;
    }
    handle.check_thread()?;
    Ok(slice)
}

/// A one-dimensional array over the slice's own memory. The memory is freed with the array; no scope keeps it.
///
/// # Errors
/// Those of [`Cuda::with_stream`].
impl<T: Element> TryFrom<CudaSlice<T>> for Array<T, Cuda> {
    type Error = Error;

    fn try_from(slice: CudaSlice<T>) -> Result<Array<T, Cuda>> {
        let device = Cuda(GpuStream::of(slice.stream().clone())?.here()?);
        let address = slice.device_ptr(device.stream()).0;
        let dims = [slice.len()];
        let request = super::extent::request::<T>(&dims)?;
        let view = Box::new(ForeignUses::adopting(&device, slice));
        // SAFETY: the slice has `dims` elements at `address`. The view owns it, and frees the memory when it is dropped.
        let block = unsafe { Block::adopt(device.stream_handle(), &request, address, view) };
        Ok(Array { block, typed: std::marker::PhantomData })
    }
}
