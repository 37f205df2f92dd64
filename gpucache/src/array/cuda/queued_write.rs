//! Writes whose end is known: the code that puts their work on a stream tells when all of it is there.
//!
//! Otherwise a write lasts until the array is dropped, and whoever waits for it waits for all work that is on its stream at that time. A
//! training step reduces its gradients on one stream, while another one reads those that are done. With known ends, one event serves all
//! writes of an epoch, and the end of the step needs none.

use cudarc::driver::{CudaStream, SyncOnDrop};

use crate::array::{Array, Element};
use crate::device::Cuda;
use gpucache_engine::cache::Block;
use gpucache_engine::device::{Peer, Stream};

/// A write whose end can be told: the block and the stream, if the block knows the stream as its writer.
pub struct QueuedWrite<'a>(Option<(&'a Block, Stream)>);

impl QueuedWrite<'_> {
    /// A write that lasts until the array is dropped.
    pub(crate) const UNKNOWN: Self = Self(None);

    /// All work of the write is on its stream now, and no more comes. Others then wait for this point, not for later work of the stream.
    pub(crate) fn end(self) {
        if let Some((block, stream)) = self.0 {
            block.end_write_on(&stream);
        }
    }
}

impl<T: Element> Array<T, Cuda> {
    /// As `device_ptr_mut`, for one write whose end the caller tells.
    pub(crate) fn queue_write<'a>(&'a mut self, stream: &'a CudaStream) -> (u64, SyncOnDrop<'a>, QueuedWrite<'a>) {
        let (peer, ordered) = self.order_write(stream);
        let writer = match &peer {
            Peer::Known(user) if ordered.is_ok() => Some(user.stream_handle().clone()),
            _ => None,
        };
        let guard = self.guard(stream, peer, ordered);
        (self.block.address(), guard, QueuedWrite(writer.map(|writer| (&self.block, writer))))
    }
}
