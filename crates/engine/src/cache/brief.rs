//! A thread holds a cache for a moment, while nobody is inside the scope, to take blocks back, to invalidate, or to give memory
//! back. This file also has the owner's work on returned blocks and on values to drop, however long the owner holds the cache.
//!
//! The thread that the cache belongs to waits for the holder when it enters the scope. So the hold is a lock, and no user code runs
//! under it. Subscribers need no call here, since plans change only at the end of an entry. Streams without other handles are
//! dropped once the cache is given up, since the destructor of a backend may be user code.

use std::any::Any;

use super::current::{DroppedLater, HERE};
use super::owner::{Cache, Owner};
use super::token::claim_token;
use crate::base::amounts::add;
use crate::base::errand::run_user_code;
use crate::base::held::Brief;
use crate::device::Stream;
use crate::pressure::demand;
use crate::record::Record;

/// After an invalidation, so many bytes of dropped arrays lead to a look for free pages: a page of a GPU, and at least this share, 1/64, of
/// what is left in use. A look visits all free spans, so one with each of many arrays would take time in proportion to their square.
const WORTH_A_TRIM: u64 = 2 << 20;
const WORTH_A_TRIM_SHARE: u64 = 64;

impl Cache {
    /// Runs `act` as the owner for a moment, if no other thread is inside the scope. Waits while another thread holds the cache for
    /// a moment.
    pub(super) fn briefly<R>(&'static self, act: impl FnOnce(&Owner) -> R) -> Option<R> {
        if self.local.hold_unless_entered(claim_token()) { self.while_held(act) } else { None }
    }

    /// As [`briefly`](Cache::briefly), unless another thread holds the cache now. This never waits, so the caller may hold another cache.
    pub(super) fn try_briefly<R>(&'static self, act: impl FnOnce(&Owner) -> R) -> Option<R> {
        if self.local.try_hold(claim_token()) { self.while_held(act) } else { None }
    }

    /// Notes that this thread holds the cache for a moment. `None` if it is inside the scope anyway, since then nobody waits for it.
    pub(super) fn note_brief(&self) -> Option<Brief> {
        (!self.is_entered()).then(Brief::begin)
    }

    fn while_held<R>(&'static self, act: impl FnOnce(&Owner) -> R) -> Option<R> {
        let owner = self.owner()?;
        let mut answer = None;
        owner.exit_after(|owner| {
            // Ends before the cache is given up, since `exit_after` may drop the values that were let go.
            let _brief = self.note_brief();
            answer = Some(act(owner));
        });
        Owner::drop_left();
        answer
    }

    /// Returns a record that a thread outside the scope dropped: at once if nobody is inside, otherwise when the owner looks.
    #[inline(never)]
    pub(super) fn give_back_from_outside(&'static self, record: Box<Record>) {
        let me = claim_token();
        if self.local.try_hold(me)
            && let Some(owner) = self.owner()
        {
            owner.exit_after(|owner| owner.take_in(record));
        } else {
            self.shared.returns.push(me, record);
            self.local.attend(me, &self);
        }
        Owner::drop_left();
    }
}

impl Owner {
    /// Takes in a block that was dropped outside the scope.
    fn take_in(&self, mut record: Box<Record>) {
        let _brief = self.note_brief();
        self.unwatch(&mut record);
        let is_used = record.users().next().is_some();
        if is_used {
            self.defer(record)
        } else {
            self.put(record)
        }
        self.publish();
    }

    /// Drops a value that may hold the last handle of a stream: now, or, if this thread holds a cache only for a moment, once it gives that up.
    pub(super) fn let_go(&self, value: impl Any) {
        if self.is_brief() {
            HERE.with(|here| here.later.borrow_mut().1.push(Box::new(value)));
        }
    }

    /// As [`let_go`](Owner::let_go), for a stream alone.
    pub(super) fn let_go_of_stream(&self, stream: Stream) {
        if self.is_brief() {
            HERE.with(|here| here.later.borrow_mut().0.push(stream));
        }
    }

    fn is_brief(&self) -> bool {
        !self.is_entered() || Brief::is_any()
    }

    /// Gives the memory of records back now, and lets the records go.
    pub(super) fn let_go_of(&self, mut records: Vec<Box<Record>>) {
        records.iter_mut().filter_map(|record| record.vacate()).for_each(|block| self.let_go(block));
        if !records.is_empty() {
            self.let_go(records);
        }
    }

    /// Whether a block of an invalidated scope, of so many bytes, ends the wait for a trim: enough was freed, or nothing is left in use.
    pub(super) fn is_trim_due(&self, bytes: u64) -> bool {
        self.with(|local, shared| {
            add(&mut local.untrimmed, bytes);
            let enough = WORTH_A_TRIM.max(shared.counts().busy_bytes() / WORTH_A_TRIM_SHARE);
            let is_due = local.untrimmed >= enough || !shared.has_busy();
            if is_due {
                local.untrimmed = 0;
            }
            is_due
        })
    }

    /// Gives back free pages that the scopes are not likely to need.
    pub(super) fn trim_to_demand(&self) {
        let ended = demand::trim_to_demand(false, |device| self.serves(device));
        if !ended.is_empty() {
            self.let_go(ended);
        }
    }

    /// Drops the values that were let go. A cache has been given up. If this thread holds another one for a moment, the values wait for that.
    pub(super) fn drop_left() {
        if Brief::is_any() {
            return;
        }
        let is_any = |(streams, others): &DroppedLater| !streams.is_empty() || !others.is_empty();
        if HERE.with(|here| is_any(&here.later.borrow())) {
            let left = HERE.with(|here| here.later.take());
            run_user_code(|| drop(left));
        }
    }
}
