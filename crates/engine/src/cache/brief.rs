//! A cache that a thread holds for a moment while nobody is inside the scope: to take blocks back, to invalidate, to give memory back.
//!
//! The thread that the cache belongs to waits for that when it enters the scope. So it is a lock, and no code of the program runs under
//! it: there is no news of plans to tell then, as those come of an entry's end, and streams that nobody else has are dropped once the
//! cache is given up, since the destructor of a backend may be the program's.

use std::any::Any;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::ops::Deref;

use smallvec::SmallVec;

use super::owner::{Cache, Owner};
use crate::base::errand::run_user_code;
use crate::base::held::Held;
use crate::device::Stream;
use crate::pressure::demand;
use crate::record::Record;

thread_local! {
    /// What is dropped once the cache is given up that is held for a moment. Without a destructor, so that a thread's end has it too.
    static LEFT: ManuallyDrop<RefCell<Left>> = const { ManuallyDrop::new(RefCell::new(Left::NOTHING)) };
}

/// What is dropped later.
#[derive(Default)]
struct Left {
    /// Those of an arena and a ring take no memory of the heap, as others may take both away in each of their entries.
    streams: SmallVec<[Stream; 2]>,
    others: Vec<Box<dyn Any>>,
}

impl Left {
    const NOTHING: Left = Left { streams: SmallVec::new_const(), others: Vec::new() };
}

/// The proof that the calling thread owns a cache, until it gives it up.
pub(super) struct BriefOwner {
    owner: Owner,
    /// Not where the thread is inside of the scope anyway, since nobody waits for that.
    held: Option<Held>,
}

impl Deref for BriefOwner {
    type Target = Owner;

    fn deref(&self) -> &Owner {
        &self.owner
    }
}

impl BriefOwner {
    /// Undoes one [`hold_unless_entered`](Cache::hold_unless_entered).
    pub(super) fn exit(self) {
        let BriefOwner { owner, held } = self;
        // Before the cache is given up, as what was let go of may be dropped there.
        drop(held);
        owner.exit();
        Owner::drop_left();
    }
}

impl Owner {
    /// Drops what may be the last to know a stream: now, or where the cache is held for a moment once it is given up.
    pub(super) fn let_go(&self, value: impl Any) {
        if !self.is_entered() {
            LEFT.with(|left| left.borrow_mut().others.push(Box::new(value)));
        }
    }

    /// As [`let_go`](Owner::let_go), for a stream alone.
    pub(super) fn let_go_of_stream(&self, stream: Stream) {
        if !self.is_entered() {
            LEFT.with(|left| left.borrow_mut().streams.push(stream));
        }
    }

    /// Gives the memory of records back now, and lets go of them.
    pub(super) fn let_go_of(&self, mut records: Vec<Box<Record>>) {
        records.iter_mut().for_each(|record| record.vacate());
        if !records.is_empty() {
            self.let_go(records);
        }
    }

    /// Gives free pages back that the scopes are not likely to need.
    pub(super) fn trim_to_demand(&self) {
        let ended = demand::trim_to_demand(false, |device| self.serves(device));
        if !ended.is_empty() {
            self.let_go(ended);
        }
    }

    /// The cache is given up.
    pub(super) fn drop_left() {
        let left = LEFT.with(|left| left.take());
        if !left.streams.is_empty() || !left.others.is_empty() {
            run_user_code(|| drop(left));
        }
    }
}

impl Cache {
    /// The proof that the calling thread owns the cache, for the moment, if no thread is inside the scope. Waits for others that hold it
    /// for a moment.
    pub(super) fn hold_unless_entered(&'static self) -> Option<BriefOwner> {
        let owner = if self.try_to_hold() { self.owner() } else { None }?;
        let held = (!owner.is_entered()).then(Held::begin);
        Some(BriefOwner { owner, held })
    }
}
