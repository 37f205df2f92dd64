//! The functions of graphs and of their executables.

use std::ffi::{c_int, c_uint};

use crate::answer::{Out, Status, answer};
use crate::executable;
use crate::{capture, device, graph, streams};

/// The flags of executables, which change nothing here: free allocations at each launch, launch from the device, use the priorities
/// of nodes.
const FLAGS: u64 = 1 | 4 | 8;

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphInstantiateWithFlags(executable: Out<usize>, graph: usize, flags: u64) -> Status {
    answer("cuGraphInstantiateWithFlags", || {
        let found = graph::find(graph)?;
        if flags & !FLAGS != 0 {
            return Err(Status::INVALID_VALUE);
        }
        capture::forbid_unsafe()?;
        executable.put(executable::instantiate(&found)?)
    })
}

/// `CUgraphExecUpdateResultInfo`.
#[repr(C)]
pub(crate) struct UpdateResult {
    pub(crate) result: c_uint,
    pub(crate) node: usize,
    pub(crate) from: usize,
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphExecUpdate_v2(executable: usize, graph: usize, result: Out<UpdateResult>) -> Status {
    answer("cuGraphExecUpdate_v2", || {
        let (executable, graph) = (executable::find(executable)?, graph::find(graph)?);
        match executable.update(&graph) {
            Ok(()) => result.put(UpdateResult { result: 0, node: 0, from: 0 }),
            Err((difference, number)) => {
                let node = number.and_then(|number| graph.handles().nth(number)).unwrap_or(0);
                result.put(UpdateResult { result: difference as c_uint, node, from: 0 })?;
                Err(Status::UPDATE_FAILURE)
            }
        }
    })
}

/// # Safety
/// There is memory at the addresses of all nodes when the stream reaches the work, and the functions of the nodes may be called.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuGraphLaunch(executable: usize, stream: usize) -> Status {
    // SAFETY: the caller promises what a launch asks for.
    answer("cuGraphLaunch", || unsafe { executable::find(executable)?.launch(stream) })
}

/// There is nothing to upload.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphUpload(executable: usize, stream: usize) -> Status {
    answer("cuGraphUpload", || {
        executable::find(executable)?;
        capture::refuse(&*streams::find(stream)?)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphExecDestroy(executable: usize) -> Status {
    answer("cuGraphExecDestroy", || {
        capture::forbid_unsafe()?;
        executable::destroy(executable)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphDestroy(graph: usize) -> Status {
    answer("cuGraphDestroy", || graph::remove(graph))
}

/// # Safety
/// `count` is null, or valid for a read and a write. `nodes` is null, or has room for `count` handles.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuGraphGetNodes(graph: usize, nodes: *mut usize, count: *mut usize) -> Status {
    answer("cuGraphGetNodes", || {
        let graph = graph::find(graph)?;
        if count.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        if nodes.is_null() {
            // SAFETY: it is not null, so the caller promises that it may be written.
            unsafe { count.write(graph.nodes.len()) };
            return Ok(());
        }
        // SAFETY: `count` is not null, so it may be read, and there is room for this many handles.
        let room = unsafe { std::slice::from_raw_parts_mut(nodes, count.read()) };
        // More room than nodes is filled with null.
        let handles = graph.handles().chain(std::iter::repeat(0));
        room.iter_mut().zip(handles).for_each(|(place, handle)| *place = handle);
        // SAFETY: `count` is not null, so the caller promises that it may be written.
        unsafe { count.write(graph.nodes.len().min(room.len())) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphNodeGetType(node: usize, kind: Out<c_uint>) -> Status {
    answer("cuGraphNodeGetType", || {
        let (graph, number) = graph::node(node)?;
        kind.put(graph.nodes[number].work.kind())
    })
}

/// Graphs keep no memory that could be given back.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGraphMemTrim(device: c_int) -> Status {
    answer("cuDeviceGraphMemTrim", || device::known(device))
}
