//! How a record's lives begin and end, and where its memory goes after the last one.
//!
//! Invariants: exactly one of a `Block`, an idle list, a plan, or a return stack owns a record. Its memory is released once, at the end of
//! the record. Its `shape` is that of the request that it serves.
#![allow(unsafe_code)]

use std::any::{Any, TypeId};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64};

use super::identity::{ArenaId, DropPath, Generation};
use super::last_write::LastWrite;
use super::record::{Dims, Origin, Record};
use super::{Door, Request};
use crate::base::sync::OnceLock;
use crate::device::{Stream, process_exits};
use crate::range::{self, DeviceRange};

impl Record {
    pub(crate) fn new(stream: &Stream, request: &Request<'_>, address: u64, origin: Origin) -> Record {
        Record {
            address,
            bytes: request.bytes,
            path: AtomicU64::new(path_on(stream, DropPath::UNPLANNED).0),
            below: None,
            position: 0,
            last_write: LastWrite::default(),
            shape: Dims::new(request.dims),
            is_reshaped: false,
            is_watched: false,
            list: 0,
            door: None,
            generation: Generation::default(),
            stream: stream.clone(),
            view: OnceLock::new(),
            uses: OnceLock::new(),
            next: AtomicPtr::default(),
            key: 0,
            seen: 0,
            recorded: (0, 0),
            origin,
        }
    }

    /// A record for a plan's allocations in this arena, without memory yet.
    #[cold]
    pub(crate) fn of_arena(stream: &Stream, door: Option<&'static Door>, arena: ArenaId) -> Box<Record> {
        let mut record = Box::new(Record::of_nothing(stream));
        record.door = door;
        record.join(arena);
        record
    }

    fn of_nothing(stream: &Stream) -> Record {
        let nothing = Request { dtype: TypeId::of::<()>(), type_name: "", dims: &[0], bytes: 0, site: None };
        Record::new(stream, &nothing, 0, Origin::Nowhere)
    }

    /// Gives new memory to a record without memory, for another request.
    pub(crate) fn refill(&mut self, stream: &Stream, request: &Request<'_>, address: u64, origin: Origin) {
        self.address = address;
        self.bytes = request.bytes;
        self.set_path(path_on(stream, DropPath::UNPLANNED));
        self.origin = origin;
        (self.is_reshaped, self.is_watched) = (false, false);
        // Work of its last life wrote the memory that it had then.
        self.last_write = LastWrite::default();
        self.shape.assign(request.dims);
        if self.stream.id() != stream.id() {
            self.stream = stream.clone();
        }
    }

    /// Makes a record without memory serve positions of this arena.
    pub(super) fn join(&mut self, arena: ArenaId) {
        self.origin = Origin::Arena(arena);
        self.set_path(path_on(&self.stream, DropPath::of_arena(arena)));
    }

    /// Separates a record from its arena: from now on it has memory of its own.
    pub(crate) fn leave_arena(&mut self, origin: Origin, generation: Generation) {
        (self.origin, self.generation) = (origin, generation);
    }

    /// Takes the memory of a range out of the record, for another owner.
    pub(crate) fn take_from_range(&mut self) -> Option<range::RangeBlock> {
        match std::mem::replace(&mut self.origin, Origin::Nowhere) {
            Origin::Range(block) => Some(block),
            other => {
                self.origin = other;
                None
            }
        }
    }

    /// Makes the stream wait for the foreign uses that the view knows of, since the next life may begin with work that asks no view. The view
    /// is dropped if the next life may be an array of another type or length. That is so for a record of an arena, which serves any
    /// position, and for one without bytes, which serves any array without bytes.
    #[inline(always)]
    pub(crate) fn leave_view(&mut self) {
        if self.view.get().is_some() {
            self.end_view();
        }
    }

    #[cold]
    fn end_view(&mut self) {
        if let Some(view) = self.view.get_mut()
            && let Err(error) = view.follow_uses()
        {
            // Even a wait was not possible. So the device is lost, and runs no work any more. Or the stream is captured without a notice to this
            // crate, and the program gets this error.
            self.stream.keep(error);
        }
        if self.arena().is_some() || self.bytes == 0 {
            drop(self.view.take());
            self.take_no_care();
        }
    }

    /// Ends a life outside plans: nobody uses the bare address any more.
    #[inline]
    pub(crate) fn end_life(&mut self) {
        self.last_write = LastWrite::default();
    }

    /// Returns the memory to its origin. The record has none from then on. Returns the block whose part it was.
    pub(crate) fn vacate(&mut self) -> Option<Arc<dyn Any + Send + Sync>> {
        let origin = std::mem::replace(&mut self.origin, Origin::Nowhere);
        if process_exits() {
            std::mem::forget((self.view.take(), origin));
            return None;
        }
        if matches!(origin, Origin::Device) && self.stream.is_captured_here() {
            self.wait_for_capture();
            return None;
        }
        if let Err(error) = self.end_uses().or_else(|error| self.outwait_users(error)) {
            // The users of the memory cannot be waited for, so it is never used again.
            std::mem::forget((self.view.take(), origin));
            self.stream.keep(error);
            return None;
        }
        drop(self.view.take());
        match origin {
            // SAFETY: `allocate` of this stream returned `bytes` at `address`, and the origin is taken only once. A record is vacated when
            // neither a block nor a list owns it, so no later work uses the memory.
            Origin::Device => unsafe { self.stream.release(self.address, self.bytes) },
            Origin::Range(block) => {
                if let Some(range) = DeviceRange::of(&self.stream) {
                    range.free(&self.stream, block);
                }
            }
            Origin::Part(block) => return Some(block),
            Origin::Arena(_) | Origin::Nowhere => {}
        }
        None
    }

    /// Leaves memory of the device to another record, which frees it once the capture of its stream has ended. A captured stream frees
    /// nothing and waits for nobody, and its work from before the capture may still use the memory.
    #[cold]
    fn wait_for_capture(&mut self) {
        let mut waiting = Box::new(Record::of_nothing(&self.stream));
        (waiting.address, waiting.bytes, waiting.origin) = (self.address, self.bytes, Origin::Device);
        std::mem::swap(&mut waiting.view, &mut self.view);
        std::mem::swap(&mut waiting.uses, &mut self.uses);
        // If the capture has just ended, this drop frees the memory.
        drop(self.stream.keep_behind_capture(waiting));
    }

    /// Notes that a drop only has to return the memory, unless a device watches it or the cache's planner does.
    pub(super) fn take_no_care(&mut self) {
        let own = self.arena().map_or(DropPath::UNPLANNED, DropPath::of_arena);
        self.set_path(if self.is_watched { DropPath::CARE } else { path_on(&self.stream, own) });
    }
}

/// The way of a drop on this stream, if there is no view.
fn path_on(stream: &Stream, otherwise: DropPath) -> DropPath {
    if stream.watches() { DropPath::CARE } else { otherwise }
}

impl Drop for Record {
    fn drop(&mut self) {
        drop(self.vacate());
    }
}
