//! The streams of a GPU that have a handle, found by the driver's context and stream handle.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::ThreadId;

use cudarc::driver::{CudaContext, CudaStream};

use super::GpuStream;
use crate::base::sync::{Mutex, OnceLock, lock};
use crate::device::stream::{Stream, WeakStream};

/// The driver's name of a stream: its context and its handle, which are compared and never dereferenced. Several objects of cudarc may
/// stand for the same stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RawStream {
    context: usize,
    stream: usize,
    /// The thread that the stream belongs to, since the per-thread handle means a different stream on each thread.
    thread: Option<ThreadId>,
}

/// The handle `CU_STREAM_PER_THREAD`.
const PER_THREAD: usize = 2;

/// The relation of a stream that a caller passes to the array's own stream.
pub enum Peer {
    /// It is the array's own stream.
    Home,
    /// It is another stream, which this handle keeps alive.
    Known(GpuStream),
    /// It is a stream that may end as soon as it is no longer borrowed.
    Passing,
}

/// The live streams of one GPU.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The context for which the GPU's memory was made. Nothing in it refers to this value.
    pub(super) context: OnceLock<Arc<CudaContext>>,
    streams: Mutex<Vec<(RawStream, WeakStream)>>,
    /// Whether there was a stream that is unknown to the cudarc context object of another stream.
    is_mixed: AtomicBool,
    /// Whether cudarc skips the waits before launches on one of these streams, because its context object has made no stream.
    has_deaf: AtomicBool,
    /// Whether other code got an address and did not say on which stream it uses it.
    pub(super) has_unknown_work: AtomicBool,
    /// Whether other code frees memory while work on other streams, of which it does not tell, may still use it.
    pub(super) is_unordered: AtomicBool,
}

impl RawStream {
    pub(crate) fn of(stream: &CudaStream) -> RawStream {
        let handle = match stream.cu_stream() as usize {
            // `CU_STREAM_LEGACY` is another name of the default stream.
            1 => 0,
            handle => handle,
        };
        let thread = (handle == PER_THREAD).then(|| std::thread::current().id());
        RawStream { context: stream.context().cu_ctx() as usize, stream: handle, thread }
    }

    /// The stream of this handle on `thread`, if it means a different stream on each thread.
    pub(super) fn of_thread(self, thread: Option<ThreadId>) -> RawStream {
        RawStream { thread, ..self }
    }

    /// Whether this is the default stream of its context, which lives as long as the context.
    pub(super) fn is_default(self) -> bool {
        self.stream == 0
    }

    /// Whether this is `CU_STREAM_PER_THREAD`, which means a different stream on each thread.
    pub(super) fn is_per_thread(self) -> bool {
        self.stream == PER_THREAD
    }
}

impl Known {
    pub(super) fn find(&self, raw: RawStream) -> Option<GpuStream> {
        find(&lock(&self.streams), raw)
    }

    /// The handle of a stream. `make` makes the first one.
    pub(super) fn find_or_add(&self, raw: RawStream, make: impl FnOnce() -> Stream) -> GpuStream {
        let mut streams = lock(&self.streams);
        streams.retain(|(_, known)| known.is_alive());
        if let Some(known) = find(&streams, raw) {
            return known;
        }
        let new = GpuStream(make());
        // It is enough to compare with one other stream: if any two context objects differ, one of them differs from the first.
        if let Some(other) = streams.iter().find_map(|(_, known)| known.upgrade()) {
            self.meet(GpuStream(other).stream(), new.stream());
        }
        self.meet(new.stream(), new.stream());
        streams.push((raw, new.0.downgrade()));
        new
    }

    /// All live streams.
    pub(super) fn all(&self) -> Vec<GpuStream> {
        lock(&self.streams).iter().filter_map(|(_, known)| known.upgrade().map(GpuStream)).collect()
    }

    /// This context and all others of live streams, each once.
    pub(super) fn contexts(&self, first: &Arc<CudaContext>) -> Vec<Arc<CudaContext>> {
        let mut contexts = vec![first.clone()];
        for stream in self.all() {
            let context = stream.stream().context();
            if contexts.iter().all(|known| known.cu_ctx() != context.cu_ctx()) {
                contexts.push(context.clone());
            }
        }
        contexts
    }

    /// Notes if the cudarc context object of one stream cannot know of the other stream. That is so if the other stream is of another
    /// context object. It is also so if another library made the stream: an object that has made no stream only has the default one.
    pub(super) fn meet(&self, stream: &CudaStream, other: &CudaStream) {
        let is_borrowed = !RawStream::of(other).is_default() && !other.context().is_in_multi_stream_mode();
        if is_borrowed || !Arc::ptr_eq(stream.context(), other.context()) {
            self.is_mixed.store(true, Relaxed);
            if [stream, other].iter().any(|stream| !stream.context().is_in_multi_stream_mode()) {
                self.has_deaf.store(true, Relaxed);
            }
        }
    }

    pub(super) fn has_deaf(&self) -> bool {
        self.has_deaf.load(Relaxed)
    }

    pub(super) fn is_mixed(&self) -> bool {
        self.is_mixed.load(Relaxed)
    }
}

fn find(streams: &[(RawStream, WeakStream)], raw: RawStream) -> Option<GpuStream> {
    streams.iter().find_map(|(key, known)| (*key == raw).then(|| known.upgrade())?).map(GpuStream)
}
