//! Captured work of a stream that is launched as a whole, for scopes whose iterations are captured.
//!
//! [`Capture::begin`] begins to capture a stream, and [`Capture::end`] returns the captured work. The caller looks at its addresses
//! ([`Captured::words`]) and decides. [`Captured::into_graph`] makes a [`LaunchableGraph`] of it, which is launched any number of times. Its
//! addresses can be replaced before a launch. In a shortage of memory it may lose its executable (`launchable`).
//!
//! On CUDA the driver captures: nothing runs before the first launch (`cuda/graph`). For any other device this crate lists the operations
//! and runs each of them as usual (`listed`).
#![allow(unsafe_code)]

mod launchable;
mod listed;

use std::sync::Arc;

pub use self::launchable::LaunchableGraph;
#[cfg(feature = "cuda")]
use super::cuda::graph::{self as driver, DriverGraph, Executable};
use super::host::HostMemory;
use super::stream::Stream;
pub use super::stream::capture::Word;
use super::stream::capture::{CaptureBy, Listed, uncapturable};
use crate::base::error::{Error, Result};
use crate::base::sync::{Mutex, lock};

/// A capture in progress. It ends when this value is dropped, also by a panic.
pub struct Capture {
    stream: Stream,
    by: By,
}

enum By {
    /// The driver, which captures from its beginning to its end.
    #[cfg(feature = "cuda")]
    Driver {
        is_open: bool,
    },
    Listing(Arc<Mutex<Listed>>),
}

impl Capture {
    /// Begins to capture the work that this thread puts on `stream`.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) if the stream is captured already, or cannot be captured; a failure of the driver.
    pub fn begin(stream: &Stream) -> Result<Capture> {
        Stream::take_other_work();
        #[cfg(feature = "cuda")]
        if driver::captures(stream) {
            stream.begin_capture(CaptureBy::Driver(std::thread::current().id()))?;
            // Made first, so that its drop ends the notice if the driver refuses.
            let mut capture = Capture { stream: stream.clone(), by: By::Driver { is_open: false } };
            driver::begin(stream)?;
            capture.by = By::Driver { is_open: true };
            return Ok(capture);
        }
        if stream.backend::<HostMemory>().is_some() {
            return Err(Error::unavailable(
                "a capture of the host's default stream",
                "its work is done at once, and gpucache does not see when the program reads the arrays",
                "use a stream of `Host::new_stream()`",
            ));
        }
        let list = Arc::default();
        stream.begin_capture(CaptureBy::Listing(std::thread::current().id(), Arc::clone(&list)))?;
        Ok(Capture { stream: stream.clone(), by: By::Listing(list) })
    }

    /// Whether the captured work has run already, as it does if this crate lists it.
    pub fn runs_work(&self) -> bool {
        matches!(self.by, By::Listing(_))
    }

    /// Whether the block asked for an array that the plan of the captured scope does not have.
    pub fn has_refused(&self) -> bool {
        self.stream.has_refused()
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// A failure of the driver, or work that a graph cannot have. If the work ran, it has run all the same.
    pub fn end(mut self) -> Result<Captured> {
        let work = match &mut self.by {
            #[cfg(feature = "cuda")]
            By::Driver { is_open } => {
                *is_open = false;
                CapturedWork::Driver(driver::end(&self.stream)?)
            }
            By::Listing(list) => {
                let listed = std::mem::take(&mut *lock(list));
                CapturedWork::Listed(listed.gap.map_or(Ok(listed), |gap| Err(uncapturable(gap)))?)
            }
        };
        if Stream::take_other_work() {
            return Err(uncapturable("the block also puts work on another stream"));
        }
        Ok(Captured { stream: self.stream.clone(), work })
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        #[cfg(feature = "cuda")]
        if let By::Driver { is_open: true } = self.by {
            // The work is not used, so neither is the reason why it could not be captured.
            let _ = driver::end(&self.stream);
        }
        self.stream.end_capture();
    }
}

/// Captured work that cannot be launched yet.
pub struct Captured {
    stream: Stream,
    work: CapturedWork,
}

enum CapturedWork {
    #[cfg(feature = "cuda")]
    Driver(DriverGraph),
    Listed(Listed),
}

impl Captured {
    /// All values of the work that are addresses, or may be.
    pub fn words(&self) -> Vec<Word> {
        match &self.work {
            #[cfg(feature = "cuda")]
            CapturedWork::Driver(graph) => graph.words(),
            CapturedWork::Listed(work) => work.words(),
        }
    }

    /// Says what has the word at this place of [`words`](Captured::words), for a message: "argument 2 of the kernel `add`".
    pub fn word_name(&self, place: usize) -> String {
        match &self.work {
            #[cfg(feature = "cuda")]
            CapturedWork::Driver(graph) => graph.word_name(place),
            CapturedWork::Listed(work) => work.word_name(place),
        }
    }

    /// Whether all addresses of the work are among its words. Otherwise the work has operations that this crate cannot look into.
    pub fn is_transparent(&self) -> bool {
        match &self.work {
            #[cfg(feature = "cuda")]
            CapturedWork::Driver(graph) => graph.is_transparent(),
            CapturedWork::Listed(_) => true,
        }
    }

    /// Whether a word that may be an address is the address of memory that some allocator of the process has given out.
    #[cfg_attr(not(feature = "cuda"), allow(unused_variables, reason = "without CUDA all words are addresses"))]
    pub fn is_memory(&self, value: u64) -> bool {
        match &self.work {
            #[cfg(feature = "cuda")]
            CapturedWork::Driver(graph) => graph.is_memory(value),
            CapturedWork::Listed(_) => false,
        }
    }

    /// Makes the work ready for launches. A `previous` graph of the same work is updated if the driver can do that. Otherwise it is
    /// dropped first, so that its memory is free.
    ///
    /// # Errors
    /// [`is_out_of_memory`](crate::Error::is_out_of_memory) if the device or a limit has no memory for it; a failure of the driver.
    pub fn into_graph(self, previous: Option<LaunchableGraph>) -> Result<LaunchableGraph> {
        match self.work {
            #[cfg(feature = "cuda")]
            CapturedWork::Driver(graph) => {
                let previous = previous.and_then(LaunchableGraph::into_executable);
                let executable = Executable::of(graph, &self.stream, previous)?;
                Ok(LaunchableGraph::of_executable(self.stream, executable))
            }
            CapturedWork::Listed(work) => {
                drop(previous);
                Ok(LaunchableGraph::of_list(self.stream, work))
            }
        }
    }
}

/// Whether the work of both streams is in one order, since they are the same stream of the machine.
#[inline]
pub(crate) fn is_one_queue(one: &Stream, other: &Stream) -> bool {
    one.queue() == other.queue() || is_one_lent(one, other)
}

/// Whether one of the streams stands for allocations of other crates on the other one.
#[cold]
fn is_one_lent(_one: &Stream, _other: &Stream) -> bool {
    #[cfg(feature = "cuda")]
    return super::cuda::graph::is_one_raw(_one, _other);
    #[cfg(not(feature = "cuda"))]
    false
}
