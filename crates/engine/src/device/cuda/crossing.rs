//! Queues for copies from one GPU to another one.
//!
//! Each queue is a stream of its own on the GPU that it reads, so such copies wait for no other work of either GPU than that on the two
//! arrays. The driver copies directly between GPUs that reach each other, and otherwise by way of the host.

use std::sync::Arc;

use super::memory::CudaMemory;
use super::queue::{CudaQueue, untold_stream};
use crate::base::error::Result;
use crate::base::sync::{Mutex, lock};
use crate::device::Copies;
use crate::device::stream::Stream;
use crate::device::stream::copy_stream::CopyStream;

/// All queues between GPUs. They last as long as the process, as the GPUs do.
static CROSSINGS: Mutex<Vec<Arc<CopyStream>>> = Mutex::new(Vec::new());

impl CopyStream {
    /// The queue for copies from the GPU of one stream to the GPU of another stream; `None` unless both are streams of GPUs.
    ///
    /// # Errors
    /// The answer of the driver.
    pub fn between(from: &Stream, to: &Stream) -> Result<Option<Arc<CopyStream>>> {
        let is_between = |queue: &&Arc<CopyStream>| {
            (queue.device.memory_id(), queue.host.memory_id()) == (from.memory_id(), to.memory_id())
        };
        let known = lock(&CROSSINGS).iter().find(is_between).cloned();
        if known.is_some() {
            return Ok(known);
        }
        let both = from.backend::<CudaMemory>().zip(to.backend::<CudaMemory>());
        let Some((reads, writes)) = both else { return Ok(None) };
        let queue = Arc::new(CopyStream::over(from, copies(reads, writes)?, to.memory()));
        // If two threads come here at once, each uses the queue that it made, and later copies use one of them.
        lock(&CROSSINGS).push(queue.clone());
        Ok(Some(queue))
    }
}

/// The two sides of a new queue.
fn copies(reads: &CudaMemory, writes: &CudaMemory) -> Result<Copies> {
    let stream = untold_stream(reads.context());
    let stream = stream.map_err(|error| reads.failure("making a stream for copies", error))?;
    let side = |of: &CudaMemory| CudaMemory::new(CudaQueue::held(stream.clone()), of.known().clone());
    let device = side(reads).copying_to(writes.context().clone());
    Ok(Copies { device: Arc::new(device), host: Arc::new(side(writes)) })
}
