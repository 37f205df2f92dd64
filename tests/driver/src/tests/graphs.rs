//! Tests of graphs: what their launches do, and what can be changed in them.

use std::ffi::{CStr, c_void};

use super::*;
use crate::answer::Answer;
use crate::graph_nodes::{CopyParameters, FillParameters, KernelParameters};
use crate::launch::Shape;
use crate::{capture_calls, executable, graph, graph_calls, graph_nodes, kernels, uses};

pub(super) const THREAD_LOCAL: u32 = 1;
const LEN: u32 = (BYTES / 4) as u32;

/// One of the kernels.
pub(super) fn kernel(name: &'static CStr) -> usize {
    let module = get(|module| kernels::cuModuleLoadData(module, std::ptr::null()));
    get(|function| kernels::cuModuleGetFunction(function, module, Text::of(name)))
}

/// Launches `fill` for elements of four bytes that are all the same.
pub(super) fn fill_by_kernel(function: usize, address: u64, byte: u8, stream: usize) -> Status {
    let (value, len, nanoseconds) = (u32::from_ne_bytes([byte; 4]), LEN, 0u64);
    let places: [*const c_void; 4] = [
        (&raw const address).cast(),
        (&raw const value).cast(),
        (&raw const len).cast(),
        (&raw const nanoseconds).cast(),
    ];
    // SAFETY: these are the types of the kernel's arguments. The tests allocate the memory, and free it behind the work.
    unsafe { kernels::cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, places.as_ptr(), std::ptr::null()) }
}

pub(super) fn begin_capture(stream: usize, mode: u32) {
    assert_eq!(capture_calls::cuStreamBeginCapture_v2(stream, mode), Status::SUCCESS);
}

pub(super) fn end_capture(stream: usize) -> Answer<usize> {
    let mut graph = 1;
    match capture_calls::cuStreamEndCapture(stream, Out::of(&mut graph)) {
        Status::SUCCESS => Ok(graph),
        status => {
            assert_eq!(graph, 0);
            Err(status)
        }
    }
}

/// The graph of some work.
pub(super) fn captured(stream: usize, work: impl FnOnce()) -> usize {
    begin_capture(stream, THREAD_LOCAL);
    work();
    end_capture(stream).unwrap()
}

pub(super) fn instantiate(graph: usize) -> usize {
    get(|executable| graph_calls::cuGraphInstantiateWithFlags(executable, graph, 0))
}

pub(super) fn launch(executable: usize, stream: usize) -> Status {
    // SAFETY: the tests free no memory of a graph before its launches are done.
    unsafe { graph_calls::cuGraphLaunch(executable, stream) }
}

pub(super) fn nodes(graph: usize) -> Vec<usize> {
    let mut count = 0;
    // SAFETY: without a place for nodes, only their number is written.
    assert_eq!(unsafe { graph_calls::cuGraphGetNodes(graph, std::ptr::null_mut(), &mut count) }, Status::SUCCESS);
    let mut nodes = vec![0; count];
    // SAFETY: there is room for as many nodes.
    assert_eq!(unsafe { graph_calls::cuGraphGetNodes(graph, nodes.as_mut_ptr(), &mut count) }, Status::SUCCESS);
    nodes
}

pub(super) fn kinds(graph: usize) -> Vec<u32> {
    nodes(graph).into_iter().map(|node| get(|kind| graph_calls::cuGraphNodeGetType(node, kind))).collect()
}

pub(super) fn status(stream: usize) -> u32 {
    get(|status| capture_calls::cuStreamIsCapturing(stream, status))
}

pub(super) fn event() -> usize {
    get(|event| events::cuEventCreate(event, 2))
}

/// Lets `to` wait for all work of `from`.
pub(super) fn fork(from: usize, to: usize) {
    let event = event();
    assert_eq!(events::cuEventRecord(event, from), Status::SUCCESS);
    assert_eq!(stream_calls::cuStreamWaitEvent(to, event, 0), Status::SUCCESS);
    assert_eq!(events::cuEventDestroy_v2(event), Status::SUCCESS);
}

/// The parameters of a kernel node.
fn of_kernel(node: usize) -> KernelParameters {
    let shape = Shape { grid: [0; 3], block: [0; 3], shared: 0 };
    let (function, arguments, extra) = (0, std::ptr::null(), std::ptr::null());
    let mut parameters = KernelParameters { function, shape, arguments, extra, kernel: 0, context: 0 };
    assert_eq!(graph_nodes::cuGraphKernelNodeGetParams_v2(node, Out::of(&mut parameters)), Status::SUCCESS);
    parameters
}

#[test]
fn a_capture_runs_nothing_and_a_launch_everything() {
    let _others = without_waiting_for_all();
    begin();
    let (here, there) = (stream(NON_BLOCKING), stream(NON_BLOCKING));
    let (first, second, third) = (allocate(here), allocate(here), allocate(here));
    assert_eq!(stream_calls::cuStreamSynchronize(here), Status::SUCCESS);
    let filler = kernel(c"fill");
    let graph = captured(here, || {
        assert_eq!(fill_by_kernel(filler, first, 1, here), Status::SUCCESS);
        copy(first, second, here);
        fill(third, 3, here);
        assert_eq!(status(here), 1);
    });
    assert_eq!((status(here), kinds(graph)), (0, vec![0, 1, 2]));
    let all = [first, second, third];
    assert!(all.iter().all(|memory| bytes(*memory, here) == Some(GARBAGE)));
    let executable = instantiate(graph);
    assert_eq!(graph_calls::cuGraphDestroy(graph), Status::SUCCESS);
    for on in [here, there] {
        all.iter().for_each(|memory| fill(*memory, 9, on));
        assert_eq!(launch(executable, on), Status::SUCCESS);
        assert_eq!(all.map(|memory| bytes(memory, on)), [Some(1), Some(1), Some(3)]);
    }
    // Queued launches go on without the executable.
    let held = hold(here);
    all.iter().for_each(|memory| fill(*memory, 9, here));
    assert_eq!(launch(executable, here), Status::SUCCESS);
    assert_eq!(graph_calls::cuGraphExecDestroy(executable), Status::SUCCESS);
    assert_eq!(launch(executable, here), Status::INVALID_VALUE);
    drop(held);
    assert_eq!(bytes(second, here), Some(1));
}

#[test]
fn a_launch_lies_in_the_order_of_its_stream_and_of_its_executable() {
    let _others = without_waiting_for_all();
    begin();
    let (here, there) = (stream(NON_BLOCKING), stream(NON_BLOCKING));
    let (from, to) = (allocate(here), allocate(here));
    let executable = instantiate(captured(here, || copy(from, to, here)));
    let held = hold(here);
    fill(from, 4, here);
    assert_eq!(launch(executable, here), Status::SUCCESS);
    fill(from, 5, here);
    assert_eq!(launch(executable, there), Status::SUCCESS);
    assert_eq!(stream_calls::cuStreamQuery(there), Status::NOT_READY, "it waits for the earlier launch");
    assert!(uses::is_used(from, BYTES) && uses::is_used(to, 1));
    drop(held);
    assert_eq!(stream_calls::cuStreamSynchronize(there), Status::SUCCESS);
    assert!(matches!(bytes(to, here), Some(4 | 5)));
    assert!(!uses::is_used(from, BYTES));
}

/// A graph of a kernel, a fill and a copy: elements become 1, then 2, and are copied.
fn three_nodes(here: usize, filled: u64, copied: u64) -> usize {
    let filler = kernel(c"fill");
    captured(here, || {
        assert_eq!(fill_by_kernel(filler, filled, 1, here), Status::SUCCESS);
        fill(filled, 2, here);
        copy(filled, copied, here);
    })
}

/// Sets the address that a kernel node writes.
fn set_address(executable: usize, node: usize, mut launched: KernelParameters, address: u64) -> Status {
    // SAFETY: the kernel has four arguments, and their places are valid while the graph lives.
    let mut places = unsafe { [0, 1, 2, 3].map(|number| *launched.arguments.add(number)) };
    places[0] = (&raw const address).cast();
    launched.arguments = places.as_ptr();
    // SAFETY: the parameters are valid, and there is memory at the address.
    unsafe { graph_nodes::cuGraphExecKernelNodeSetParams_v2(executable, node, &launched) }
}

#[test]
fn parameters_are_patched_for_later_launches() {
    let _others = without_waiting_for_all();
    begin();
    let here = stream(NON_BLOCKING);
    let (one, two, kept) = (allocate(here), allocate(here), allocate(here));
    let graph = three_nodes(here, one, kept);
    let (executable, nodes) = (instantiate(graph), nodes(graph));
    let held = hold(here);
    assert_eq!(launch(executable, here), Status::SUCCESS);
    let launched = of_kernel(nodes[0]);
    // SAFETY: the first argument of the kernel is an address.
    assert_eq!(unsafe { (*launched.arguments).cast::<u64>().read() }, one);
    assert_eq!(set_address(executable, nodes[0], launched, two), Status::SUCCESS);
    let mut filled = FillParameters { address: 0, pitch: 0, value: 0, element: 0, width: 0, rows: 0 };
    assert_eq!(graph_nodes::cuGraphMemsetNodeGetParams(nodes[1], Out::of(&mut filled)), Status::SUCCESS);
    assert_eq!((filled.address, filled.value, filled.rows), (one, 2, 1));
    filled.address = two;
    // SAFETY: the parameters are valid, and there is memory at the address.
    let set = unsafe { graph_nodes::cuGraphExecMemsetNodeSetParams(executable, nodes[1], &filled, 0) };
    assert_eq!(set, Status::SUCCESS);
    drop(held);
    assert_eq!([one, kept].map(|memory| bytes(memory, here)), [Some(2); 2], "the queued launch is as it was");
    fill(one, 7, here);
    assert_eq!(launch(executable, here), Status::SUCCESS);
    assert_eq!([one, two, kept].map(|memory| bytes(memory, here)), [Some(7), Some(2), Some(7)]);
    let mut copied: CopyParameters = get(|place| graph_nodes::cuGraphMemcpyNodeGetParams(nodes[2], place));
    assert_eq!((copied.from.device, copied.to.device, copied.bytes), (one, kept, BYTES));
    (copied.from.device, copied.to.device) = (kept, two);
    // SAFETY: the parameters are valid, and there is memory at both addresses.
    let set = unsafe { graph_nodes::cuGraphExecMemcpyNodeSetParams(executable, nodes[2], &copied, 0) };
    assert_eq!((set, launch(executable, here)), (Status::SUCCESS, Status::SUCCESS));
    assert_eq!(bytes(two, here), Some(7));
}

#[test]
fn parameters_are_those_of_a_node_of_the_own_graph() {
    let _others = without_waiting_for_all();
    begin();
    let here = stream(NON_BLOCKING);
    let (one, two) = (allocate(here), allocate(here));
    let (graph, other) = (three_nodes(here, one, two), three_nodes(here, one, two));
    let (executable, own) = (instantiate(graph), nodes(graph));
    let set = |node| set_address(executable, node, of_kernel(nodes(other)[0]), two);
    assert_eq!(set(own[0]), Status::SUCCESS);
    assert_eq!(set(own[1]), Status::INVALID_VALUE, "another kind");
    assert_eq!(set(graph), Status::INVALID_VALUE, "no node");
    assert_eq!(set(nodes(other)[0]), Status::INVALID_VALUE, "another graph");
    assert_eq!(graph_calls::cuGraphDestroy(graph), Status::SUCCESS);
    assert_eq!(set(own[0]), Status::INVALID_VALUE, "the graph is gone");
    assert_eq!(graph_calls::cuGraphDestroy(graph), Status::INVALID_VALUE);
}

#[test]
fn an_executable_takes_the_parameters_of_a_graph_of_the_same_shape() {
    let _others = without_waiting_for_all();
    begin();
    let (here, there) = (stream(NON_BLOCKING), stream(NON_BLOCKING));
    let (one, two) = (allocate(here), allocate(here));
    let chain = |from, to, byte| {
        captured(here, || {
            fill(from, byte, here);
            copy(from, to, here);
            fill(from, 0, here);
        })
    };
    let executable = instantiate(chain(one, two, 1));
    let update = |graph| {
        let mut result = graph_calls::UpdateResult { result: 9, node: 9, from: 9 };
        let status = graph_calls::cuGraphExecUpdate_v2(executable, graph, Out::of(&mut result));
        (status, result.result, result.node)
    };
    assert_eq!(update(chain(two, one, 8)), (Status::SUCCESS, 0, 0));
    assert_eq!(launch(executable, here), Status::SUCCESS);
    assert_eq!([one, two].map(|memory| bytes(memory, here)), [Some(8), Some(0)]);
    let shorter = captured(here, || fill(one, 1, here));
    assert_eq!(update(shorter), (Status::UPDATE_FAILURE, 2, 0));
    let other = captured(here, || {
        fill(one, 1, here);
        fill(one, 1, here);
        fill(one, 1, here);
    });
    assert_eq!(update(other), (Status::UPDATE_FAILURE, 3, nodes(other)[1]));
    let forked = captured(here, || {
        fill(one, 1, here);
        fork(here, there);
        copy(one, two, there);
        fill(one, 1, here);
        fork(there, here);
    });
    assert_eq!(update(forked).1, 2);
    assert_eq!(launch(executable, here), Status::SUCCESS);
    assert_eq!([one, two].map(|memory| bytes(memory, here)), [Some(8), Some(0)], "nothing has changed");
}

#[test]
fn streams_join_a_capture_and_a_missing_wait_shows() {
    let _others = without_waiting_for_all();
    begin();
    let (here, there) = (stream(NON_BLOCKING), stream(NON_BLOCKING));
    let (from, to) = (allocate(here), allocate(here));
    let forked = |is_ordered: bool| {
        captured(here, || {
            fork(here, there);
            assert_eq!(status(there), 1);
            fill(from, 6, here);
            if is_ordered {
                fork(here, there);
            }
            copy(from, to, there);
            fork(there, here);
        })
    };
    for is_ordered in [true, false] {
        fill(from, 0, here);
        assert_eq!(launch(instantiate(forked(is_ordered)), here), Status::SUCCESS);
        assert_eq!(bytes(to, here), Some(if is_ordered { 6 } else { 0 }));
        assert_eq!(status(there), 0);
    }
}

#[test]
fn memory_of_the_host_is_copied_at_each_launch() {
    let _others = without_waiting_for_all();
    begin();
    let here = stream(NON_BLOCKING);
    let (memory, mut host) = (allocate(here), vec![1u8; BYTES]);
    let graph = captured(here, || {
        // SAFETY: the host's memory stays until the last launch is done.
        let copied = unsafe { transfers::cuMemcpyHtoDAsync_v2(memory, host.as_ptr(), BYTES, here) };
        assert_eq!(copied, Status::SUCCESS);
        // SAFETY: nothing is copied.
        let nothing = unsafe { transfers::cuMemcpyDtoDAsync_v2(memory, memory, 0, here) };
        assert_eq!(nothing, Status::SUCCESS);
    });
    assert_eq!(kinds(graph), [1], "empty work is no node");
    host.fill(2);
    let mut copied: CopyParameters = get(|place| graph_nodes::cuGraphMemcpyNodeGetParams(nodes(graph)[0], place));
    assert_eq!((copied.from.memory, copied.from.host, copied.to.memory), (1, host.as_ptr() as u64, 2));
    let executable = instantiate(graph);
    assert_eq!(launch(executable, here), Status::SUCCESS);
    assert_eq!(bytes(memory, here), Some(2));
    (copied.from.memory, copied.from.device) = (2, memory);
    // SAFETY: the parameters are valid, and there is memory at both addresses.
    let set = unsafe { graph_nodes::cuGraphExecMemcpyNodeSetParams(executable, nodes(graph)[0], &copied, 0) };
    assert_eq!(set, Status::INVALID_VALUE, "memory of another kind");
}

#[test]
fn executables_take_memory() {
    let _others = without_waiting_for_all();
    begin();
    let here = stream(NON_BLOCKING);
    let memory = allocate(here);
    let graph = captured(here, || (0..10).for_each(|_| fill(memory, 1, here)));
    let free = || get(|free| memory::cuMemGetInfo_v2(free, Out::of(&mut 0)));
    // Other tests allocate memory meanwhile.
    let is_counted = || {
        let before = free();
        let executable = instantiate(graph);
        let with_it = free();
        assert_eq!(graph_calls::cuGraphExecDestroy(executable), Status::SUCCESS);
        before.checked_sub(with_it) == Some((128 << 10) + 10 * (2 << 10)) && free() == before
    };
    assert!((0..10_000).any(|_| is_counted()));
    assert!(executable::find(12345).is_err() && graph::find(12345).is_err());
}

#[test]
fn arguments_lie_as_in_c() {
    let _others = without_waiting_for_all();
    begin();
    let layout = |name| {
        let function = kernel(name);
        let argument = |which| {
            let (mut offset, mut bytes) = (0, 0);
            let status = kernels::cuFuncGetParamInfo(function, which, Out::of(&mut offset), Out::of(&mut bytes));
            (status == Status::SUCCESS).then_some((offset, bytes))
        };
        (0..).map_while(argument).collect::<Vec<_>>()
    };
    assert_eq!(layout(c"hold"), [(0, 8)]);
    assert_eq!(layout(c"fill"), [(0, 8), (8, 4), (12, 4), (16, 8)]);
    assert_eq!(layout(c"add"), [(0, 8), (8, 8), (16, 4), (20, 4), (24, 8)]);
    let mut name = std::ptr::null();
    assert_eq!(kernels::cuFuncGetName(Out::of(&mut name), kernel(c"add")), Status::SUCCESS);
    // SAFETY: the driver's names are texts that end with a zero and live as long as the program.
    assert_eq!(unsafe { std::ffi::CStr::from_ptr(name) }, c"add");
}
