//! Requests to a cache that do not come from its entries: to give memory back, to begin anew, to end with its thread or its name.
//!
//! The requesting thread holds the cache for a moment ([`hold`](crate::home::hold)), or leaves the work to the thread that is
//! inside.

use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::local::Local;
use super::owner::{Cache, Owner};
use crate::base::sync::lock;
use crate::device::Stream;
use crate::home::{Counter, Fact};
use crate::pressure::ReclaimStats;
use crate::pressure::lease::Lease;
use crate::pressure::reclaim::{self, Holder, Idle, Releaser};

impl Cache {
    /// After an invalidation: releases the idle blocks now, and the busy ones when they return. The caller then gives the free memory back to
    /// the devices ([`trim_to_demand`](crate::pressure::demand::trim_to_demand)). If a thread is inside the scope, that thread does all of this.
    pub(super) fn follow_invalidation(&'static self) {
        self.briefly(|owner| {
            // Otherwise another thread has followed it, and the cache may serve another name by now.
            if owner.shared.generations.is_behind() {
                owner.renew();
            }
            owner.settle();
        });
    }

    /// Frees the cache for another name, if no array of it is alive and none of its idle memory has to be kept. `reset` then resets its
    /// statistics, and takes it from its name. Otherwise returns false and changes nothing.
    pub(super) fn retire(&'static self, reset: impl FnOnce(&Owner)) -> bool {
        if self.is_entered() {
            return false;
        }
        let is_retired = self.briefly(|owner| {
            owner.settle();
            let is_due = owner.with(|local, shared| local.has_nothing_to_keep(shared));
            if is_due {
                owner.renew();
                reset(owner);
            }
            is_due
        });
        is_retired.unwrap_or(false)
    }

    /// Lets `release` give idle memory back. `release` can ask how many bytes went back so far. Returns the bytes.
    fn give_back_briefly(&'static self, by: Releaser, release: impl FnOnce(&Owner, &dyn Fn() -> u64)) -> u64 {
        let given = self.briefly(|owner| {
            let held = || self.shared.counters.get(Counter::HeldBytes);
            let before = held();
            let released = || before.saturating_sub(held());
            owner.settle();
            release(owner, &released);
            // A scope whose own request has its idle memory released lost nothing to others.
            let is_own = matches!(by, Releaser::Request(_)) && !by.is_other_than(self) && self.is_entered();
            owner.note(fact_of(by), u64::from(released() > 0 && !is_own), released());
            reclaim::count_release(released());
            released()
        });
        given.unwrap_or(0)
    }

    /// Whether the scope may be in an endless entry, as `auto` is: nobody entered it a second time. Other entries use their arena again soon. If a
    /// scope inside them took it, a step that begins with that scope would have no plan, and made-up steps called the device 36 times each.
    pub(super) fn is_endless(&self) -> bool {
        self.shared.counters.get(Counter::Entries) <= 1
    }

    /// Whether plans keep their block. They do if they work on another stream and their thread may enter the scope again.
    fn keeps_plans(&self, owner: &Owner, which: Idle) -> bool {
        let Idle::OfQueue(queue) = which else { return false };
        self.shared.entered.load(Relaxed) > 0
            && owner.with(|local, _| local.planner.queue().is_some_and(|own| own != queue))
    }

    /// Closes the cache at the end of its thread, however many entries that left open. Idle memory stays, except for records that
    /// keep streams alive which the next thread may not have.
    pub(crate) fn close(&'static self) {
        if let Some(owner) = self.owner() {
            // No entry is open any more.
            owner.with(|local, _| local.open.forget());
        }
        while self.is_mine() {
            self.end_visit(0, Owner::end);
        }
        self.briefly(|owner| {
            // The ended thread cannot enter it again, so an age of 0 makes its memory go first.
            self.shared.entered.store(0, Relaxed);
            owner.let_go_of(owner.with(Local::leave_behind));
            if owner.with(|local, _| local.is_cluttered()) {
                self.shared.generations.raise();
            }
        });
    }
}

impl Owner {
    /// Registers the cache as a holder of memory, so that others find it.
    pub(super) fn note_holding(&self) {
        if !self.with(|local, _| std::mem::replace(&mut local.is_listed, true)) {
            reclaim::register(**self);
        }
    }

    /// As [`note_holding`](Owner::note_holding), with memory of the stream's device. All of it may be the arena, with the memory of scopes inside.
    pub(super) fn note_holding_of(&self, stream: &Stream) {
        self.shared.devices.note(stream.memory_id());
        self.note_holding();
    }

    /// Forgets all that the cache knows, and releases all its idle memory.
    pub(super) fn renew(&self) {
        self.let_go_of(self.with(Local::renew));
        self.note(Fact::Invalidated, 1, 0);
        self.change(|_, _| ());
        if self.is_entered() {
            self.with(|local, _| local.search_anew());
        }
        self.tell_demand();
    }

    /// Gives all idle blocks back to their range, and keeps their records.
    pub(super) fn release_lists(&self) {
        while let Some(record) = self.with(Local::take_oldest) {
            self.release(record);
        }
    }

    /// Asks others for memory in the name of this cache.
    pub(super) fn asks(&self) -> Releaser {
        Releaser::Request(Some(**self))
    }

    /// Reports how much memory is likely to be needed again, if that has changed. Returns whether it has.
    pub(super) fn tell_demand(&self) -> bool {
        let news = self.with(Local::news_of_demand);
        if let Some(bytes) = news {
            self.shared.devices.tell(bytes);
        }
        news.is_some()
    }
}

/// How a diagnosis counts a release.
fn fact_of(by: Releaser) -> Fact {
    match by {
        Releaser::Trim => Fact::Trimmed,
        Releaser::IdleLimit => Fact::OverIdleLimit,
        Releaser::Request(_) => Fact::Displaced,
    }
}

impl Holder for Cache {
    fn serves(&self, device: u64) -> bool {
        self.shared.devices.contain(device)
    }

    /// Does nothing while another thread is inside the scope. A plan's block goes too, if the range would otherwise grow.
    fn release_idle(&'static self, which: Idle, need: u64, by: Releaser) -> u64 {
        let has_none = !matches!(which, Idle::All) && self.counts().idle_bytes() == 0;
        if has_none {
            return 0;
        }
        self.give_back_briefly(by, |owner, _| {
            if owner.with(|local, _| local.may_release(which)) {
                owner.release_lists();
            }
            if !self.keeps_plans(owner, which) {
                owner.release_plans(need, matches!(which, Idle::All), by);
            }
        })
    }

    /// Idle blocks of a scope that keeps everything go too. Plans give their memory up only if nothing else went back.
    fn release_some(&'static self, enough: u64, by: Releaser) -> u64 {
        self.give_back_briefly(by, |owner, released| {
            owner.with(|local, _| local.may_release(Idle::All));
            while released() < enough
                && let Some(record) = owner.with(Local::take_oldest)
            {
                owner.release(record);
            }
            if released() == 0 {
                owner.release_plans(u64::MAX, true, by);
            }
        })
    }

    fn age(&self) -> (u64, u64) {
        (self.shared.entered.load(Relaxed), self.shared.counters.get(Counter::Entries))
    }

    fn name(&self) -> Option<Arc<str>> {
        self.scope_name()
    }

    fn count_reclaim(&'static self, reclaim: &ReclaimStats, is_limited: bool) {
        lock(&self.shared.reclaim).add(reclaim);
        if let Some(owner) = self.owner() {
            owner.note(Fact::Short, 1, 0);
            owner.note(Fact::ShortByLimit, u64::from(is_limited), 0);
        }
    }

    fn site(&self) -> Option<&'static Location<'static>> {
        self.title().and_then(|(_, site)| site)
    }

    /// Does nothing while another thread is inside the scope.
    fn forget_holding(&'static self) -> bool {
        let held = || self.shared.counters.get(Counter::HeldBytes);
        let is_over = |owner: &Owner| owner.with(|local, _| held() == 0 && std::mem::take(&mut local.is_listed));
        held() == 0 && self.briefly(is_over).unwrap_or(false)
    }

    fn held_bytes(&'static self) -> (u64, u64) {
        let counts = self.counts();
        (counts.busy_bytes(), counts.idle_bytes())
    }

    fn expected_bytes(&'static self) -> u64 {
        // What it holds in the scope around counts as held.
        self.shared.counters.expected().saturating_add(self.shared.counters.get(Counter::Inside))
    }

    /// Graphs have the addresses of the plans' blocks.
    fn waits(&self) -> bool {
        (!self.is_entered() || self.is_endless() && self.is_mine()) && !self.shared.has_graphs.load(Relaxed)
    }

    fn is_entered_elsewhere(&self) -> bool {
        self.is_entered() && !self.is_mine()
    }

    fn leases(&'static self) -> [&'static Lease; 2] {
        [&self.shared.lease, &self.shared.ring]
    }
}
