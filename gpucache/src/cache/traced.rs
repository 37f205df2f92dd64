//! What a trace is told of allocations, drops and scopes. Reached only while one is on.

use super::current;
use super::owner::Cache;
use crate::base::error::Error;
use crate::device::Stream;
use crate::record::{Origin, Record, Request};
use crate::trace::{self, Allocation, ServedBy};

/// A request was served, by lists of the scope if they have served more than before, or was not.
pub(super) fn note_allocation(listed: u64, stream: &Stream, request: &Request<'_>, outcome: Result<&Record, &Error>) {
    let (address, stream, served_by) = match outcome {
        Ok(record) => (record.address, record.stream().id(), Some(served_by(record, current::listed() != listed))),
        Err(error) if error.is_out_of_memory() => (0, stream.id(), None),
        Err(_) => return,
    };
    let Request { type_name, dims, bytes, .. } = *request;
    if bytes > 0 {
        trace::allocated(&Allocation { dtype: type_name, dims, bytes, address, stream, served_by });
    }
}

fn served_by(record: &Record, is_listed: bool) -> ServedBy {
    match record.origin {
        Origin::Arena(_) => ServedBy::Plan,
        _ if is_listed => ServedBy::List,
        Origin::Range(_) => ServedBy::Range,
        Origin::Device | Origin::Nowhere => ServedBy::Device,
    }
}

/// An array was dropped.
pub(super) fn note_drop(record: &Record) {
    if record.bytes() > 0 {
        trace::freed(record.address, record.bytes(), record.stream().id());
    }
}

impl Cache {
    /// Its scope was entered.
    pub(crate) fn note_entered(&self) {
        self.title().iter().for_each(trace::entered);
    }

    /// Its scope was left.
    pub(crate) fn note_left(&self) {
        self.title().iter().for_each(trace::left);
    }
}
