//! Writes a memory snapshot in PyTorch's format, for its viewer (pytorch.org/memory_viz) and its `_memory_viz.py`.
//!
//! A trace has arrays, but not the pages behind them. So a segment is a stretch of whole pages in which the trace has arrays. It is
//! allocated before the first of them. The frames of an array are its source line, the callers if the trace has them, and its scopes.

mod pickle;
#[cfg(test)]
mod viewer;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use serde_json::{Value, json};

use crate::run::{Event, Op, Run};

/// The size of pages if the trace does not say it: that of a GPU.
const PAGE: u64 = 2 << 20;

/// Writes the snapshot as a pickle, which `pytorch.org/memory_viz` and `_memory_viz.py` read.
///
/// # Errors
/// Errors of the writer; [`InvalidData`](io::ErrorKind::InvalidData) for an address or a size of 2⁶³ or more.
///
/// ```
/// use gpucache::{cache_scope, prelude::*, trace};
/// use gpucache_report::{Run, snapshot};
///
/// trace::start(1000);
/// cache_scope!(step, { drop(Host::new().zeros::<f32>([32, 64])?) });
/// let mut file = Vec::new();
/// snapshot::write_pickle(&Run::from(&trace::stop()), &mut file)?;
/// assert!(file.starts_with(b"\x80\x02"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_pickle(run: &Run, mut to: impl Write) -> io::Result<()> {
    to.write_all(&pickle::pickle(&snapshot(run))?)
}

/// Writes the snapshot as one JSON object, with the same fields as the pickle.
///
/// # Errors
/// Errors of the writer.
///
/// ```
/// use gpucache::{cache_scope, prelude::*, trace};
/// use gpucache_report::{Run, snapshot};
///
/// trace::start(1000);
/// cache_scope!(step, { drop(Host::new().zeros::<f32>([32, 64])?) });
/// let mut file = Vec::new();
/// snapshot::write_json(&Run::from(&trace::stop()), &mut file)?;
/// assert!(file.starts_with(b"{"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_json(run: &Run, to: impl Write) -> io::Result<()> {
    Ok(serde_json::to_writer(to, &snapshot(run))?)
}

/// The snapshot at the end of the run, with its history. Devices count from 0, in the order of their numbers.
fn snapshot(run: &Run) -> Value {
    let mut devices = devices(run);
    // The viewer expects at least one device.
    if devices.is_empty() {
        devices.insert(0, OfDevice::default());
    }
    let (mut segments, mut histories) = (Vec::new(), Vec::new());
    for (place, device) in devices.into_values().enumerate() {
        segments.extend(device.stretches.iter().map(|stretch| segment(place, stretch, &device.alive)));
        histories.push(device.history);
    }
    json!({ "segments": segments, "device_traces": histories, "allocator_settings": {}, "external_annotations": [] })
}

/// The snapshot of one device.
#[derive(Default)]
struct OfDevice {
    stretches: Vec<Stretch>,
    /// Those of them that the history has already.
    seen: Vec<bool>,
    history: Vec<Value>,
    alive: Alive,
}

/// All devices by their numbers. Two passes over the events suffice for any number of devices.
fn devices(run: &Run) -> BTreeMap<u64, OfDevice> {
    let mut allocations: BTreeMap<u64, Vec<&Event>> = BTreeMap::new();
    for event in run.events.iter().filter(|event| is_of_memory(event)) {
        let known = allocations.entry(event.device).or_default();
        known.extend((event.op == Op::Allocate).then_some(event));
    }
    let new = |(device, allocations): (u64, Vec<&Event>)| {
        let page = run.page_bytes.get(&device).copied().filter(|&page| page > 0).unwrap_or(PAGE);
        let stretches = stretches(&allocations, page);
        let seen = vec![false; stretches.len()];
        (device, OfDevice { stretches, seen, ..OfDevice::default() })
    };
    let mut devices: BTreeMap<u64, OfDevice> = allocations.into_iter().map(new).collect();
    let mut inside = Inside::default();
    for event in &run.events {
        inside.take(event);
        if let Some(device) = devices.get_mut(&event.device).filter(|_| is_of_memory(event)) {
            device.take(event, frames(event, &inside));
        }
    }
    devices
}

fn is_of_memory(event: &Event) -> bool {
    matches!(event.op, Op::Allocate | Op::Free | Op::Short)
}

/// Addresses of whole pages without a gap.
#[derive(Clone, Copy)]
struct Stretch {
    begin: u64,
    end: u64,
    /// The stream of one of its arrays.
    stream: u64,
}

/// The live arrays of a device by address: their bytes and frames.
type Alive = BTreeMap<u64, (u64, Value)>;

/// The stretches of a device that have arrays, by address.
fn stretches(allocations: &[&Event], page: u64) -> Vec<Stretch> {
    let pages = |event: &&Event| Stretch {
        begin: event.address / page * page,
        end: event.address.saturating_add(event.bytes.max(1)).div_ceil(page).saturating_mul(page),
        stream: event.stream,
    };
    let mut pages: Vec<Stretch> = allocations.iter().map(pages).collect();
    pages.sort_by_key(|stretch| stretch.begin);
    let mut stretches: Vec<Stretch> = Vec::new();
    for next in pages {
        match stretches.last_mut() {
            Some(last) if next.begin <= last.end => last.end = last.end.max(next.end),
            _ => stretches.push(next),
        }
    }
    stretches
}

/// The call stack that the viewer shows: the source line, its callers, the innermost scope, and the scopes around it.
fn frames(event: &Event, inside: &Inside) -> Value {
    let mut frames = Vec::new();
    if !event.site.is_empty() {
        frames.push(frame(&format!("{} [{}]", event.dtype, event.shape), &event.site));
    }
    for caller in event.stack.lines() {
        let (name, site) = caller.split_once(" at ").unwrap_or((caller, ""));
        frames.push(frame(name, site));
    }
    frames.extend(inside.scopes(event.thread).iter().rev().map(|(name, site)| frame(name, site)));
    frames.into()
}

/// A frame with a place as `file:line:column`.
fn frame(name: &str, site: &str) -> Value {
    let mut parts = site.rsplitn(3, ':').skip(1);
    let line: u32 = parts.next().and_then(|line| line.parse().ok()).unwrap_or(0);
    json!({ "name": name, "filename": parts.next().unwrap_or_default(), "line": line })
}

/// The scopes that each thread has entered.
#[derive(Default)]
struct Inside(HashMap<u64, Vec<(String, String)>>);

impl Inside {
    fn take(&mut self, event: &Event) {
        let scopes = self.0.entry(event.thread).or_default();
        match event.op {
            Op::Enter => scopes.push((event.scope.clone(), event.scope_site.clone())),
            Op::Leave => {
                if let Some(place) = scopes.iter().rposition(|(name, _)| *name == event.scope) {
                    scopes.remove(place);
                }
            }
            Op::Allocate | Op::Free | Op::Short => {}
        }
    }

    fn scopes(&self, thread: u64) -> &[(String, String)] {
        self.0.get(&thread).map_or(&[], |scopes| scopes)
    }
}

impl OfDevice {
    /// Adds an event to the history in PyTorch's words, and keeps the live arrays.
    fn take(&mut self, event: &Event, frames: Value) {
        match event.op {
            Op::Allocate => {
                let place = self.stretches.partition_point(|stretch| stretch.end <= event.address);
                if self.seen.get_mut(place).is_some_and(|seen| !std::mem::replace(seen, true)) {
                    let Stretch { begin, end, .. } = self.stretches[place];
                    self.tell("segment_alloc", (begin, end - begin), event, &frames);
                }
                self.tell("alloc", (event.address, event.bytes), event, &frames);
                self.alive.insert(event.address, (event.bytes, frames));
            }
            Op::Free => {
                let place = (event.address, event.bytes);
                let mut tell = |action| self.tell(action, place, event, &frames);
                tell("free_requested");
                tell("free_completed");
                self.alive.remove(&event.address);
            }
            Op::Short => self.history.push(json!({
                "action": "oom", "size": event.bytes, "stream": event.stream, "time_us": event.time_ns / 1000,
                "device_free": 0, "frames": frames,
            })),
            Op::Enter | Op::Leave => {}
        }
    }

    fn tell(&mut self, action: &str, (address, bytes): (u64, u64), event: &Event, frames: &Value) {
        let (stream, time_us) = (event.stream, event.time_ns / 1000);
        self.history.push(json!({
            "action": action, "addr": address, "size": bytes, "stream": stream, "time_us": time_us, "frames": frames,
        }));
    }
}

/// A segment with its live arrays and the free stretches between them.
fn segment(device: usize, stretch: &Stretch, alive: &Alive) -> Value {
    let alive = alive.range(stretch.begin..stretch.end);
    let allocated = alive.clone().fold(0u64, |sum, (_, (bytes, _))| sum.saturating_add(*bytes));
    let mut blocks = Vec::new();
    let mut end = stretch.begin;
    for (&address, (bytes, frames)) in alive {
        free_until(&mut blocks, end, address);
        end = address.saturating_add(*bytes);
        blocks.push(block(address, *bytes, "active_allocated", frames.clone()));
    }
    free_until(&mut blocks, end, stretch.end);
    json!({
        "device": device, "address": stretch.begin, "total_size": stretch.end - stretch.begin, "allocated_size": allocated,
        "active_size": allocated, "requested_size": allocated, "stream": stretch.stream, "segment_type": "large",
        "segment_pool_id": [0, 0], "is_expandable": false, "frames": [], "blocks": blocks,
    })
}

fn free_until(blocks: &mut Vec<Value>, begin: u64, end: u64) {
    if begin < end {
        blocks.push(block(begin, end - begin, "inactive", json!([])));
    }
}

fn block(address: u64, bytes: u64, state: &str, frames: Value) -> Value {
    json!({ "address": address, "size": bytes, "requested_size": bytes, "state": state, "frames": frames })
}
