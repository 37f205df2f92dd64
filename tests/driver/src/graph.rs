//! Graphs and their nodes, by handle. The handles of a graph's nodes follow the graph's own handle.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::answer::{Answer, Status, lock};
use crate::user_objects::Kept;
use crate::work::Work;

/// The distance of two handles.
const STEP: usize = 16;

/// A piece of work, and the numbers of the nodes that it waits for. They are smaller than its own number.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) work: Work,
    pub(crate) after: Vec<usize>,
}

pub(crate) struct Graph {
    pub(crate) handle: usize,
    pub(crate) nodes: Vec<Node>,
    pub(crate) kept: Mutex<Kept>,
}

/// The graphs by handle, and the next handle. Handles are not used again, so an old one is never taken for another graph's.
struct Graphs {
    live: BTreeMap<usize, Arc<Graph>>,
    next: usize,
}

static GRAPHS: Mutex<Graphs> = Mutex::new(Graphs { live: BTreeMap::new(), next: 0x6A00_0000 });

impl Graph {
    pub(crate) fn handles(&self) -> impl Iterator<Item = usize> {
        (1..=self.nodes.len()).map(|number| self.handle + STEP * number)
    }
}

pub(crate) fn add((nodes, kept): (Vec<Node>, Kept)) -> usize {
    let mut graphs = lock(&GRAPHS);
    let handle = graphs.next;
    graphs.next += STEP * (nodes.len() + 1);
    graphs.live.insert(handle, Arc::new(Graph { handle, nodes, kept: Mutex::new(kept) }));
    handle
}

pub(crate) fn find(handle: usize) -> Answer<Arc<Graph>> {
    lock(&GRAPHS).live.get(&handle).cloned().ok_or(Status::INVALID_VALUE)
}

pub(crate) fn remove(handle: usize) -> Answer {
    lock(&GRAPHS).live.remove(&handle).map(drop).ok_or(Status::INVALID_VALUE)
}

/// The graph of a node, and the node's number in it.
pub(crate) fn node(handle: usize) -> Answer<(Arc<Graph>, usize)> {
    let graphs = lock(&GRAPHS);
    let (start, graph) = graphs.live.range(..handle).next_back().ok_or(Status::INVALID_VALUE)?;
    let number = (handle - start) / STEP;
    let is_node = (handle - start).is_multiple_of(STEP) && number <= graph.nodes.len();
    if is_node { Ok((graph.clone(), number - 1)) } else { Err(Status::INVALID_VALUE) }
}
