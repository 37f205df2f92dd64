//! Streams of the process that this crate did not make and does not keep: each thread's own default stream, and those of other
//! libraries.
//!
//! Invariants: a thread has one handle for its own stream of a context, which ends when the thread does. What another library makes has
//! one handle from when it is seen first until it is destroyed (`borrowed`).

use std::cell::RefCell;
use std::sync::Arc;
#[cfg(feature = "foreign")]
use std::sync::atomic::Ordering::Acquire;
use std::sync::atomic::{AtomicU64, Ordering::Release};

use cudarc::driver::CudaStream;

use super::known::RawStream;
use super::memory::CudaMemory;
use super::queue::Queue;
use super::{GpuStream, with_gpu_of};
use crate::base::error::{Error, Result};
use crate::device::exit::{process_exits, thread_is_main};
use crate::device::stream::Stream;

thread_local! {
    static OWN: Own = const { Own(RefCell::new(Vec::new())) };
}

/// The calling thread's own streams, one of each context.
struct Own(RefCell<Vec<GpuStream>>);

impl Drop for Own {
    fn drop(&mut self) {
        // The main thread's streams end with the process, and nothing is called then.
        if !process_exits() && !thread_is_main() {
            self.0.get_mut().iter().for_each(|own| own.memory().queue().end());
            note_end();
        }
    }
}

static ENDED: AtomicU64 = AtomicU64::new(0);

/// A lent stream has ended: what a handle means is to be looked up again.
pub(super) fn note_end() {
    ENDED.fetch_add(1, Release);
}

/// How many lent streams have ended so far.
#[cfg(feature = "foreign")]
#[inline]
pub(crate) fn ended_streams() -> u64 {
    ENDED.load(Acquire)
}

impl GpuStream {
    /// A handle of one stream: of the calling thread's, where this means another one on each thread.
    ///
    /// # Errors
    /// Where the thread is about to end.
    pub fn here(self) -> Result<GpuStream> {
        Ok(self.0.here()?.map_or(self, GpuStream))
    }

    /// What a handle of the per-thread stream means on the calling thread.
    pub(super) fn on_this_thread(by_thread: &Stream) -> Result<Stream> {
        match by_thread.backend::<CudaMemory>() {
            Some(memory) => Ok(GpuStream::of_this_thread(memory.stream())?.0),
            None => Ok(by_thread.clone()),
        }
    }

    /// The calling thread's own stream of a context, of which `stream` has the handle.
    ///
    /// # Errors
    /// Where the thread is about to end.
    pub(crate) fn of_this_thread(stream: &Arc<CudaStream>) -> Result<GpuStream> {
        let raw = RawStream::of(stream);
        let found = OWN.try_with(|own| {
            let mut own = own.0.borrow_mut();
            if let Some(known) = own.iter().find(|known| known.memory().queue().raw() == raw) {
                return Ok(known.clone());
            }
            let queue = Queue::of_this_thread(stream.clone());
            let new = with_gpu_of(queue, |known, unmade| known.find_or_add(raw, || unmade.make()))?;
            own.push(new.clone());
            Ok(new)
        });
        found.unwrap_or_else(|_| {
            Err(Error::unavailable(
                "the thread's default stream",
                "the thread is about to end",
                "allocate before the thread's locals are dropped",
            ))
        })
    }
}
