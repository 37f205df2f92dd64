//! The nodes of a graph that this program captures by itself, through cudarc.

use std::ptr;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use cudarc::driver::CudaStream;
use cudarc::driver::sys::{self, CUgraphInstantiate_flags, CUgraphNodeType, CUstreamCaptureMode};
use serde::Serialize;

/// Nodes by what they do.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Nodes {
    kernels: usize,
    copies: usize,
    memsets: usize,
    /// Memory that the driver allocates and frees inside the graph, because nobody else served the call.
    allocations: usize,
    frees: usize,
    others: usize,
}

impl Nodes {
    /// Captures the work and counts its nodes. Nothing of it runs.
    pub(crate) fn of(stream: &Arc<CudaStream>, work: impl FnOnce() -> Result<()>) -> Result<Self> {
        stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
        let worked = work();
        // The capture ends even if the work failed.
        let graph = stream.end_capture(CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
        worked?;
        let graph = graph?.context("the capture has no nodes")?;
        let mut count = 0;
        // SAFETY: the graph is alive; without an array the call only writes the number of nodes.
        unsafe { sys::cuGraphGetNodes(graph.cu_graph(), ptr::null_mut(), &mut count) }.result()?;
        let mut nodes = vec![ptr::null_mut(); count];
        // SAFETY: the graph is alive, and the array has room for `count` nodes.
        unsafe { sys::cuGraphGetNodes(graph.cu_graph(), nodes.as_mut_ptr(), &mut count) }.result()?;
        let mut counted = Self::default();
        for node in nodes {
            let mut kind = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
            // SAFETY: the node belongs to the graph, which is alive.
            unsafe { sys::cuGraphNodeGetType(node, &mut kind) }.result()?;
            *counted.of_kind(kind) += 1;
        }
        Ok(counted)
    }

    fn of_kind(&mut self, kind: CUgraphNodeType) -> &mut usize {
        match kind {
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL => &mut self.kernels,
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY => &mut self.copies,
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET => &mut self.memsets,
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_ALLOC => &mut self.allocations,
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_FREE => &mut self.frees,
            _ => &mut self.others,
        }
    }
}
