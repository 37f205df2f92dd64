//! Streams that this crate did not make and does not keep alive: each thread's own default stream, and the streams of other libraries.
//!
//! Invariants: a thread has one handle for its own stream of a context, which ends when the thread does. A stream of another library has
//! one handle, from when it is first seen until it is destroyed (`borrowed`).

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::sync::atomic::{AtomicU64, Ordering::Release};

use cudarc::driver::CudaStream;

use super::Handle;
use super::known::RawStream;
use super::memory::CudaMemory;
use super::queue::CudaQueue;
use super::{GpuStream, gpu_of};
use crate::base::error::{Error, Result};
use crate::device::exit::{process_exits, thread_is_main};
use crate::device::stream::Stream;

thread_local! {
    static OWN: Own = const { Own(RefCell::new(Vec::new())) };
}

/// The calling thread's own streams, one for each context.
struct Own(RefCell<Vec<GpuStream>>);

impl Drop for Own {
    fn drop(&mut self) {
        // The main thread's streams end with the process, and no driver is called then.
        if !process_exits() && !thread_is_main() {
            self.0.get_mut().iter().for_each(|own| own.memory().queue().end());
            note_end();
        }
    }
}

static ENDED: AtomicU64 = AtomicU64::new(0);

/// Notes that a lent stream has ended. Callers must then look up again which stream a handle means.
pub(super) fn note_end() {
    ENDED.fetch_add(1, Release);
}

impl Handle {
    /// The number of streams of other libraries that have ended so far.
    #[inline]
    pub fn ended_streams() -> u64 {
        ENDED.load(Acquire)
    }

    /// Makes all threads look up again which stream a handle means, as if a stream had ended.
    pub fn forget_found() {
        note_end();
    }
}

impl GpuStream {
    /// A handle of one stream. If `self` means a different stream on each thread, this is the calling thread's stream.
    ///
    /// # Errors
    /// If the thread is ending.
    pub fn here(self) -> Result<GpuStream> {
        Ok(self.0.here()?.map_or(self, GpuStream))
    }

    /// The calling thread's stream for a handle of the per-thread stream.
    pub(super) fn on_this_thread(by_thread: &Stream) -> Result<Stream> {
        match by_thread.backend::<CudaMemory>() {
            Some(memory) => Ok(GpuStream::of_this_thread(memory.stream())?.0),
            None => Ok(by_thread.clone()),
        }
    }

    /// The calling thread's own stream of a context. `stream` has the per-thread handle of that context.
    ///
    /// # Errors
    /// If the thread is ending.
    pub(crate) fn of_this_thread(stream: &Arc<CudaStream>) -> Result<GpuStream> {
        let raw = RawStream::of(stream);
        let found = OWN.try_with(|own| {
            let mut own = own.0.borrow_mut();
            if let Some(known) = own.iter().find(|known| known.memory().queue().raw() == raw) {
                return Ok(known.clone());
            }
            let queue = CudaQueue::of_this_thread(stream.clone());
            let (known, make) = gpu_of(queue)?;
            let new = known.find_or_add(raw, make);
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
