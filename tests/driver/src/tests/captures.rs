//! Tests of the rules of captures. Rules that concern the whole process are tested in a process of its own.

use std::process::Command;

use super::graphs::*;
use super::*;
use crate::{capture_calls, graph_calls, kernels};

const RELAXED: u32 = 2;

#[test]
fn forked_streams_must_be_joined() {
    let _others = without_waiting_for_all();
    begin();
    let (here, there) = (stream(NON_BLOCKING), stream(NON_BLOCKING));
    let to = allocate(here);
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
    let _others = without_waiting_for_all();
    begin();
    let unsupported = Status::CAPTURE_UNSUPPORTED;
    is_refused(unsupported, true, |here| stream_calls::cuStreamQuery(here));
    is_refused(unsupported, true, |here| stream_calls::cuStreamSynchronize(here));
    is_refused(unsupported, true, |_| stream_calls::cuStreamSynchronize(stream(NON_BLOCKING)));
    is_refused(unsupported, true, |_| memory::cuMemAlloc_v2(Out::of(&mut 0), BYTES));
    is_refused(unsupported, true, |_| memory::cuMemFree_v2(0));
    is_refused(unsupported, true, |_| memory::cuMemAllocAsync(Out::of(&mut 0), BYTES, stream(NON_BLOCKING)));
    is_refused(unsupported, true, |_| events::cuEventQuery(event()));
    let graph = captured(stream(NON_BLOCKING), || ());
    let (executable, mut second) = (instantiate(graph), 0);
    is_refused(unsupported, true, |here| launch(executable, here));
    is_refused(unsupported, true, |_| graph_calls::cuGraphInstantiateWithFlags(Out::of(&mut second), graph, 0));
    is_refused(unsupported, true, |_| graph_calls::cuGraphExecDestroy(executable));
    is_refused(Status::SUCCESS, false, |_| launch(executable, stream(NON_BLOCKING)));
    is_refused(Status::INVALID_VALUE, true, |here| {
        // SAFETY: a launch without arguments is refused, and reads none.
        unsafe {
            kernels::cuLaunchKernel(kernel(c"hold"), 1, 1, 1, 1, 1, 1, 0, here, std::ptr::null(), std::ptr::null())
        }
    });
    is_refused(Status::INVALID_VALUE, false, |here| memory::cuMemFreeAsync(12345, here));
    is_refused(Status::ILLEGAL_STATE, false, |here| capture_calls::cuStreamBeginCapture_v2(here, RELAXED));
    assert_eq!(end_capture(stream(NON_BLOCKING)), Err(Status::ILLEGAL_STATE));
    assert_eq!(capture_calls::cuStreamBeginCapture_v2(stream(NON_BLOCKING), 3), Status::INVALID_VALUE);
}

#[test]
fn events_of_captures_and_of_other_work_do_not_mix() {
    let _others = without_waiting_for_all();
    begin();
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
    is_refused(Status::CAPTURED_EVENT, false, |here| {
        let event = event();
        assert_eq!(events::cuEventRecord(event, here), Status::SUCCESS);
        events::cuEventElapsedTime(Out::of(&mut 0.0), event, event)
    });
    is_refused(Status::SUCCESS, false, |here| stream_calls::cuStreamWaitEvent(here, event(), 0));
    let (old, here) = (event(), stream(NON_BLOCKING));
    captured(here, || assert_eq!(events::cuEventRecord(old, here), Status::SUCCESS));
    assert_eq!(events::cuEventQuery(old), Status::INVALID_VALUE, "its capture has ended");
    assert_eq!(stream_calls::cuStreamWaitEvent(here, old, 0), Status::INVALID_VALUE);
    is_refused(Status::INVALID_VALUE, true, |here| stream_calls::cuStreamWaitEvent(here, old, 0));
    assert_eq!(events::cuEventRecord(old, here), Status::SUCCESS);
    assert_eq!(events::cuEventSynchronize(old), Status::SUCCESS);
}

#[test]
fn the_mode_says_what_may_be_called() {
    let _others = without_waiting_for_all();
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
    assert_eq!(end_capture(here), Err(Status::ILLEGAL_STATE), "it has ended");
    begin_capture(here, THREAD_LOCAL);
    let mut mode = RELAXED;
    // SAFETY: the mode can be read and written.
    let mut exchange = || unsafe { capture_calls::cuThreadExchangeStreamCaptureMode(&mut mode) };
    assert_eq!((exchange(), allocate(), exchange()), (Status::SUCCESS, Status::SUCCESS, Status::SUCCESS));
    assert_eq!((mode, status(here)), (RELAXED, 1));
    assert!(end_capture(here).is_ok());
}

#[test]
fn captured_allocations_are_nodes() {
    let _others = without_waiting_for_all();
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
    let unsupported = Status::CAPTURE_UNSUPPORTED;
    assert_eq!(capture_calls::cuStreamBeginCapture_v2(0, THREAD_LOCAL), unsupported);
    is_refused(unsupported, true, |_| context::cuCtxSynchronize());
    is_refused(unsupported, true, |_| events::cuCtxRecordEvent(0, event()));
    let memory = allocate(2);
    is_refused(Status::SUCCESS, false, |_| try_fill(memory, 0));
    is_refused(Status::CAPTURE_IMPLICIT, true, |here| {
        let event = event();
        assert_eq!(events::cuEventRecord(event, here), Status::SUCCESS);
        stream_calls::cuStreamWaitEvent(0, event, 0)
    });
    let blocking = stream(0);
    begin_capture(blocking, RELAXED);
    assert_eq!(try_fill(memory, 0), Status::CAPTURE_IMPLICIT);
    assert_eq!(end_capture(blocking), Err(Status::CAPTURE_INVALIDATED));
    begin_capture(blocking, RELAXED);
    let elsewhere = std::thread::spawn(|| {
        begin();
        context::cuCtxSynchronize()
    });
    assert_eq!(elsewhere.join().unwrap(), unsupported, "in each mode, and on each thread");
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
