//! Executables of graphs. Each has its own copy of the work, which can be patched, and memory of the device.
//!
//! Nodes that do not depend on each other run in the reverse order of their capture, so that a missing dependency shows.

use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex};

use crate::answer::{Answer, Status, lock};
use crate::graph::{Graph, Node};
use crate::queue::Point;
use crate::table::Table;
use crate::user_objects::Kept;
use crate::uses::Use;
use crate::work::Work;
use crate::{arena, streams};

/// The device's memory that an executable takes, and below, that each of its nodes takes. They are about those of an H100, whose
/// driver does not return the memory of a destroyed executable at once.
const BYTES: u64 = 128 << 10;
const BYTES_OF_NODE: u64 = 2 << 10;

pub(crate) struct Executable {
    /// The handle of the graph that it was made from. The nodes of this graph name its own nodes.
    pub(crate) graph: usize,
    nodes: Mutex<Vec<Node>>,
    /// The references of the graph. Launches that are not done hold them too.
    kept: Mutex<Kept>,
    /// The numbers of the nodes in the order in which they run.
    order: Vec<usize>,
    bytes: u64,
    /// The end of the last launch. The next one waits for it.
    last: Mutex<Option<Point>>,
}

impl Drop for Executable {
    fn drop(&mut self) {
        arena::discharge(self.bytes);
    }
}

static EXECUTABLES: Mutex<Table<Executable>> = Mutex::new(Table::from(0xEC00_0000));

/// Always takes the last of the nodes that wait for no other node.
fn order(nodes: &[Node]) -> Vec<usize> {
    let mut missing: Vec<usize> = nodes.iter().map(|node| node.after.len()).collect();
    let mut behind = vec![Vec::new(); nodes.len()];
    for (number, node) in nodes.iter().enumerate() {
        node.after.iter().for_each(|before| behind[*before].push(number));
    }
    let mut ready: BinaryHeap<usize> = (0..nodes.len()).filter(|number| missing[*number] == 0).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(number) = ready.pop() {
        order.push(number);
        for next in &behind[number] {
            missing[*next] -= 1;
            if missing[*next] == 0 {
                ready.push(*next);
            }
        }
    }
    order
}

pub(crate) fn instantiate(graph: &Graph) -> Answer<usize> {
    let bytes = BYTES + BYTES_OF_NODE * graph.nodes.len() as u64;
    arena::charge(bytes)?;
    let (nodes, order) = (Mutex::new(graph.nodes.clone()), order(&graph.nodes));
    let kept = Mutex::new(lock(&graph.kept).clone());
    let new = Executable { graph: graph.handle, nodes, kept, order, bytes, last: Mutex::default() };
    Ok(lock(&EXECUTABLES).add(Arc::new(new)))
}

pub(crate) fn find(handle: usize) -> Answer<Arc<Executable>> {
    lock(&EXECUTABLES).get(handle).ok_or(Status::INVALID_VALUE)
}

/// Launches that were given to streams go on.
pub(crate) fn destroy(handle: usize) -> Answer {
    lock(&EXECUTABLES).remove(handle).map(drop).ok_or(Status::INVALID_VALUE)
}

/// `CUgraphExecUpdateResult`: why a graph cannot replace the parameters of an executable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    Topology = 2,
    Kind = 3,
    Parameters = 5,
}

/// Whether work can take the place of other work in an executable.
fn replaces(new: &Work, old: &Work) -> Result<(), Difference> {
    let is_allowed = match (new, old) {
        (Work::Fill(new), Work::Fill(old)) => new.can_replace(old),
        (Work::Copy(new), Work::Copy(old)) => new.can_replace(old),
        _ => true,
    };
    if new.kind() != old.kind() {
        return Err(Difference::Kind);
    }
    if is_allowed { Ok(()) } else { Err(Difference::Parameters) }
}

impl Executable {
    /// Takes the parameters of a graph. If one node differs too much, its number is returned and nothing changes.
    pub(crate) fn update(&self, graph: &Graph) -> Result<(), (Difference, Option<usize>)> {
        let mut nodes = lock(&self.nodes);
        if nodes.len() != graph.nodes.len() {
            return Err((Difference::Topology, None));
        }
        // As a real driver, it names the last node that differs.
        for (number, (new, old)) in graph.nodes.iter().zip(nodes.iter()).enumerate().rev() {
            if new.after != old.after {
                return Err((Difference::Topology, Some(number)));
            }
            replaces(&new.work, &old.work).map_err(|difference| (difference, Some(number)))?;
        }
        nodes.clone_from(&graph.nodes);
        // The references to what the old graph kept are dropped last.
        let _old = std::mem::replace(&mut *lock(&self.kept), lock(&graph.kept).clone());
        Ok(())
    }

    /// Sets the work of a node, for later launches.
    pub(crate) fn set(&self, number: usize, work: Work) -> Answer {
        let mut nodes = lock(&self.nodes);
        let node = nodes.get_mut(number).ok_or(Status::INVALID_VALUE)?;
        replaces(&work, &node.work).map_err(|_| Status::INVALID_VALUE)?;
        node.work = work;
        Ok(())
    }

    /// The work of a launch, in order.
    fn work(&self) -> Vec<Work> {
        let nodes = lock(&self.nodes);
        self.order.iter().map(|number| nodes[*number].work.clone()).collect()
    }

    /// Gives the work to a stream.
    ///
    /// # Safety
    /// When the stream reaches the work, there is memory at the addresses of all nodes, and their functions may be called.
    pub(crate) unsafe fn launch(&self, stream: usize) -> Answer {
        let work = self.work();
        if !work.iter().all(Work::can_run) {
            return Err(Status::NOT_SUPPORTED);
        }
        let mut last = lock(&self.last);
        let before = last.clone();
        let kept = lock(&self.kept).clone();
        let used: Vec<Use> = work.iter().flat_map(Work::uses).collect();
        let task = move || {
            before.iter().for_each(Point::wait);
            // SAFETY: the memory is there by this function's contract. It does not go while its use is noted.
            work.iter().for_each(|work| unsafe { work.run() });
            drop(used);
            drop(kept);
        };
        *last = Some(streams::submit(stream, task)?);
        Ok(())
    }
}
