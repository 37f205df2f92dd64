//! What is asked of a cache beside its entries: to give memory back, to begin anew, to end with its thread or its name.
//!
//! Whoever asks holds the cache for the moment ([`hold`](super::hold)), or leaves it to the thread that is inside.
#![allow(unsafe_code)]

use super::demand;
use super::hold::Duties;
use super::lease::Lease;
use super::local::Local;
use super::owner::{Cache, claim_token};
use super::plan_stats::PlanStats;
use super::reclaim::{self, Holder, Idle};
use super::stats::ScopeStats;

impl Cache {
    /// Sees to it that what the cache holds can be found. The calling thread owns the cache.
    pub(super) fn note_holding(&'static self) {
        // SAFETY: this thread owns the cache; nothing is called in here.
        if !unsafe { self.owned(|local, _| std::mem::replace(&mut local.is_listed, true)) } {
            reclaim::register(self);
        }
    }

    /// Releases the idle blocks now, and the busy ones when they return. What is free then is for the caller to give back to
    /// the devices ([`demand::trim_to_demand`]); a thread inside the scope deals with all of it there.
    pub(crate) fn invalidate(&self) {
        self.shared.generations.raise();
        if self.local.hold_unless_entered(claim_token()) {
            self.renew();
            self.settle();
            self.take_deferred();
            // SAFETY: this thread owns the cache.
            unsafe { self.let_go() };
        }
    }

    /// Forgets all that the cache knows, and releases all that is idle. The calling thread owns the cache.
    pub(super) fn renew(&self) {
        // SAFETY: this thread owns the cache; the records are released after the borrow.
        drop(unsafe { self.owned(Local::renew) });
        // SAFETY: as above.
        unsafe { self.perform(self.owned(|local, _| local.planner.errands())) };
        self.tell_demand();
    }

    /// Gives the cache up for another name, if no array of it is alive and nobody wants what it holds kept: what it did so
    /// far. `None`, and all is as before, otherwise.
    pub(super) fn retire(&self) -> Option<(ScopeStats, PlanStats)> {
        if self.is_entered() || !self.local.hold_unless_entered(claim_token()) {
            return None;
        }
        self.settle();
        self.take_deferred();
        // SAFETY: this thread owns the cache; nothing is called in here.
        let is_over = unsafe { self.owned(|local, shared| local.has_nothing_to_keep(shared)) };
        let past = is_over.then(|| {
            self.renew();
            // SAFETY: as above; what is dropped in here is empty.
            unsafe { self.owned(Local::reset) }
        });
        // SAFETY: this thread owns the cache.
        unsafe { self.let_go() };
        past
    }

    /// Gives all idle blocks back to their range, and keeps their records. The calling thread owns the cache.
    pub(super) fn release_lists(&self) {
        // SAFETY: this thread owns the cache; nothing is called in here.
        while let Some(record) = unsafe { self.owned(Local::take_oldest) } {
            self.release(record);
        }
    }

    /// Tells how much is likely to be needed again, if that is something else than before. The calling thread owns the cache.
    pub(super) fn tell_demand(&self) {
        // SAFETY: this thread owns the cache; nothing is called in here.
        if let Some((before, now)) = unsafe { self.owned(Local::news_of_demand) } {
            demand::tell(before, now);
        }
    }

    /// The end of the thread that the cache belonged to, however many entries it left open. What is idle stays, but for
    /// what keeps streams alive that the next thread may not have.
    pub(crate) fn close(&'static self) {
        if self.is_mine() {
            // SAFETY: this thread owns the cache.
            unsafe { self.local.set_depth(1) };
            self.leave(None);
        }
        if self.local.hold_unless_entered(claim_token()) {
            // SAFETY: this thread owns the cache; the records are released after the borrow.
            drop(unsafe { self.owned(Local::leave_behind) });
            // SAFETY: as above.
            if unsafe { self.owned(|local, _| local.is_cluttered()) } {
                self.shared.generations.raise();
            }
            // SAFETY: as above.
            unsafe { self.let_go() };
        }
    }
}

impl Holder for Cache {
    fn serves(&self, device: u64) -> bool {
        self.shared.serves(device)
    }

    /// Not while another thread is inside the scope. A plan's block goes too, if that is better than that the range grows.
    fn release_idle(&self, which: Idle, need: u64) -> u64 {
        let has_none = matches!(which, Idle::Budgeted) && self.stats().idle_bytes == 0;
        if has_none || !self.local.hold_unless_entered(claim_token()) {
            return 0;
        }
        let held = &self.shared.counters.held_bytes;
        let before = held.get();
        self.settle();
        self.take_deferred();
        // SAFETY: this thread owns the cache; nothing is called in here.
        if unsafe { self.owned(|local, _| local.may_release(which)) } {
            self.release_lists();
        }
        // SAFETY: this thread owns the cache.
        unsafe { self.release_plans(need) };
        let bytes = before.saturating_sub(held.get());
        reclaim::count_release(bytes);
        // SAFETY: as above.
        unsafe { self.let_go() };
        bytes
    }

    /// Not while another thread is inside the scope.
    fn forget_holding(&self) -> bool {
        let held = &self.shared.counters.held_bytes;
        if held.get() > 0 || !self.local.hold_unless_entered(claim_token()) {
            return false;
        }
        // SAFETY: this thread owns the cache; nothing is called in here.
        let is_over = unsafe { self.owned(|local, _| held.get() == 0 && std::mem::take(&mut local.is_listed)) };
        // SAFETY: this thread owns the cache.
        unsafe { self.let_go() };
        is_over
    }

    fn busy_bytes(&self) -> u64 {
        self.stats().busy_bytes
    }

    fn lease(&self) -> &Lease {
        &self.shared.lease
    }
}
