//! The functions of captures.

use std::ffi::{c_uint, c_void};

use crate::answer::{Answer, Out, Status, answer};
use crate::capture::{self, Mode};
use crate::{graph, streams};

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamBeginCapture_v2(stream: usize, mode: c_uint) -> Status {
    answer("cuStreamBeginCapture_v2", || capture::begin(&*streams::find(stream)?, Mode::of(mode)?))
}

/// A capture that cannot become a graph ends too, and `graph` becomes null.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamEndCapture(stream: usize, graph: Out<usize>) -> Status {
    answer("cuStreamEndCapture", || {
        graph.put(0)?;
        graph.put(graph::add(capture::end(&*streams::find(stream)?)?))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamIsCapturing(stream: usize, status: Out<c_uint>) -> Status {
    answer("cuStreamIsCapturing", || status.put(capture::status(&*streams::find(stream)?)?.0))
}

/// What a caller asks about a capture.
struct Question<'a> {
    status: &'a Out<c_uint>,
    id: &'a Out<u64>,
    graph: Option<&'a Out<usize>>,
    /// The last nodes, which cannot be had before the end.
    nodes: &'a [&'a Out<*const c_void>],
}

/// The status, the number and the graph of a stream's capture.
fn info(stream: usize, question: &Question<'_>) -> Answer {
    let Question { status, id, graph, nodes } = question;
    let (code, number) = capture::status(&*streams::find(stream)?)?;
    if number.is_some() && nodes.iter().any(|other| other.is_wanted()) {
        return Err(Status::NOT_SUPPORTED);
    }
    if let Some(number) = number {
        id.put_if_wanted(number);
        if let Some(graph) = graph {
            graph.put_if_wanted(capture::graph(number));
        }
    }
    status.put(code)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamGetCaptureInfo(stream: usize, status: Out<c_uint>, id: Out<u64>) -> Status {
    answer("cuStreamGetCaptureInfo", || info(stream, &Question { status: &status, id: &id, graph: None, nodes: &[] }))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamGetCaptureInfo_v2(
    stream: usize,
    status: Out<c_uint>,
    id: Out<u64>,
    graph: Out<usize>,
    dependencies: Out<*const c_void>,
    count: Out<*const c_void>,
) -> Status {
    answer("cuStreamGetCaptureInfo_v2", || {
        info(stream, &Question { status: &status, id: &id, graph: Some(&graph), nodes: &[&dependencies, &count] })
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuStreamGetCaptureInfo_v3(
    stream: usize,
    status: Out<c_uint>,
    id: Out<u64>,
    graph: Out<usize>,
    dependencies: Out<*const c_void>,
    edges: Out<*const c_void>,
    count: Out<*const c_void>,
) -> Status {
    answer("cuStreamGetCaptureInfo_v3", || {
        info(
            stream,
            &Question { status: &status, id: &id, graph: Some(&graph), nodes: &[&dependencies, &edges, &count] },
        )
    })
}

/// # Safety
/// `mode` is null, or valid for a read and a write.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuThreadExchangeStreamCaptureMode(mode: *mut c_uint) -> Status {
    answer("cuThreadExchangeStreamCaptureMode", || {
        if mode.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: it is not null, so the caller promises that it may be read and written.
        unsafe { mode.write(capture::exchange(Mode::of(mode.read())?) as c_uint) };
        Ok(())
    })
}
