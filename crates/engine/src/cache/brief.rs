//! A cache that a thread holds for a moment while nobody is inside the scope: to take blocks back, to invalidate, to give memory back.
//! And what its owner, for however long, does with blocks that came back, and lets go of.
//!
//! The thread that the cache belongs to waits for that when it enters the scope. So it is a lock, and no code of the program runs under
//! it: there is no news of plans to tell then, as those come of an entry's end, and streams that nobody else has are dropped once the
//! cache is given up, since the destructor of a backend may be the program's.

use std::any::Any;
use std::cell::RefCell;
use std::mem::ManuallyDrop;

use smallvec::SmallVec;

use super::owner::{Cache, Owner};
use super::token::claim_token;
use crate::base::errand::run_user_code;
use crate::base::held::Held;
use crate::device::Stream;
use crate::pressure::demand;
use crate::record::Record;

/// What is dropped later. The streams of an arena and a ring take no memory of the heap, as others may take both away in each of their
/// entries.
type DroppedLater = (SmallVec<[Stream; 2]>, Vec<Box<dyn Any>>);

thread_local! {
    /// What is dropped once the cache is given up that is held for a moment. Without a destructor, so that a thread's end has it too.
    static LATER: ManuallyDrop<RefCell<DroppedLater>> =
        const { ManuallyDrop::new(RefCell::new((SmallVec::new_const(), Vec::new()))) };
}

impl Cache {
    /// Runs `act` as the owner for a moment, if no other thread is inside the scope. Waits for others that hold the cache for a moment.
    pub(super) fn briefly<R>(&'static self, act: impl FnOnce(&Owner) -> R) -> Option<R> {
        let is_held = self.local.hold_unless_entered(claim_token());
        let owner = if is_held { self.owner() } else { None }?;
        // Not where the thread is inside of the scope anyway, since nobody waits for that.
        let held = (!owner.is_entered()).then(Held::begin);
        let answer = act(&owner);
        // Before the cache is given up, as what was let go of may be dropped there.
        drop(held);
        owner.exit_after(|_| ());
        Owner::drop_left();
        Some(answer)
    }
}

impl Owner {
    /// Takes in what came back while other streams may still use it.
    #[inline]
    pub(super) fn take_deferred(&self) {
        if !self.with(|local, _| local.deferred.records.is_empty()) {
            self.order_deferred();
        }
    }

    #[cold]
    fn order_deferred(&self) {
        // Devices are called while the blocks are out of the cache.
        let mut deferred = self.with(|local, _| std::mem::take(&mut local.deferred));
        deferred.order();
        while let Some(record) = deferred.pop() {
            self.shared.counters.resumed(record.bytes());
            self.put(record);
        }
        let mut more = self.with(|local, _| std::mem::replace(&mut local.deferred, deferred));
        self.with(|local, _| local.deferred.records.append(&mut more.records));
    }

    /// Keeps a block that other streams may still use.
    pub(super) fn defer(&self, record: Box<Record>) {
        self.shared.counters.deferred(record.bytes());
        self.with(|local, _| local.deferred.records.push(record));
    }

    /// Drops what may be the last to know a stream: now, or where the cache is held for a moment once it is given up.
    pub(super) fn let_go(&self, value: impl Any) {
        if !self.is_entered() {
            LATER.with(|later| later.borrow_mut().1.push(Box::new(value)));
        }
    }

    /// As [`let_go`](Owner::let_go), for a stream alone.
    pub(super) fn let_go_of_stream(&self, stream: Stream) {
        if !self.is_entered() {
            LATER.with(|later| later.borrow_mut().0.push(stream));
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
        let (streams, others) = LATER.with(|later| later.take());
        if !streams.is_empty() || !others.is_empty() {
            run_user_code(|| drop((streams, others)));
        }
    }
}
