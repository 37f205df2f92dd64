//! The memory for an allocation that the scope itself cannot serve: from the device's range, or straight from the device for plain
//! allocations.
//!
//! Before the range grows, idle memory in lists goes back. While the device has room, plans that work on another queue keep their arenas.
//! If the device has no more memory, [`serve`](crate::pressure::serve) takes the reclaim steps.

use super::policy::Recycle;
use crate::base::error::{Error, Result};
use crate::device::{Stream, softly};
use crate::planner::Planner;
use crate::pressure::reclaim::{self, Holder, Idle, Releaser};
use crate::pressure::request::Asked;
use crate::pressure::serve::insist;
use crate::range::{Carved, DeviceRange, Obtained, RangeState};
use crate::record::{Origin, Record, Request};

/// A record with memory.
pub(super) struct Supplied {
    pub(super) record: Box<Record>,
    /// The device calls that it took.
    pub(super) taken: Obtained,
    /// The bytes in use in the range, these included, if the memory is the range's.
    pub(super) live: Option<u64>,
}

/// When pages move before the range grows. Moving takes calls. A scope that does not plan makes none once it is warm.
#[derive(Clone, Copy, Debug)]
pub(super) enum Moves {
    Never,
    /// If the range would otherwise reserve far more than its peak in use.
    WhereFar,
    /// Where the range would reserve far more than its peak in use, and otherwise if their work is done.
    AtOnce,
    /// Always, since a plan says how much memory is enough.
    First,
}

impl Moves {
    /// When pages move for a request of a scope.
    pub(super) fn of(recycle: Recycle, planner: &mut Planner) -> Moves {
        match recycle {
            Recycle::Keyed | Recycle::Range | Recycle::Off => Moves::Never,
            Recycle::Auto if planner.had_better_move() => Moves::First,
            Recycle::Auto if planner.is_without_arena() => Moves::AtOnce,
            Recycle::Auto => Moves::WhereFar,
        }
    }
}

/// For a block of more than this share of the reserved memory, pages move before the range grows. A smaller block adds little, and a move
/// takes calls. With 1/256, a training that answers its own questions grew by 600 MB in blocks of 8 to 34 MB, and reserved 1.10 times its live
/// memory; with 1/1024, 1.09 times. Of 23 other recorded programs, five reserved less and one 0.001 more. One made 1.7 times as many calls.
const MOVED: u64 = 1024;

/// The memory of the requesting scope, if there is one.
type Asking = Option<&'static dyn Holder>;

fn asked<'a>(stream: &'a Stream, request: &Request<'a>, holder: Asking) -> Asked<'a> {
    Asked { stream, bytes: request.bytes as u64, dims: request.dims, holder }
}

/// Memory straight from the device.
pub(super) fn from_device(stream: &Stream, request: &Request<'_>, holder: Asking) -> Result<Box<Record>> {
    let address = insist(asked(stream, request, holder), 0, &|| stream.allocate(request.bytes))?;
    Ok(Box::new(Record::new(stream, request, address, Origin::Device)))
}

/// Memory of no scope, behind the work that still uses free memory. Arrays move in where others left, and the copies of those end
/// in time.
pub(super) fn of_no_scope(stream: &Stream, request: &Request<'_>) -> Result<Box<Record>> {
    let free = match DeviceRange::of(stream) {
        Some(range) if request.bytes > 0 => range.reuse_behind(stream, request.bytes as u64)?,
        _ => None,
    };
    if let Some(Carved { block, address, .. }) = free {
        return Ok(Box::new(Record::new(stream, request, address, Origin::Range(block))));
    }
    Ok(from_range(stream, request, (None, Moves::First), None)?.record)
}

/// Memory of no scope on a stream whose memory is reserved. Repeated work writes this memory at any time.
pub(super) fn reserved(stream: &Stream, request: &Request<'_>) -> Result<Box<Record>> {
    let Supplied { record, .. } = from_range(stream, request, (None, Moves::Never), None)?;
    record.bare()?;
    Ok(record)
}

/// Memory from the device's range, in the spare record if there is one. A device without a range serves the request itself.
pub(super) fn from_range(
    stream: &Stream,
    request: &Request<'_>,
    (spare, moves): (Option<Box<Record>>, Moves),
    holder: Asking,
) -> Result<Supplied> {
    #[cfg(feature = "cuda")]
    crate::device::GraphEnd::free_ended();
    let bytes = request.bytes as u64;
    let (address, origin, taken, live) = match DeviceRange::of(stream) {
        _ if bytes == 0 => (0, Origin::Nowhere, Obtained::default(), None),
        Some(range) => {
            let Carved { block, address, taken, live, .. } = carve(range, asked(stream, request, holder), moves)?;
            (address, Origin::Range(block), taken, Some(live))
        }
        None => {
            let address = insist(asked(stream, request, holder), 0, &|| stream.allocate(request.bytes))?;
            (address, Origin::Device, Obtained::ALLOCATION, None)
        }
    };
    let record = match spare {
        Some(mut spare) => {
            spare.refill(stream, request, address, origin);
            spare
        }
        None => Box::new(Record::new(stream, request, address, origin)),
    };
    Ok(Supplied { record, taken, live })
}

/// The steps of a supply, the cheapest first:
///
/// 1. free memory
/// 2. memory that was idle in other scopes, once they gave it back
/// 3. free memory across the parts of several streams; if there is far more than they need, memory that their work leaves soon
/// 4. pages that move
/// 5. memory that is free in a moment
/// 6. growth of the range
fn carve(range: &DeviceRange, asked: Asked<'_>, moves: Moves) -> Result<Carved> {
    let Asked { stream, bytes, .. } = asked;
    let seen = match reuse_or_release(range, &asked)? {
        Ok(carved) => return Ok(carved),
        Err(seen) => seen,
    };
    if seen.is_shared
        && let Some(carved) = range.reuse_any(stream, bytes)?
    {
        return Ok(carved);
    }
    if let Some(carved) = moved(range, stream, bytes, &seen, moves) {
        return Ok(carved);
    }
    if seen.is_shared
        && let Some(carved) = range.reuse_soon(stream, bytes)?
    {
        return Ok(carved);
    }
    insist(asked, seen.frees, range)
}

/// Free memory, if necessary from idle memory of scopes.
fn reuse_or_release(range: &DeviceRange, asked: &Asked<'_>) -> Result<Result<Carved, RangeState>> {
    let Asked { stream, bytes, holder, .. } = *asked;
    let reused = range.reuse(stream, bytes)?;
    let Err(seen) = &reused else { return Ok(reused) };
    refuse_unannounced(stream)?;
    if bytes > stream.memory().most() {
        return Ok(reused); // Nothing can serve it, so nobody should give memory up.
    }
    match reclaim::release_idle(idle_for(seen, stream, bytes), stream.memory_id(), bytes, Releaser::Request(holder)) {
        0 => Ok(reused),
        _ => range.reuse(stream, bytes),
    }
}

/// The kind of idle memory that has to go back for a request of `bytes` bytes.
pub(super) fn idle_for(seen: &RangeState, stream: &Stream, bytes: u64) -> Idle {
    if seen.room >= bytes { Idle::OfQueue(stream.queue()) } else { Idle::Budgeted }
}

/// A block under which pages move, so that the range does not grow. A failure to move is not a failure of the request.
fn moved(range: &DeviceRange, stream: &Stream, bytes: u64, seen: &RangeState, moves: Moves) -> Option<Carved> {
    let moved = match moves {
        _ if bytes <= seen.reserved / MOVED => Ok(None),
        Moves::Never => Ok(None),
        Moves::WhereFar => softly(|| range.exchange(stream, bytes, seen)),
        Moves::AtOnce => softly(|| range.exchange_at_once(stream, bytes, seen)),
        Moves::First => softly(|| range.move_first(stream, bytes, seen.reserved, seen)),
    };
    moved.ok().flatten()
}

/// Refuses memory to an unannounced capture, since that memory would not stay reserved for the graph.
fn refuse_unannounced(stream: &Stream) -> Result<()> {
    if !stream.is_reserved() && stream.is_capturing() { Err(unannounced()) } else { Ok(()) }
}

/// The error for an unannounced capture.
pub(super) fn unannounced() -> Error {
    Error::unavailable(
        "memory of a scope",
        "a graph is captured on the stream, and nothing would keep the memory for the graph",
        "capture by `Cuda::capture`",
    )
}
