//! Records allocations, drops and scopes in a trace.

use super::current;
use super::owner::Cache;
use crate::base::error::Result;
use crate::device::Stream;
use crate::record::{Origin, Record, Request};
use crate::trace::{self, Action, Allocation, ServedBy};

/// A record for a request, if no scope keeps blocks, or a trace is on or was on when the scope was entered.
#[inline(never)]
pub(super) fn allocate(stream: &Stream, request: &Request<'_>) -> Result<Box<Record>> {
    let Some(record) = current::serve_planned(stream, request.dims, request.bytes, true) else {
        return told(stream, request, || current::find_beside(stream, request));
    };
    if trace::is_on() {
        tell(request, record.address, stream, Some(ServedBy::Plan));
    }
    Ok(record)
}

/// Runs `find`, and records its result in the trace if one is on.
pub(super) fn told(
    stream: &Stream,
    request: &Request<'_>,
    find: impl FnOnce() -> Result<Box<Record>>,
) -> Result<Box<Record>> {
    if trace::is_on() { find_and_tell(stream, request, find) } else { find() }
}

#[inline(never)]
fn find_and_tell(
    stream: &Stream,
    request: &Request<'_>,
    find: impl FnOnce() -> Result<Box<Record>>,
) -> Result<Box<Record>> {
    let listed = current::listed();
    let outcome = find();
    match &outcome {
        Ok(record) => {
            let served_by = served_by(record, current::listed() != listed);
            tell(request, record.address, record.stream(), Some(served_by));
        }
        Err(error) if error.is_shortage() => tell(request, 0, stream, None),
        Err(_) => {}
    }
    outcome
}

/// Not inline: otherwise the processor would wait to read values that the caller has just written to memory.
#[inline(never)]
fn tell(request: &Request<'_>, address: u64, stream: &Stream, served_by: Option<ServedBy>) {
    let Request { type_name, dims, bytes, site, .. } = *request;
    let (page_bytes, stream, device) = (stream.meter().page_bytes(), stream.id(), stream.memory_id());
    if bytes > 0 {
        let dtype = type_name;
        trace::allocated(&Allocation { dtype, dims, bytes, address, stream, device, served_by, site, page_bytes });
    }
}

fn served_by(record: &Record, is_listed: bool) -> ServedBy {
    match record.origin {
        Origin::Arena(_) => ServedBy::Plan,
        _ if is_listed => ServedBy::List,
        Origin::Range(_) | Origin::Part(_) => ServedBy::Range,
        Origin::Device | Origin::Nowhere => ServedBy::Device,
    }
}

/// Records that an array was dropped.
#[inline(always)]
pub(super) fn freed(record: &Record) {
    if trace::is_on() && record.bytes > 0 {
        trace::freed(record.address, record.stream().memory_id());
    }
}

impl Cache {
    /// Records that the cache's scope was entered, if a trace is on.
    #[inline(always)]
    pub fn note_entered(&self) {
        if trace::is_on() {
            self.note_turn(Action::Entered);
        }
    }

    /// Records that the cache's scope was left, if a trace is on.
    #[inline(always)]
    pub fn note_left(&self) {
        if trace::is_on() {
            self.note_turn(Action::Left);
        }
    }

    #[inline(never)]
    fn note_turn(&self, action: Action) {
        self.title().iter().for_each(|title| trace::turned(action, title));
    }
}
