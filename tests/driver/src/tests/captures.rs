//! Tests of captures and graphs. Rules that concern the whole process are tested in a process of their own.

use std::ffi::{CStr, c_void};
use std::process::Command;

use super::*;
use crate::answer::Answer;
use crate::graph_nodes::{CopyParameters, FillParameters, KernelParameters};
use crate::launch::Shape;
use crate::{capture_calls, executable, graph, graph_calls, graph_nodes, kernels, uses};

const THREAD_LOCAL: u32 = 1;
const RELAXED: u32 = 2;
const LEN: u32 = (BYTES / 4) as u32;

/// One of the kernels.
fn kernel(name: &'static CStr) -> usize {
    let module = get(|module| kernels::cuModuleLoadData(module, std::ptr::null()));
    get(|function| kernels::cuModuleGetFunction(function, module, Text::of(name)))
}

/// Launches `fill` for elements of four bytes that are all the same.
fn fill_by_kernel(function: usize, address: u64, byte: u8, stream: usize) -> Status {
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

fn begin_capture(stream: usize, mode: u32) {
    assert_eq!(capture_calls::cuStreamBeginCapture_v2(stream, mode), Status::SUCCESS);
}

fn end_capture(stream: usize) -> Answer<usize> {
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
fn captured(stream: usize, work: impl FnOnce()) -> usize {
    begin_capture(stream, THREAD_LOCAL);
    work();
    end_capture(stream).unwrap()
}

fn instantiate(graph: usize) -> usize {
    get(|executable| graph_calls::cuGraphInstantiateWithFlags(executable, graph, 0))
}

fn launch(executable: usize, stream: usize) -> Status {
    // SAFETY: the tests free no memory of a graph before its launches are done.
    unsafe { graph_calls::cuGraphLaunch(executable, stream) }
}

fn nodes(graph: usize) -> Vec<usize> {
    let mut count = 0;
    // SAFETY: without a place for nodes, only their number is written.
    assert_eq!(unsafe { graph_calls::cuGraphGetNodes(graph, std::ptr::null_mut(), &mut count) }, Status::SUCCESS);
    let mut nodes = vec![0; count];
    // SAFETY: there is room for as many nodes.
    assert_eq!(unsafe { graph_calls::cuGraphGetNodes(graph, nodes.as_mut_ptr(), &mut count) }, Status::SUCCESS);
    nodes
}

fn kinds(graph: usize) -> Vec<u32> {
    nodes(graph).into_iter().map(|node| get(|kind| graph_calls::cuGraphNodeGetType(node, kind))).collect()
}

fn status(stream: usize) -> u32 {
    get(|status| capture_calls::cuStreamIsCapturing(stream, status))
}

fn event() -> usize {
    get(|event| events::cuEventCreate(event, 2))
}

/// Lets `to` wait for all work of `from`.
fn fork(from: usize, to: usize) {
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

#[test]
fn parameters_are_patched_for_later_launches() {
    begin();
    let here = stream(NON_BLOCKING);
    let (one, two, kept) = (allocate(here), allocate(here), allocate(here));
    let filler = kernel(c"fill");
    let graph = captured(here, || {
        assert_eq!(fill_by_kernel(filler, one, 1, here), Status::SUCCESS);
        fill(one, 2, here);
        copy(one, kept, here);
    });
    let (executable, nodes) = (instantiate(graph), nodes(graph));
    let held = hold(here);
    assert_eq!(launch(executable, here), Status::SUCCESS);
    let mut filled = FillParameters { address: 0, pitch: 0, value: 0, element: 0, width: 0, rows: 0 };
    assert_eq!(graph_nodes::cuGraphMemsetNodeGetParams(nodes[1], Out::of(&mut filled)), Status::SUCCESS);
    assert_eq!((filled.address, filled.value, filled.rows), (one, 2, 1));
    filled.address = two;
    let mut copied: CopyParameters = get(|place| graph_nodes::cuGraphMemcpyNodeGetParams(nodes[2], place));
    assert_eq!((copied.from.device, copied.to.device, copied.bytes), (one, kept, BYTES));
    (copied.from.device, copied.to.device) = (kept, two);
    let mut launched = of_kernel(nodes[0]);
    // SAFETY: the first argument of the kernel is an address. The places are those of four arguments.
    let mut places = unsafe {
        assert_eq!((*launched.arguments).cast::<u64>().read(), one);
        [0, 1, 2, 3].map(|number| *launched.arguments.add(number))
    };
    places[0] = (&raw const two).cast();
    launched.arguments = places.as_ptr();
    // SAFETY: the parameters are valid, and there is memory at the addresses in them.
    unsafe {
        let set = graph_nodes::cuGraphExecKernelNodeSetParams_v2;
        assert_eq!(set(executable, nodes[0], &launched), Status::SUCCESS);
        assert_eq!(set(executable, nodes[1], &launched), Status::INVALID_VALUE, "another kind");
        assert_eq!(set(executable, graph, &launched), Status::INVALID_VALUE, "no node");
        assert_eq!(graph_nodes::cuGraphExecMemsetNodeSetParams(executable, nodes[1], &filled, 0), Status::SUCCESS);
    }
    drop(held);
    assert_eq!([one, kept].map(|memory| bytes(memory, here)), [Some(2); 2], "the queued launch is as it was");
    fill(one, 7, here);
    assert_eq!(launch(executable, here), Status::SUCCESS);
    assert_eq!([one, two, kept].map(|memory| bytes(memory, here)), [Some(7), Some(2), Some(7)]);
    // SAFETY: there is memory at both addresses.
    let set = unsafe { graph_nodes::cuGraphExecMemcpyNodeSetParams(executable, nodes[2], &copied, 0) };
    assert_eq!((set, launch(executable, here)), (Status::SUCCESS, Status::SUCCESS));
    assert_eq!(bytes(two, here), Some(7));
    assert_eq!(graph_calls::cuGraphDestroy(graph), Status::SUCCESS);
    // SAFETY: the node is gone, so nothing is read through the parameters' addresses after the kernel's arguments.
    let set = unsafe { graph_nodes::cuGraphExecKernelNodeSetParams_v2(executable, nodes[0], &launched) };
    assert_eq!(set, Status::INVALID_VALUE, "the graph is gone");
}

#[test]
fn an_executable_takes_the_parameters_of_a_graph_of_the_same_shape() {
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
    begin_capture(here, THREAD_LOCAL);
    fork(here, there);
    fill(to, 1, there);
    assert_eq!(end_capture(there), Err(Status::CAPTURE_UNMATCHED));
    assert_eq!(end_capture(here), Err(Status::CAPTURE_INVALIDATED));
    begin_capture(here, THREAD_LOCAL);
    fork(here, there);
    fill(to, 1, there);
    assert_eq!(end_capture(here), Err(Status::CAPTURE_UNJOINED));
    assert_eq!((status(here), status(there)), (0, 0));
}

/// Whether a call within a capture has this status, and then the capture is lost, or goes on.
fn is_refused(expected: Status, is_lost: bool, call: impl FnOnce(usize) -> Status) {
    let here = stream(NON_BLOCKING);
    let memory = allocate(here);
    begin_capture(here, THREAD_LOCAL);
    fill(memory, 1, here);
    assert_eq!(call(here), expected);
    assert_eq!(status(here), if is_lost { 2 } else { 1 });
    let later = try_fill(memory, here);
    let lost = Status::CAPTURE_INVALIDATED;
    assert_eq!(later, if is_lost { lost } else { Status::SUCCESS });
    let ended = end_capture(here);
    assert_eq!(ended.is_err_and(|status| status == lost), is_lost);
    assert_eq!(status(here), 0);
    fill(memory, 2, here);
    assert_eq!(bytes(memory, here), Some(2), "the stream is as before");
}

fn try_fill(memory: u64, stream: usize) -> Status {
    // SAFETY: the test has allocated the memory.
    unsafe { transfers::cuMemsetD8Async(memory, 1, BYTES, stream) }
}

#[test]
fn calls_that_no_capture_holds_invalidate_it() {
    begin();
    let unsupported = Status::CAPTURE_UNSUPPORTED;
    is_refused(unsupported, true, |here| stream_calls::cuStreamQuery(here));
    is_refused(unsupported, true, |here| stream_calls::cuStreamSynchronize(here));
    is_refused(unsupported, true, |_| memory::cuMemAlloc_v2(Out::of(&mut 0), BYTES));
    is_refused(unsupported, true, |_| memory::cuMemFree_v2(12345));
    is_refused(unsupported, true, |_| context::cuCtxSynchronize());
    is_refused(Status::SUCCESS, false, |_| stream_calls::cuStreamSynchronize(stream(NON_BLOCKING)));
    is_refused(Status::CAPTURED_EVENT, true, |here| {
        let event = event();
        assert_eq!(events::cuEventRecord(event, here), Status::SUCCESS);
        events::cuEventQuery(event)
    });
    is_refused(Status::CAPTURE_ISOLATION, true, |here| {
        let (event, other) = (event(), stream(NON_BLOCKING));
        assert_eq!(events::cuEventRecord(event, other), Status::SUCCESS);
        stream_calls::cuStreamWaitEvent(here, event, 0)
    });
    is_refused(Status::CAPTURE_MERGE, true, |here| {
        let (event, other) = (event(), stream(NON_BLOCKING));
        begin_capture(other, THREAD_LOCAL);
        assert_eq!(events::cuEventRecord(event, other), Status::SUCCESS);
        let merged = stream_calls::cuStreamWaitEvent(here, event, 0);
        assert_eq!(end_capture(other), Err(Status::CAPTURE_INVALIDATED));
        merged
    });
    is_refused(Status::ILLEGAL_STATE, false, |here| capture_calls::cuStreamBeginCapture_v2(here, RELAXED));
    assert_eq!(end_capture(stream(NON_BLOCKING)), Err(Status::ILLEGAL_STATE));
    assert_eq!(capture_calls::cuStreamBeginCapture_v2(stream(NON_BLOCKING), 3), Status::INVALID_VALUE);
}

#[test]
fn the_mode_says_what_may_be_called() {
    begin();
    let here = stream(NON_BLOCKING);
    let allocate = || memory::cuMemAlloc_v2(Out::of(&mut 0), BYTES);
    begin_capture(here, RELAXED);
    assert_eq!((allocate(), status(here)), (Status::SUCCESS, 1));
    assert!(end_capture(here).is_ok());
    begin_capture(here, THREAD_LOCAL);
    let elsewhere = std::thread::spawn(move || {
        begin();
        (allocate(), end_capture(here))
    });
    assert_eq!(elsewhere.join().unwrap(), (Status::SUCCESS, Err(Status::CAPTURE_WRONG_THREAD)));
    let mut mode = RELAXED;
    // SAFETY: the mode can be read and written.
    let mut exchange = || unsafe { capture_calls::cuThreadExchangeStreamCaptureMode(&mut mode) };
    assert_eq!((exchange(), allocate(), exchange()), (Status::SUCCESS, Status::SUCCESS, Status::SUCCESS));
    assert_eq!((mode, status(here)), (RELAXED, 1));
    assert!(end_capture(here).is_ok());
}

#[test]
fn captured_allocations_are_nodes() {
    begin();
    let (here, filler) = (stream(NON_BLOCKING), kernel(c"fill"));
    let graph = captured(here, || {
        let memory = allocate(here);
        assert_eq!(fill_by_kernel(filler, memory, 1, here), Status::SUCCESS);
        assert_eq!(memory::cuMemFreeAsync(memory, here), Status::SUCCESS);
    });
    assert_eq!(kinds(graph), [10, 0, 11]);
    assert_eq!(launch(instantiate(graph), here), Status::NOT_SUPPORTED);
}

#[test]
fn executables_take_memory() {
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
        before.checked_sub(with_it) == Some((64 << 10) + 10 * 512) && free() == before
    };
    assert!((0..10_000).any(|_| is_counted()));
    assert!(executable::find(12345).is_err() && graph::find(12345).is_err());
}

#[test]
fn arguments_lie_as_in_c() {
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
}

#[test]
fn calls_fail_on_purpose() {
    begin();
    let call = || {
        let mut uuid = [0; 16];
        device::cuDeviceGetUuid_v2(Out::of(&mut uuid), 0) == Status::SUCCESS
    };
    let fail = |after, times| {
        let name = Text::of(c"cuDeviceGetUuid_v2");
        assert_eq!(own::madeup_fail(name, after, times, Status::UNKNOWN.0), Status::SUCCESS);
    };
    fail(1, 2);
    assert_eq!([call(), call(), call(), call()], [true, false, false, true]);
    fail(0, u64::MAX);
    assert!((0..100).all(|_| !call()));
    fail(0, 0);
    assert!(call());
}

/// Runs an ignored test in its own process.
fn alone(name: &str) {
    let program = std::env::current_exe().unwrap();
    let run = Command::new(program).args(["--exact", "--ignored", name]).output().unwrap();
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn captures_and_all_streams() {
    alone("tests::captures::rules_of_all_streams");
}

#[test]
#[ignore = "it disturbs all other tests of the process"]
fn rules_of_all_streams() {
    begin();
    assert_eq!(capture_calls::cuStreamBeginCapture_v2(0, THREAD_LOCAL), Status::CAPTURE_IMPLICIT);
    is_refused(Status::SUCCESS, false, |_| stream_calls::cuStreamQuery(0));
    is_refused(Status::CAPTURE_UNSUPPORTED, true, |_| events::cuCtxRecordEvent(0, event()));
    let blocking = stream(0);
    begin_capture(blocking, RELAXED);
    assert_eq!(stream_calls::cuStreamQuery(0), Status::CAPTURE_IMPLICIT);
    assert_eq!(end_capture(blocking), Err(Status::CAPTURE_INVALIDATED));
    begin_capture(blocking, 0);
    let elsewhere = std::thread::spawn(|| {
        begin();
        memory::cuMemAlloc_v2(Out::of(&mut 0), BYTES)
    });
    assert_eq!(elsewhere.join().unwrap(), Status::CAPTURE_UNSUPPORTED);
    assert_eq!(end_capture(blocking), Err(Status::CAPTURE_INVALIDATED));
}

#[test]
fn a_graph_over_unmapped_pages_loses_the_context() {
    alone("tests::captures::a_lost_context");
}

#[test]
#[ignore = "it loses the context"]
fn a_lost_context() {
    const PAGE: usize = 2 << 20;
    begin();
    let address = get(|address| pages::cuMemAddressReserve(address, PAGE, 0, 0, 0));
    let piece = get(|piece| pages::cuMemCreate(piece, PAGE, 0, 0));
    assert_eq!(pages::cuMemMap(address, PAGE, 0, piece, 0), Status::SUCCESS);
    assert_eq!(pages::cuMemSetAccess(address, PAGE, 0, 1), Status::SUCCESS);
    let here = stream(NON_BLOCKING);
    let executable = instantiate(captured(here, || fill(address, 1, here)));
    let _held = hold(here);
    assert_eq!(launch(executable, here), Status::SUCCESS);
    // SAFETY: the driver refuses, since the launch uses the memory.
    assert_eq!(unsafe { pages::cuMemUnmap(address, PAGE) }, Status::ILLEGAL_ADDRESS);
    assert_eq!(launch(executable, here), Status::ILLEGAL_ADDRESS);
}
