//! The elements of an array in host memory, which the device copies in both directions by itself.

use std::marker::PhantomData;
use std::ops::Range;

use super::extent::request;
use super::{Array, Element};
use crate::device::Device;
use gpucache_engine::Result;
use gpucache_engine::cache::Block;
use gpucache_engine::device::{CopyStream, Span, Stream, process_exits};
use gpucache_engine::record::Fence;

/// A copy of an array's elements.
///
/// Invariant: before anybody gets this value, a copy on the queue of a copy stream has written all of its bytes, from an array of `T`
/// with as many bytes.
pub(crate) struct Away<T> {
    block: Block,
    /// The end of the last copy that reads it.
    read: Option<Fence>,
    typed: PhantomData<T>,
}

/// Memory for an array's elements, on the device or the host, before they are copied there.
pub(crate) struct Room<T> {
    block: Block,
    typed: PhantomData<T>,
}

/// A copy of an array on the other side, the end of the copying on its queue, and its duration if that is measured.
type Copied<C> = (C, Fence, Option<Span>);

impl<T: Element> Room<T> {
    /// Memory on `stream` for an array of this shape. It belongs to no scope.
    ///
    /// # Errors
    /// [`is_out_of_memory`](crate::Error::is_out_of_memory), a failure of the device, or a shape of too many bytes.
    pub(crate) fn new(stream: &Stream, dims: &[usize]) -> Result<Room<T>> {
        Ok(Room { block: Block::of_no_scope(stream, &request::<T>(dims)?)?, typed: PhantomData })
    }

    /// The same at an address; `None` if the memory there is not free.
    ///
    /// # Errors
    /// As for [`new`](Room::new).
    pub(crate) fn at(stream: &Stream, dims: &[usize], address: u64) -> Result<Option<Room<T>>> {
        let block = Block::at(stream, &request::<T>(dims)?, address)?;
        Ok(block.map(|block| Room { block, typed: PhantomData }))
    }

    /// Whether the memory is for an array of this shape.
    pub(crate) fn is_for(&self, dims: &[usize]) -> bool {
        self.block.dims() == dims
    }
}

impl<T: Element, D: Device> Array<T, D> {
    /// Copies the elements to host memory on the queue of `copy_stream`. It takes the memory in `room`, and does nothing if there is none.
    /// Returns the copy, the end of the copying on the queue, and its duration if `is_timed`.
    ///
    /// # Errors
    /// A failure of the device, or a capture of a graph. `room` then keeps its memory.
    pub(crate) fn copy_out(
        &self,
        copy_stream: &CopyStream,
        room: &mut Option<Room<T>>,
        is_timed: bool,
    ) -> Result<Option<Copied<Away<T>>>> {
        let Some(to) = room else { return Ok(None) };
        let (device, _, span) = to.block.copy_over(copy_stream, &self.block, is_timed)?;
        Ok(room.take().map(|Room { block, typed }| (Away { block, read: None, typed }, device, span)))
    }

    /// Puts the array's stream behind a copy, but not behind later work of the copy's stream.
    ///
    /// # Errors
    /// A failure of the device, or a capture of a graph.
    pub(crate) fn follow(&mut self, copy: &Fence) -> Result<()> {
        self.block.follow(copy)
    }

    /// Whether the array has to stay where it is, since other code has its address for good.
    pub(crate) fn is_pinned(&self) -> bool {
        self.block.is_pinned()
    }

    /// The address of the elements, to look at the memory around them. No work uses the address.
    pub(crate) fn place(&self) -> u64 {
        self.block.address()
    }

    /// A copy of the array that belongs to no scope and lies outside `place`, which is being cleared; `None` if there is no memory for it. If
    /// the copy fails, its memory is in `room`.
    ///
    /// # Errors
    /// A failure of the device.
    pub(crate) fn copied_outside(&self, place: &Range<u64>, room: &mut Option<Block>) -> Result<Option<Self>> {
        let request = request::<T>(self.shape())?;
        *room = Block::outside(self.block.stream(), &request, place)?;
        let Some(block) = room else { return Ok(None) };
        block.copy_from(&self.block)?;
        Ok(room.take().map(|block| Array { block, typed: PhantomData }))
    }

    /// An array of zeros in this memory.
    ///
    /// # Errors
    /// As for [`zeros`](Array::zeros).
    pub(crate) fn zeros_in(room: Room<T>) -> Result<Self> {
        let mut array = Array { block: room.block, typed: PhantomData };
        array.block.fill(&[0])?;
        Ok(array)
    }

    /// An array in this memory, which is not initialized.
    ///
    /// # Safety
    /// As for [`uninit`](Array::uninit).
    #[allow(unsafe_code)]
    pub(crate) unsafe fn uninit_in(room: Room<T>) -> Self {
        Array { block: room.block, typed: PhantomData }
    }
}

impl<T: Element> Away<T> {
    /// Copies the elements on the queue of `copy_stream` to an array in the memory of `room`, and does nothing if there is none. Later work on the
    /// array's stream comes behind the copy. Returns the array, the end of the copying on the queue, and its duration if `is_timed`.
    ///
    /// # Errors
    /// A failure of the device, or a capture of a graph. `room` then keeps its memory.
    pub(crate) fn copy_in<D: Device>(
        &mut self,
        copy_stream: &CopyStream,
        room: &mut Option<Room<T>>,
        is_timed: bool,
    ) -> Result<Option<Copied<Array<T, D>>>> {
        let Some(to) = room else { return Ok(None) };
        let (device, host, span) = to.block.copy_over(copy_stream, &self.block, is_timed)?;
        self.read = Some(host);
        Ok(room.take().map(|Room { block, .. }| (Array { block, typed: PhantomData }, device, span)))
    }

    pub(crate) fn shape(&self) -> &[usize] {
        self.block.dims()
    }
}

impl<T> Away<T> {
    /// Puts the memory's own queue behind the last copy that reads the memory, because that queue writes it next. The queue need not
    /// wait for later work of the reader's queue, of which there may be much.
    fn follow_reader(&mut self) {
        if let Some(read) = self.read.take() {
            // If this fails, the engine tries again before the memory serves anybody else, but then for all work of the queue.
            let _ = self.block.follow(&read);
        }
    }
}

impl<T> Drop for Away<T> {
    fn drop(&mut self) {
        if !process_exits() {
            self.follow_reader();
        }
    }
}
