//! The elements of an array in the host's memory, where the device copies them to and from by itself.

use std::marker::PhantomData;

use super::extent::request;
use super::{Array, Element};
use crate::device::{Device, Stream};
use gpucache_engine::Result;
use gpucache_engine::cache::{Block, Crossing};
use gpucache_engine::device::{Lane, Span, process_exits};
use gpucache_engine::range::Clearing;
use gpucache_engine::record::Fence;

/// A copy of an array's elements.
///
/// Invariant: all of its bytes were written by a copy of an array of `T` of as many bytes, on the queue of a lane, before
/// anybody has it.
pub(crate) struct Away<T> {
    block: Block,
    /// Where the last copy ends that reads it.
    read: Option<Fence>,
    typed: PhantomData<T>,
}

/// Memory for an array's elements, on either side, before they are copied there.
pub(crate) struct Room<T> {
    block: Block,
    typed: PhantomData<T>,
}

/// A copy of an array on the other side, where on its queue the copying ends, and how long that takes if it is timed.
type Copied<C> = (C, Fence, Option<Span>);

impl<T: Element> Room<T> {
    /// Memory of no scope on `stream` for an array of this shape.
    ///
    /// # Errors
    /// [`is_out_of_memory`](crate::Error::is_out_of_memory), a failure of the device, or a shape of too many bytes.
    pub(crate) fn new(stream: &Stream, dims: &[usize]) -> Result<Room<T>> {
        Ok(Room { block: Block::of_no_scope(stream, &request::<T>(dims)?)?, typed: PhantomData })
    }

    /// Whether it is memory for an array of this shape.
    pub(crate) fn is_for(&self, dims: &[usize]) -> bool {
        self.block.dims() == dims
    }
}

impl<T: Element, D: Device> Array<T, D> {
    /// Copies the elements to the host's memory on the queue of `lane`: to `room`, which it takes, or nowhere without any. Tells where
    /// on the queue that ends, and how long it takes if it is to be timed.
    ///
    /// # Errors
    /// A failure of the device, or a capture of a graph. The room stays where it is then.
    pub(crate) fn copy_out(
        &self,
        lane: &Lane,
        room: &mut Option<Room<T>>,
        is_timed: bool,
    ) -> Result<Option<Copied<Away<T>>>> {
        let Some(to) = room else { return Ok(None) };
        let Crossing { device, span, .. } = to.block.copy_over(lane, &self.block, is_timed)?;
        Ok(room.take().map(|Room { block, typed }| (Away { block, read: None, typed }, device, span)))
    }

    /// Puts the array's stream behind a copy, and behind nothing that its lane does later.
    ///
    /// # Errors
    /// A failure of the device, or a capture of a graph.
    pub(crate) fn follow(&mut self, copy: &Fence) -> Result<()> {
        self.block.follow(copy)
    }

    /// Where the elements lie, for a look at the memory around them: nobody follows the address.
    pub(crate) fn place(&self) -> u64 {
        self.block.address()
    }

    /// A copy of no scope outside of a place that is cleared; `None` if there is no room.
    ///
    /// # Errors
    /// A failure of the device.
    pub(crate) fn copied_outside(&self, clearing: &Clearing) -> Result<Option<Self>> {
        let request = request::<T>(self.shape())?;
        let Some(mut block) = Block::outside(self.block.stream(), &request, clearing)? else { return Ok(None) };
        block.copy_from(&self.block)?;
        Ok(Some(Array { block, typed: PhantomData }))
    }

    /// An array of zeros of no scope.
    ///
    /// # Errors
    /// As for [`zeros`](Array::zeros).
    pub(crate) fn zeros_of_no_scope(device: &D, dims: &[usize]) -> Result<Self> {
        let mut array = Self::of_no_scope(device, dims)?;
        array.block.fill(&[0])?;
        Ok(array)
    }

    /// An array of no scope that is not cleared.
    ///
    /// # Errors
    /// As for [`zeros`](Array::zeros).
    ///
    /// # Safety
    /// As for [`uninit`](Array::uninit).
    #[allow(unsafe_code)]
    pub(crate) unsafe fn uninit_of_no_scope(device: &D, dims: &[usize]) -> Result<Self> {
        Self::of_no_scope(device, dims)
    }

    fn of_no_scope(device: &D, dims: &[usize]) -> Result<Self> {
        let Room { block, .. } = Room::<T>::new(device.stream_handle(), dims)?;
        Ok(Array { block, typed: PhantomData })
    }
}

impl<T: Element> Away<T> {
    /// Copies the elements on the queue of `lane` to an array in `room`, which it takes, or nowhere without any; work on the array's
    /// stream comes behind that. Tells where on the queue that ends, and how long it takes if it is to be timed.
    ///
    /// # Errors
    /// A failure of the device, or a capture of a graph. The room stays where it is then.
    pub(crate) fn copy_in<D: Device>(
        &mut self,
        lane: &Lane,
        room: &mut Option<Room<T>>,
        is_timed: bool,
    ) -> Result<Option<Copied<Array<T, D>>>> {
        let Some(to) = room else { return Ok(None) };
        let Crossing { host, device, span } = to.block.copy_over(lane, &self.block, is_timed)?;
        self.read = Some(host);
        Ok(room.take().map(|Room { block, .. }| (Array { block, typed: PhantomData }, device, span)))
    }

    pub(crate) fn shape(&self) -> &[usize] {
        self.block.dims()
    }
}

impl<T> Away<T> {
    /// Puts the memory's own queue, whose copies write it next, behind the last copy that reads it, and behind nothing that came to
    /// that queue since: there may be many.
    fn follow_reader(&mut self) {
        if let Some(read) = self.read.take() {
            // What fails is tried again, for all that the queue has, before the memory serves anybody else.
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
