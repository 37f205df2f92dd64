//! What serves a miss: the device's range, or for plain allocations the device itself.
//!
//! Everything idle is given back before the range grows. If the device has nothing left, so is what keyed scopes keep,
//! and the range's own free pages are moved to where they are needed.

use super::block::{Origin, Record};
use super::registry::{self, Idle};
use crate::base::error::{Error, Result};
use crate::base::key::Request;
use crate::device::Stream;
use crate::range::{self, Carved, DeviceRange};

/// A record with memory, and how many calls to the device it took.
pub(super) struct Supplied {
    pub(super) record: Box<Record>,
    pub(super) calls: u64,
}

/// Memory straight from the device.
pub(super) fn from_device(stream: &Stream, request: &Request<'_>) -> Result<Box<Record>> {
    let address = stream
        .allocate(request.bytes)
        .or_else(|error| retry_without_idle(error, stream, || stream.allocate(request.bytes)))?;
    Ok(Box::new(Record::new(stream, request, address, Origin::Device)))
}

/// Memory from the device's range, for a `spare` record if there is one.
pub(super) fn from_range(stream: &Stream, request: &Request<'_>, spare: Option<Box<Record>>) -> Result<Supplied> {
    let (address, origin, calls) = match request.bytes {
        0 => (0, Origin::Nowhere, 0),
        bytes => {
            let Carved { block, address, calls } = carve(stream, bytes as u64)?;
            (address, Origin::Range(block), calls)
        }
    };
    let record = match spare {
        Some(mut spare) => {
            spare.refill(stream, request, address, origin);
            spare
        }
        None => Box::new(Record::new(stream, request, address, origin)),
    };
    Ok(Supplied { record, calls })
}

fn carve(stream: &Stream, bytes: u64) -> Result<Carved> {
    let range = range_of(stream)?;
    if let Some(carved) = range.reuse(stream, bytes)? {
        return Ok(carved);
    }
    if registry::release_idle(Idle::Budgeted) > 0
        && let Some(carved) = range.reuse(stream, bytes)?
    {
        return Ok(carved);
    }
    range.allocate(stream, bytes).or_else(|error| retry_without_idle(error, stream, || range.allocate(stream, bytes)))
}

/// Makes the call again if memory ran out, once everything idle went back to the device.
fn retry_without_idle<R>(error: Error, stream: &Stream, again: impl FnOnce() -> Result<R>) -> Result<R> {
    if !error.is_out_of_memory() {
        return Err(error);
    }
    let released = registry::release_idle(Idle::All);
    let trimmed = range_of(stream)?.trim(0)?;
    if released + trimmed > 0 { again() } else { Err(error) }
}

/// Gives a block of the range back.
pub(super) fn free(stream: &Stream, block: range::Block) {
    if let Some(range) = DeviceRange::of(stream) {
        range.free(stream, block);
    }
}

fn range_of(stream: &Stream) -> Result<&DeviceRange> {
    DeviceRange::of(stream)
        .ok_or_else(|| Error::device_failure("the device", "finding its range", "it has another kind"))
}
