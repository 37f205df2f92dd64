//! Captures by the driver. `calls` are the driver's functions, `nodes` the contents of a captured graph, and `executable` launches it.
#![allow(unsafe_code)]

mod calls;
mod executable;
mod nodes;

use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::{CudaContext, sys};

use self::calls::{Calls, answer, calls};
pub(in crate::device) use self::executable::Executable;
use self::nodes::{GraphNode, NodeWork, read};
use super::driver;
use super::errors::failure;
use super::memory::CudaMemory;
use crate::base::error::{Error, Result};
use crate::device::exit::process_exits;
use crate::device::stream::Stream;
use crate::device::stream::capture::{Word, uncapturable};

/// Captures are of the thread-local mode, so other threads may call the driver meanwhile.
const THREAD_LOCAL: u32 = 1;

/// Whether the driver captures the stream: one of a GPU.
pub(in crate::device) fn captures(stream: &Stream) -> bool {
    stream.backend::<CudaMemory>().is_some()
}

fn memory(stream: &Stream) -> Result<(&CudaMemory, &'static Calls)> {
    stream.backend::<CudaMemory>().zip(calls()).ok_or_else(unsupported)
}

/// Begins a capture of the stream.
pub(in crate::device) fn begin(stream: &Stream) -> Result<()> {
    if stream.here()?.is_some() {
        return Err(Error::unavailable(
            "a capture of the per-thread default stream",
            "the graph could be launched on another thread, and so on another stream",
            "use a stream that `context.new_stream()` made",
        ));
    }
    stream.check_kept()?;
    let (memory, calls) = memory(stream)?;
    // SAFETY: the queue lends the handle of a live stream.
    let begin = |stream| answer(unsafe { (calls.begin)(stream, THREAD_LOCAL) });
    memory.queue().run(begin).map_err(|error| memory.failure("beginning a capture", error))
}

/// Ends the capture of the stream.
pub(in crate::device) fn end(stream: &Stream) -> Result<DriverGraph> {
    let (memory, calls) = memory(stream)?;
    let context = memory.context().clone();
    // A failure that cudarc kept meanwhile is one of the work.
    let kept = stream.check_kept();
    let end = |stream| {
        let mut graph = null_mut();
        // SAFETY: the queue lends the handle of a live stream, and `graph` is writable.
        answer(unsafe { (calls.end)(stream, &raw mut graph) }).map(|()| graph)
    };
    let handle = memory.queue().run(end).map_err(|error| {
        // A call that failed before it reached the stream has not ended the capture.
        if memory.queue().is_captured() == Ok(true) {
            let _ = memory.queue().run(end).map(|graph| DriverGraph {
                handle: graph,
                nodes: Vec::new(),
                context: context.clone(),
                calls,
            });
        }
        memory.failure("ending a capture", error)
    })?;
    if handle.is_null() {
        return Err(uncapturable("the work ended the capture itself"));
    }
    let mut graph = DriverGraph { handle, nodes: Vec::new(), context, calls };
    kept?;
    // SAFETY: the graph is alive, and its context is current, since a call was made on the stream.
    graph.nodes = unsafe { read(calls, handle, &|error| failure(&graph.context, "reading a graph", error)) }?;
    Ok(graph)
}

/// A captured graph. It is destroyed when this value is dropped.
pub(in crate::device) struct DriverGraph {
    handle: sys::CUgraph,
    nodes: Vec<GraphNode>,
    context: Arc<CudaContext>,
    calls: &'static Calls,
}

// SAFETY: the driver's handles of graphs may be used on any thread, by one at a time. Pointers in the nodes are handles, or are not
// followed.
unsafe impl Send for DriverGraph {}

impl DriverGraph {
    pub(in crate::device) fn words(&self) -> Vec<Word> {
        self.nodes.iter().flat_map(GraphNode::words).collect()
    }

    /// Says what has the word at this place of [`words`](DriverGraph::words), for a message.
    pub(in crate::device) fn word_name(&self, place: usize) -> String {
        let numbered = |node| (0..GraphNode::words(node).len()).map(move |number| (node, number));
        let found = self.nodes.iter().flat_map(numbered).nth(place);
        found.map(|(node, number)| node.word_name(self.calls, number)).unwrap_or_default()
    }

    pub(in crate::device) fn is_transparent(&self) -> bool {
        !self.nodes.iter().any(|node| matches!(node.work, NodeWork::Opaque))
    }

    pub(in crate::device) fn is_memory(&self, value: u64) -> bool {
        let mut kind = 0u32;
        let attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
        // SAFETY: the answer is a number of 32 bits. Any value may be asked for; the driver refuses those that are no addresses.
        driver::bind(&self.context).is_ok()
            && unsafe { sys::cuPointerGetAttribute((&raw mut kind).cast(), attribute, value) }.result().is_ok()
    }
}

impl Drop for DriverGraph {
    fn drop(&mut self) {
        let may_call = !self.handle.is_null() && !process_exits();
        if may_call && driver::bind(&self.context).is_ok() {
            // A failure means that the context is lost, and every later call reports that too.
            // SAFETY: the graph is alive, and only this drop destroys it.
            let _ = unsafe { (self.calls.destroy)(self.handle) };
        }
    }
}

/// Whether both stand for the same stream of the driver.
pub(in crate::device) fn is_one_raw(one: &Stream, other: &Stream) -> bool {
    let raw = |stream: &Stream| stream.backend::<CudaMemory>().map(|memory| memory.queue().raw());
    raw(one).is_some_and(|one| Some(one) == raw(other))
}

/// The error for a driver without the functions that captured scopes need.
fn unsupported() -> Error {
    Error::unavailable(
        "a graph of a captured scope",
        "the driver lacks functions that CUDA 12.4 has",
        "update the driver, or run the block without `CapturedScope`",
    )
}
