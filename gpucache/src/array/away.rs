//! The elements of an array in the host's memory, where the device copies them to and from by itself.

use std::any::TypeId;
use std::marker::PhantomData;

use super::{Array, Element};
use crate::base::error::Result;
use crate::cache::{Block, Crossing};
use crate::device::{Device, Lane, Span, process_exits};
use crate::range::Clearing;
use crate::record::{Fence, Request};

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

/// A copy that was put on the queue of a lane.
pub(crate) struct Copied<C> {
    pub(crate) copy: C,
    /// Where on the queue it ends.
    pub(crate) fence: Fence,
    /// The time that it takes, if that was asked for and the device tells.
    pub(crate) span: Option<Span>,
}

fn request<T: 'static>(dims: &[usize], bytes: usize) -> Request<'_> {
    Request { dtype: TypeId::of::<T>(), type_name: std::any::type_name::<T>(), dims, bytes, site: None }
}

impl<T: Element, D: Device> Array<T, D> {
    /// Copies the elements to the host's memory on the queue of `lane`, to where they were before if they were there. Tells
    /// where on the queue that ends, and how long it takes if it is to be timed.
    ///
    /// # Errors
    /// [`is_out_of_memory`](crate::Error::is_out_of_memory) of the host, a failure of the device, or a capture of a graph. What was
    /// there before may be lost then.
    pub(crate) fn copy_out(&self, lane: &Lane, before: Option<Away<T>>, is_timed: bool) -> Result<Copied<Away<T>>> {
        let mut away = match before {
            Some(away) => away,
            None => {
                let block = Block::of_no_scope(&lane.host, &request::<T>(self.shape(), self.byte_len()))?;
                Away { block, read: None, typed: PhantomData }
            }
        };
        away.follow_reader();
        let Crossing { device, span, .. } = away.block.copy_over(lane, &self.block, is_timed)?;
        Ok(Copied { copy: away, fence: device, span })
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
        let request = request::<T>(self.shape(), self.byte_len());
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
        let bytes = super::elements::<T>(dims)? * size_of::<T>();
        let block = Block::of_no_scope(device.stream_handle(), &request::<T>(dims, bytes))?;
        Ok(Array { block, typed: PhantomData })
    }
}

impl<T: Element> Away<T> {
    /// Copies the elements to a new array of no scope on the queue of `lane`; work on the array's stream comes behind that.
    /// Tells where on the queue that ends, and how long it takes if it is to be timed.
    ///
    /// # Errors
    /// [`is_out_of_memory`](crate::Error::is_out_of_memory), a failure of the device, or a capture of a graph.
    pub(crate) fn copy_in<D: Device>(
        &mut self,
        device: &D,
        lane: &Lane,
        is_timed: bool,
    ) -> Result<Copied<Array<T, D>>> {
        let request = request::<T>(self.block.dims(), self.block.bytes());
        let mut block = Block::of_no_scope(device.stream_handle(), &request)?;
        let Crossing { host, device, span } = block.copy_over(lane, &self.block, is_timed)?;
        self.read = Some(host);
        Ok(Copied { copy: Array { block, typed: PhantomData }, fence: device, span })
    }

    pub(crate) fn shape(&self) -> &[usize] {
        self.block.dims()
    }

    /// Gives the elements another shape, of as many.
    pub(crate) fn reshape(&mut self, dims: &[usize]) {
        self.block.reshape(dims);
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
