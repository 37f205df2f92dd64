//! Tests of user objects: when their function runs.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use super::graphs::*;
use super::*;
use crate::{capture_calls, graph_calls, own, user_objects};

/// How many user objects have ended.
static ENDED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn note_end(_: *mut c_void) {
    ENDED.fetch_add(1, SeqCst);
}

/// A graph that keeps a user object.
fn keeping(stream: usize, memory: u64) -> usize {
    captured(stream, || {
        let (mut code, mut graph) = (0, 0);
        let told = capture_calls::cuStreamGetCaptureInfo_v2(
            stream,
            Out::of(&mut code),
            Out::of_null(),
            Out::of(&mut graph),
            Out::of_null(),
            Out::of_null(),
        );
        assert_eq!((told, code), (Status::SUCCESS, 1));
        // SAFETY: the function uses no value.
        let object = get(|object| unsafe {
            user_objects::cuUserObjectCreate(object, std::ptr::null_mut(), Some(note_end), 1, 1)
        });
        assert_eq!(user_objects::cuGraphRetainUserObject(graph, object, 1, 1), Status::SUCCESS);
        fill(memory, 3, stream);
    })
}

#[test]
fn user_objects_end_with_the_last_graph_executable_and_launch() {
    let _others = without_waiting_for_all();
    begin();
    let ended = || ENDED.load(SeqCst);
    let here = stream(NON_BLOCKING);
    let memory = allocate(here);
    let graph = keeping(here, memory);
    let executable = instantiate(graph);
    assert_eq!(graph_calls::cuGraphDestroy(graph), Status::SUCCESS);
    assert_eq!(own::madeup_delay(here, 100), Status::SUCCESS);
    assert_eq!(launch(executable, here), Status::SUCCESS);
    assert_eq!(graph_calls::cuGraphExecDestroy(executable), Status::SUCCESS);
    assert_eq!(ended(), 0, "the launch is not done");
    assert_eq!(bytes(memory, here), Some(3));
    assert_eq!(ended(), 1);
    let [old, new] = [(); 2].map(|()| keeping(here, memory));
    let executable = instantiate(old);
    assert_eq!(graph_calls::cuGraphDestroy(old), Status::SUCCESS);
    let mut result = graph_calls::UpdateResult { result: 1, node: 0, from: 0 };
    assert_eq!(graph_calls::cuGraphExecUpdate_v2(executable, new, Out::of(&mut result)), Status::SUCCESS);
    assert_eq!(graph_calls::cuGraphDestroy(new), Status::SUCCESS);
    assert_eq!(ended(), 2, "the executable keeps what the new graph kept");
    assert_eq!(graph_calls::cuGraphExecDestroy(executable), Status::SUCCESS);
    assert_eq!(ended(), 3);
}
