//! The streams of a GPU that somebody has a handle of, found by what the driver calls them.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};
use std::thread::ThreadId;

use cudarc::driver::CudaStream;

use super::GpuStream;
use crate::base::sync::{Mutex, MutexGuard};
use crate::device::stream::{Stream, WeakStream};

/// A stream as the driver knows it: its context and its handle, compared and never followed. Any number of cudarc's objects
/// may stand for the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RawStream {
    context: usize,
    stream: usize,
    /// Whose own it is, as the per-thread handle means another stream on each thread.
    thread: Option<ThreadId>,
}

/// The handle `CU_STREAM_PER_THREAD`.
const PER_THREAD: usize = 2;

/// What a stream that somebody shows is to an array's own.
pub enum Peer {
    /// The array's own.
    Home,
    /// Another one, which this handle keeps alive.
    Known(GpuStream),
    /// One that may be gone as soon as it is not borrowed any more.
    Passing,
}

/// The streams of one GPU that live.
#[derive(Default)]
pub(super) struct Known {
    streams: Mutex<Vec<(RawStream, WeakStream)>>,
    /// Whether there was a stream of which cudarc's context object of another one knows nothing.
    is_mixed: AtomicBool,
    /// Whether cudarc lets launches on one of such streams wait for nothing, as its object has made no stream.
    has_deaf: AtomicBool,
    /// Whether somebody got an address without telling on which stream it is used.
    has_unknown_work: AtomicBool,
}

impl RawStream {
    pub(crate) fn of(stream: &CudaStream) -> RawStream {
        let handle = match stream.cu_stream() as usize {
            // `CU_STREAM_LEGACY`: another name of the default stream.
            1 => 0,
            handle => handle,
        };
        let thread = (handle == PER_THREAD).then(|| std::thread::current().id());
        RawStream { context: stream.context().cu_ctx() as usize, stream: handle, thread }
    }

    /// The per-thread handle of the same context, whichever thread's stream it means.
    pub(super) fn of_any_thread(self) -> RawStream {
        RawStream { thread: None, ..self }
    }

    /// What the same handle means on this thread, if it means another stream on each.
    pub(super) fn of_thread(self, thread: Option<ThreadId>) -> RawStream {
        RawStream { thread, ..self }
    }

    /// The default stream of its context, which lives as long as the context.
    pub(super) fn is_default(self) -> bool {
        self.stream == 0
    }

    /// `CU_STREAM_PER_THREAD`: another stream on each thread.
    pub(super) fn is_per_thread(self) -> bool {
        self.stream == PER_THREAD
    }
}

impl Known {
    pub(super) fn find(&self, raw: RawStream) -> Option<GpuStream> {
        find(&self.streams(), raw)
    }

    /// The handle of a stream; `make` makes the first one.
    pub(super) fn find_or_add(&self, raw: RawStream, make: impl FnOnce() -> Stream) -> GpuStream {
        let mut streams = self.streams();
        streams.retain(|(_, known)| known.is_alive());
        if let Some(known) = find(&streams, raw) {
            return known;
        }
        let new = GpuStream(make());
        // Two pairs of context objects that differ have one that differs from the first.
        if let Some(other) = streams.iter().find_map(|(_, known)| known.upgrade()) {
            self.meet(GpuStream(other).stream(), new.stream());
        }
        self.meet(new.stream(), new.stream());
        streams.push((raw, new.0.downgrade()));
        new
    }

    /// All that live.
    pub(super) fn all(&self) -> Vec<GpuStream> {
        self.streams().iter().filter_map(|(_, known)| known.upgrade().map(GpuStream)).collect()
    }

    /// Remembers if cudarc's context object of the one stream cannot know that the other is there: it is of another object,
    /// or was made by another library, since an object that has made no stream has none but the default one.
    pub(super) fn meet(&self, stream: &CudaStream, other: &CudaStream) {
        let is_borrowed = !RawStream::of(other).is_default() && !other.context().is_in_multi_stream_mode();
        if is_borrowed || !Arc::ptr_eq(stream.context(), other.context()) {
            self.is_mixed.store(true, Relaxed);
            if [stream, other].iter().any(|stream| !stream.context().is_in_multi_stream_mode()) {
                self.has_deaf.store(true, Relaxed);
            }
        }
    }

    /// Somebody gets an address, and does not tell on which stream it is used.
    #[inline]
    pub(super) fn note_unknown_work(&self) {
        // All launches would write to one line of the processors' caches otherwise.
        if !self.has_unknown_work() {
            self.has_unknown_work.store(true, Relaxed);
        }
    }

    #[inline]
    pub(super) fn has_unknown_work(&self) -> bool {
        self.has_unknown_work.load(Relaxed)
    }

    pub(super) fn has_deaf(&self) -> bool {
        self.has_deaf.load(Relaxed)
    }

    pub(super) fn is_mixed(&self) -> bool {
        self.is_mixed.load(Relaxed)
    }

    fn streams(&self) -> MutexGuard<'_, Vec<(RawStream, WeakStream)>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Known").field("is_mixed", &self.is_mixed).finish_non_exhaustive()
    }
}

fn find(streams: &[(RawStream, WeakStream)], raw: RawStream) -> Option<GpuStream> {
    streams.iter().find_map(|(key, known)| (*key == raw).then(|| known.upgrade())?).map(GpuStream)
}
