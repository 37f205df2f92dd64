//! Captures: the streams that belong to each of them, and the work that became nodes of its graph.
//!
//! A call that a capture cannot contain invalidates the capture. The stream then refuses everything until the capture is ended.
//! Where the manual is silent, the rules are those of CUDA 13.0 on an H100:
//!
//! | calls | refused with 900 |
//! |---|---|
//! | wait for the context, record or await an event of the context | while there is a capture, in each mode and on each thread |
//! | wait for a stream or an event, ask for its state, allocate or free memory outside of the capture, make or destroy an executable | as the capture's mode and the calling thread's mode say |
//! | launch or upload an executable, copy between contexts | on a captured stream |
//! | begin a capture | on the legacy stream |

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::thread::{self, ThreadId};

use crate::answer::{Answer, Status, lock};
use crate::graph::Node;
use crate::streams::Stream;
use crate::user_objects::Kept;
use crate::work::Work;

/// `CUstreamCaptureMode`: which threads may make calls meanwhile that could disturb the capture.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Global,
    ThreadLocal,
    Relaxed,
}

impl Mode {
    pub(crate) fn of(number: u32) -> Answer<Mode> {
        match number {
            0 => Ok(Mode::Global),
            1 => Ok(Mode::ThreadLocal),
            2 => Ok(Mode::Relaxed),
            _ => Err(Status::INVALID_VALUE),
        }
    }
}

/// A point in a capture: behind some of its nodes. It belongs to a recorded event, or to a stream.
#[derive(Clone)]
pub(crate) struct Mark {
    capture: u64,
    after: Vec<usize>,
}

struct Capture {
    mode: Mode,
    thread: ThreadId,
    /// The stream on which it began.
    origin: u64,
    is_invalid: bool,
    nodes: Vec<Node>,
    /// The references of the graph that is being captured.
    kept: Kept,
    /// For each stream that belongs to it: the last nodes, and whether the stream waits for the legacy stream.
    streams: BTreeMap<u64, (Vec<usize>, bool)>,
}

struct Captures {
    live: BTreeMap<u64, Capture>,
    made: u64,
}

static CAPTURES: Mutex<Captures> = Mutex::new(Captures { live: BTreeMap::new(), made: 0 });

thread_local! {
    static MODE: Cell<Mode> = const { Cell::new(Mode::Global) };
}

impl Capture {
    /// Whether all work of the forked streams lies before the end of the first stream.
    fn is_joined(&self) -> bool {
        let mut seen = BTreeSet::new();
        let mut open = self.streams.get(&self.origin).map_or_else(Vec::new, |(after, _)| after.clone());
        while let Some(node) = open.pop() {
            if seen.insert(node) {
                open.extend(&self.nodes[node].after);
            }
        }
        self.streams.values().all(|(after, _)| after.iter().all(|node| seen.contains(node)))
    }

    /// Whether a call that could disturb the capture must not be made by this thread.
    fn forbids(&self) -> bool {
        let is_own = self.thread == thread::current().id();
        match MODE.get() {
            Mode::Relaxed => false,
            Mode::ThreadLocal => is_own && self.mode != Mode::Relaxed,
            Mode::Global => (is_own && self.mode != Mode::Relaxed) || self.mode == Mode::Global,
        }
    }
}

impl Captures {
    fn of(&mut self, stream: &Stream) -> Option<(u64, &mut Capture)> {
        let found = self.live.iter_mut().find(|(_, capture)| capture.streams.contains_key(&stream.id));
        found.map(|(id, capture)| (*id, capture))
    }

    /// The capture of a stream, if it is still valid. Refuses the legacy stream if it would have to wait for a captured stream.
    fn valid(&mut self, stream: &Stream) -> Answer<Option<(u64, &mut Capture)>> {
        if stream.is_legacy() {
            self.invalidate(Status::CAPTURE_IMPLICIT, |capture| capture.streams.values().any(|stream| stream.1))?;
        }
        match self.of(stream) {
            Some((_, capture)) if capture.is_invalid => Err(Status::CAPTURE_INVALIDATED),
            found => Ok(found),
        }
    }

    /// If there are such captures, invalidates them and refuses.
    fn invalidate(&mut self, status: Status, which: impl Fn(&Capture) -> bool) -> Answer {
        let mut found = self.live.values_mut().filter(|capture| which(capture)).peekable();
        if found.peek().is_none() {
            return Ok(());
        }
        found.for_each(|capture| capture.is_invalid = true);
        Err(status)
    }
}

pub(crate) fn begin(stream: &Stream, mode: Mode) -> Answer {
    let mut captures = lock(&CAPTURES);
    if stream.is_legacy() {
        return Err(Status::CAPTURE_UNSUPPORTED);
    }
    if captures.of(stream).is_some() {
        return Err(Status::ILLEGAL_STATE);
    }
    captures.made += 1;
    let id = captures.made;
    let streams = BTreeMap::from([(stream.id, (Vec::new(), stream.is_blocking()))]);
    let thread = thread::current().id();
    captures.live.insert(
        id,
        Capture { mode, thread, origin: stream.id, is_invalid: false, nodes: Vec::new(), kept: Kept::new(), streams },
    );
    Ok(())
}

/// Ends the capture that began on this stream, also if it fails. Returns the nodes, each behind those that it depends on, and the references
/// of the graph.
pub(crate) fn end(stream: &Stream) -> Answer<(Vec<Node>, Kept)> {
    let mut captures = lock(&CAPTURES);
    let (id, capture) = captures.of(stream).ok_or(Status::ILLEGAL_STATE)?;
    let is_elsewhere = capture.mode != Mode::Relaxed && capture.thread != thread::current().id();
    if capture.origin != stream.id {
        capture.is_invalid = true;
        return Err(Status::CAPTURE_UNMATCHED);
    }
    let ended = captures.live.remove(&id).ok_or(Status::ILLEGAL_STATE)?;
    match ended {
        Capture { is_invalid: true, .. } => Err(Status::CAPTURE_INVALIDATED),
        _ if is_elsewhere => Err(Status::CAPTURE_WRONG_THREAD),
        ended if ended.is_joined() => Ok((ended.nodes, ended.kept)),
        _ => Err(Status::CAPTURE_UNJOINED),
    }
}

/// `CUstreamCaptureStatus`, and the number of the capture.
pub(crate) fn status(stream: &Stream) -> Answer<(u32, Option<u64>)> {
    let mut captures = lock(&CAPTURES);
    if stream.is_legacy() && captures.live.values().any(|capture| capture.streams.values().any(|stream| stream.1)) {
        return Err(Status::CAPTURE_IMPLICIT);
    }
    Ok(match captures.of(stream) {
        None => (0, None),
        Some((id, capture)) => (1 + u32::from(capture.is_invalid), Some(id)),
    })
}

/// While a graph is captured, its handle is this number and that of the capture. At the end, it gets another handle.
const UNFINISHED: usize = 0x6900_0000_0000;

/// The handle of the graph of a capture.
pub(crate) fn graph(capture: u64) -> usize {
    UNFINISHED + capture as usize
}

/// Gives references to a graph that is being captured. Returns whether there is such a capture.
pub(crate) fn keep(graph: usize, kept: &Kept) -> bool {
    let capture = graph.checked_sub(UNFINISHED).map(|number| number as u64);
    let mut captures = lock(&CAPTURES);
    let found = capture.and_then(|number| captures.live.get_mut(&number));
    found.map(|capture| capture.kept.extend(kept.iter().cloned())).is_some()
}

/// Makes work a node if the stream is captured. Returns whether it is. Empty work is no node.
pub(crate) fn record(stream: &Stream, work: &Work) -> Answer<bool> {
    let mut captures = lock(&CAPTURES);
    let Some((_, capture)) = captures.valid(stream)? else { return Ok(false) };
    if work.is_empty() {
        return Ok(true);
    }
    let number = capture.nodes.len();
    let Some((last, _)) = capture.streams.get_mut(&stream.id) else { return Ok(false) };
    let after = std::mem::replace(last, Vec::from([number]));
    capture.nodes.push(Node { work: work.clone(), after });
    Ok(true)
}

/// Refuses a call that needs the work of a stream to run if the stream is captured.
pub(crate) fn refuse(stream: &Stream) -> Answer {
    match lock(&CAPTURES).valid(stream)? {
        None => Ok(()),
        Some((_, capture)) => {
            capture.is_invalid = true;
            Err(Status::CAPTURE_UNSUPPORTED)
        }
    }
}

/// For an event that is recorded on a stream: its point in the capture of the stream.
pub(crate) fn mark(stream: &Stream) -> Answer<Option<Mark>> {
    let mut captures = lock(&CAPTURES);
    let found = captures.valid(stream)?;
    let mark = |(id, capture): (u64, &mut Capture)| {
        let after = capture.streams.get(&stream.id).map_or_else(Vec::new, |(after, _)| after.clone());
        Mark { capture: id, after }
    };
    Ok(found.map(mark))
}

/// Lets a stream wait for an event that was recorded in a capture. The stream joins the capture.
pub(crate) fn join(stream: &Stream, mark: &Mark) -> Answer {
    let mut captures = lock(&CAPTURES);
    let own = captures.valid(stream)?.map(|(id, _)| id);
    if !captures.live.contains_key(&mark.capture) {
        own.and_then(|own| captures.live.get_mut(&own)).into_iter().for_each(|capture| capture.is_invalid = true);
        return Err(Status::INVALID_VALUE);
    }
    if own.is_some_and(|own| own != mark.capture) {
        let is_merged = |id: u64| id == mark.capture || Some(id) == own;
        captures.live.iter_mut().filter(|(id, _)| is_merged(**id)).for_each(|(_, capture)| capture.is_invalid = true);
        return Err(Status::CAPTURE_MERGE);
    }
    let capture = captures.live.get_mut(&mark.capture).ok_or(Status::INVALID_VALUE)?;
    if stream.is_legacy() {
        capture.is_invalid = true;
        return Err(Status::CAPTURE_IMPLICIT);
    }
    let (last, _) = capture.streams.entry(stream.id).or_insert_with(|| (Vec::new(), stream.is_blocking()));
    last.extend(&mark.after);
    last.sort_unstable();
    last.dedup();
    Ok(())
}

/// Refuses to let a captured stream wait for an event that was recorded outside of captures.
pub(crate) fn isolate(stream: &Stream) -> Answer {
    match lock(&CAPTURES).valid(stream)? {
        None => Ok(()),
        Some((_, capture)) => {
            capture.is_invalid = true;
            Err(Status::CAPTURE_ISOLATION)
        }
    }
}

/// Refuses to ask for the state of an event that was recorded in a capture. Only a question for its time lets the capture go on.
pub(crate) fn refuse_event(mark: &Mark, is_for_time: bool) -> Answer {
    match lock(&CAPTURES).live.get_mut(&mark.capture) {
        None => Err(Status::INVALID_VALUE),
        Some(capture) => {
            capture.is_invalid |= !is_for_time;
            Err(Status::CAPTURED_EVENT)
        }
    }
}

/// Refuses a call that could disturb captures, if a capture or the calling thread does not allow it.
pub(crate) fn forbid_unsafe() -> Answer {
    lock(&CAPTURES).invalidate(Status::CAPTURE_UNSUPPORTED, Capture::forbids)
}

/// Refuses a call that concerns all streams while one of them is captured.
pub(crate) fn forbid_any() -> Answer {
    lock(&CAPTURES).invalidate(Status::CAPTURE_UNSUPPORTED, |_| true)
}

/// The stream is destroyed. A capture that began on it ends.
pub(crate) fn forget(stream: &Stream) {
    lock(&CAPTURES).live.retain(|_, capture| capture.origin != stream.id);
}

/// A call failed after which a capture of the stream is invalid.
pub(crate) fn spoil(stream: &Stream) {
    if let Some((_, capture)) = lock(&CAPTURES).of(stream) {
        capture.is_invalid = true;
    }
}

/// Sets the mode of the calling thread. Returns the previous one.
pub(crate) fn exchange(mode: Mode) -> Mode {
    MODE.replace(mode)
}
