//! A graph that can be launched: its executable, whose memory counts like other memory of the device.
#![allow(unsafe_code)]

use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::{DriverError, result, sys};

use super::DriverGraph;
use super::calls::{UpdateInfo, answer};
use crate::base::error::Result;
use crate::base::sync::{Mutex, lock};
use crate::device::cuda::errors::failure;
use crate::device::cuda::memory::CudaMemory;
use crate::device::cuda::own_calls::own_call;
use crate::device::stream::Stream;
use crate::device::stream::capture::relaxed;
use crate::device::{exit::process_exits, memory::Memory};

/// Only one thread at a time makes, updates or destroys an executable. The driver crashed when two threads did so at once (driver 580).
static ONE: Mutex<()> = Mutex::new(());

/// Invariant: the executable was made of the graph, and both are destroyed by this value's drop only.
pub(in crate::device) struct Executable {
    handle: sys::CUgraphExec,
    graph: DriverGraph,
    /// For each word, its node and its number there.
    places: Vec<(u32, u32)>,
    stream: sys::CUstream,
    memory: Arc<Memory>,
    /// The bytes of the device that were gone after it was made.
    bytes: u64,
}

// SAFETY: the driver's handles of graphs may be used on any thread, one at a time. `&mut self` and `ONE` see to that where they change.
unsafe impl Send for Executable {}

impl Executable {
    /// The executable of `graph`: `previous`, if the driver can update it, or a new one.
    pub(in crate::device) fn of(
        graph: DriverGraph,
        stream: &Stream,
        previous: Option<Executable>,
    ) -> Result<Executable> {
        let graph = match previous {
            Some(previous) => match previous.updated(graph) {
                Ok(updated) => return Ok(updated),
                Err(graph) => graph,
            },
            None => graph,
        };
        let Some(queue) = stream.backend::<CudaMemory>() else { return Err(super::unsupported()) };
        let context = graph.context.clone();
        let fail = |error| failure(&context, "making a graph's executable", error);
        super::driver::bind(&context).map_err(fail)?;
        let raw = queue.stream().cu_stream();
        let places = places(&graph);
        let _one = lock(&ONE);
        let before = known_bytes(stream.memory());
        let mut handle = null_mut();
        // SAFETY: the graph is alive, its context is current, and `handle` is writable.
        answer(unsafe { (graph.calls.instantiate)(&raw mut handle, graph.handle, 0) }).map_err(fail)?;
        let mut new = Executable { handle, graph, places, stream: raw, memory: stream.memory().clone(), bytes: 0 };
        // The upload takes the memory now that the first launch would take.
        // SAFETY: the executable is alive, and so is the stream, which is borrowed.
        let uploaded = answer(unsafe { (new.graph.calls.upload)(handle, raw) });
        drop(_one);
        uploaded.map_err(fail)?;
        let nodes = new.graph.nodes.len() as u64;
        // What is neither free nor held any more belongs to the executable.
        let taken = before.saturating_sub(known_bytes(stream.memory()));
        new.charge(taken.min(MOST + nodes * MOST_FOR_A_NODE))?;
        Ok(new)
    }

    /// Counts the executable's memory, if the limits allow it.
    fn charge(&mut self, bytes: u64) -> Result<()> {
        self.memory.meter().enter(bytes)?;
        self.bytes = bytes;
        self.memory.meter().took(bytes, |_| ());
        Ok(())
    }

    /// This executable with the parameters of another graph. Returns that graph if the driver refuses the update.
    fn updated(mut self, graph: DriverGraph) -> Result<Executable, DriverGraph> {
        let is_alike = self.graph.nodes.len() == graph.nodes.len()
            && self.graph.nodes.iter().zip(&graph.nodes).all(|(old, new)| old.is_like(new));
        if !is_alike || super::driver::bind(&self.graph.context).is_err() {
            return Err(graph);
        }
        let one = lock(&ONE);
        let mut info = UpdateInfo::default();
        // SAFETY: the executable and the graph are alive, their context is current, and `info` is writable.
        let updated = answer(unsafe { (graph.calls.update)(self.handle, graph.handle, &raw mut info) });
        drop(one);
        if updated.is_err() {
            return Err(graph);
        }
        let mut graph = graph;
        // The driver finds nodes of the executable by those of the graph that it was made of.
        for (old, new) in self.graph.nodes.iter_mut().zip(&mut graph.nodes) {
            std::mem::swap(&mut old.work, &mut new.work);
        }
        Ok(self)
    }

    /// Replaces words for later launches.
    pub(in crate::device) fn set(&mut self, words: &[(usize, u64)]) -> Result<()> {
        let context = self.graph.context.clone();
        let fail = |error| failure(&context, "setting the parameters of a graph", error);
        super::driver::bind(&context).map_err(fail)?;
        let mut last = None;
        for &(word, value) in words {
            let Some(&(node, number)) = self.places.get(word) else { continue };
            if last.is_some_and(|last| last != node) {
                last.into_iter().try_for_each(|last| self.apply(last)).map_err(fail)?;
            }
            self.graph.nodes[node as usize].set_word(number as usize, value);
            last = Some(node);
        }
        last.into_iter().try_for_each(|last| self.apply(last)).map_err(fail)
    }

    fn apply(&mut self, node: u32) -> Result<(), DriverError> {
        let (executable, context) = (self.handle, self.graph.context.cu_ctx());
        // SAFETY: the executable was made of the graph that has this node, in this context.
        unsafe { self.graph.nodes[node as usize].apply(self.graph.calls, executable, context) }
    }

    #[inline]
    pub(in crate::device) fn launch(&self, _kept: &Stream) -> Result<()> {
        let context = &self.graph.context;
        // SAFETY: the executable is alive. The stream's handle is that of a live stream, since `_kept` keeps it alive.
        let launched = super::driver::bind(context)
            .and_then(|()| answer(unsafe { (self.graph.calls.launch)(self.handle, self.stream) }));
        launched.map_err(|error| failure(context, "launching a graph", error))
    }

    pub(in crate::device) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Executable {
    /// For the drop alone.
    fn destroy(&self) {
        if super::driver::bind(&self.graph.context).is_err() {
            return;
        }
        let _one = lock(&ONE);
        // A failure means that the context is lost, and every later call reports that too.
        // SAFETY: the executable is alive, and only its drop destroys it. Launches that are queued go on.
        let _ = unsafe { (self.graph.calls.destroy_executable)(self.handle) };
        // SAFETY: the device is that of the context.
        let _ = unsafe { (self.graph.calls.trim)(self.graph.context.cu_device()) };
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        if !process_exits() {
            // Another thread may capture a graph in the driver's global mode.
            relaxed(|| self.destroy());
        }
        // Last, so that nobody is told of room that is not there yet.
        self.memory.meter().gave(self.bytes, |_| ());
    }
}

fn places(graph: &DriverGraph) -> Vec<(u32, u32)> {
    let words = |(node, each): (usize, &super::nodes::GraphNode)| {
        (0..each.words().len()).map(move |number| (node as u32, number as u32)).collect::<Vec<_>>()
    };
    graph.nodes.iter().enumerate().flat_map(words).collect()
}

/// No executable takes more than this and so much for each node. Measured were 123 KiB and 2.3 KiB for kernels, and 10 MiB are known of
/// large ones. Other processes may take memory between two looks, too.
const MOST: u64 = 16 << 20;
const MOST_FOR_A_NODE: u64 = 64 << 10;

/// The bytes of the current context's device, which has this memory, that are free or held by this crate.
fn known_bytes(memory: &Memory) -> u64 {
    let free = own_call(result::mem_get_info).map_or(0, |(free, _)| free as u64);
    free.saturating_add(memory.meter().held())
}
