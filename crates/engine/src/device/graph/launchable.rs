//! Graphs that can be launched. In a shortage of memory, their executables are taken away (`pressure/serve/graphs`).
#![allow(unsafe_code)]

use std::any::Any;
#[cfg(feature = "cuda")]
use std::sync::{Arc, atomic::AtomicU64, atomic::Ordering::Relaxed};

use crate::base::error::{Error, Result};
#[cfg(feature = "cuda")]
use crate::base::sync::{Mutex, lock};
use crate::device::stream::{Stream, capture::Listed};
#[cfg(feature = "cuda")]
use crate::device::{cuda::graph::Executable, yielding::Yields};

/// Work that can be launched any number of times.
pub struct LaunchableGraph {
    stream: Stream,
    work: Work,
}

enum Work {
    #[cfg(feature = "cuda")]
    Driver(Arc<LaunchedByDriver>),
    Listed(Listed),
}

impl LaunchableGraph {
    #[cfg(feature = "cuda")]
    pub(super) fn of_executable(stream: Stream, executable: Executable) -> LaunchableGraph {
        let graph = LaunchedByDriver { executable: Mutex::new(Some(executable)), launches: AtomicU64::new(1) };
        let graph = Arc::new(graph);
        stream.memory().graphs().add(&graph);
        LaunchableGraph { stream, work: Work::Driver(graph) }
    }

    pub(super) fn of_list(stream: Stream, work: Listed) -> LaunchableGraph {
        LaunchableGraph { stream, work: Work::Listed(work) }
    }

    /// Replaces words, by their places in [`Captured::words`](super::Captured::words), for all later launches.
    ///
    /// # Errors
    /// A failure of the driver: the graph may then have some of the new words.
    /// [`is_unavailable`](crate::Error::is_unavailable) if the graph lost its executable.
    pub fn set(&mut self, words: &[(usize, u64)]) -> Result<()> {
        match &mut self.work {
            #[cfg(feature = "cuda")]
            Work::Driver(graph) => graph.with(|executable| executable.set(words)),
            Work::Listed(work) => {
                work.set(words);
                Ok(())
            }
        }
    }

    /// Puts the work on the stream once more. Functions of the host get `context` too.
    ///
    /// # Errors
    /// As for [`set`](LaunchableGraph::set). A listed operation that failed ends the launch. With the error comes whether a part of the work
    /// was done before, so that it must not be done again.
    ///
    /// # Safety
    /// The memory at all addresses of the work is the caller's, and is used only in the stream's order until the work is done. Written
    /// memory is used by nobody else.
    #[inline]
    pub unsafe fn launch(&self, context: &dyn Any) -> Result<(), (Error, bool)> {
        match &self.work {
            #[cfg(feature = "cuda")]
            Work::Driver(graph) => {
                let stream = &self.stream;
                // In the capture of another thread, the launch would become a part of that graph.
                stream.check_thread().map_err(|error| (error, false))?;
                graph.with(|executable| executable.launch(stream)).map_err(|error| (error, false))?;
                stream.check_thread().map_err(|error| (error, true))
            }
            // SAFETY: the caller promises the same about all addresses of the work.
            Work::Listed(work) => unsafe { work.launch(&self.stream, context) },
        }
    }

    /// The memory of the device that the graph itself takes, beside that of its arrays. `None` if the graph lost its executable, so that it
    /// cannot be launched any more.
    pub fn bytes(&self) -> Option<u64> {
        match &self.work {
            #[cfg(feature = "cuda")]
            Work::Driver(graph) => lock(&graph.executable).as_ref().map(Executable::bytes),
            Work::Listed(_) => Some(0),
        }
    }

    #[cfg(feature = "cuda")]
    pub(super) fn into_executable(self) -> Option<Executable> {
        match self.work {
            Work::Driver(graph) => lock(&graph.executable).take(),
            Work::Listed(_) => None,
        }
    }
}

/// An executable that gives way in a shortage of memory.
#[cfg(feature = "cuda")]
pub(in crate::device) struct LaunchedByDriver {
    /// Locked by each launch. A shortage does not wait for it, and passes over a graph that is being launched.
    executable: Mutex<Option<Executable>>,
    /// Its launches. Those before a shortage count half, and so on.
    launches: AtomicU64,
}

#[cfg(feature = "cuda")]
impl LaunchedByDriver {
    #[inline]
    fn with(&self, act: impl FnOnce(&mut Executable) -> Result<()>) -> Result<()> {
        // A shortage on another thread may undo this, which does no harm.
        self.launches.store(self.launches.load(Relaxed).saturating_add(1), Relaxed);
        lock(&self.executable).as_mut().map_or_else(|| Err(lost()), act)
    }
}

#[cfg(feature = "cuda")]
#[cold]
fn lost() -> Error {
    Error::unavailable(
        "a graph",
        "an allocation took the memory of its executable in a shortage",
        "capture the work again, or free other memory first",
    )
}

#[cfg(feature = "cuda")]
impl Yields for LaunchedByDriver {
    fn bytes(&self) -> u64 {
        self.executable.try_lock().map_or(0, |executable| executable.as_ref().map_or(0, Executable::bytes))
    }

    fn recent_uses(&self) -> u64 {
        let launches = self.launches.load(Relaxed);
        self.launches.store(launches / 2, Relaxed);
        launches
    }

    fn give_way(&self) -> u64 {
        let taken = self.executable.try_lock().ok().and_then(|mut executable| executable.take());
        taken.as_ref().map_or(0, Executable::bytes)
    }
}
