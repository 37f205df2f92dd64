//! What is asked of a cache beside its entries: to give memory back, to begin anew, to end with its thread or its name.
//!
//! Whoever asks holds the cache for the moment ([`hold`](crate::home::hold)), or leaves it to the thread that is inside.

use std::panic::Location;
use std::sync::Arc;

use super::local::Local;
use super::owner::{Cache, Owner};
use crate::home::{Counter, Fact, PlanStats, ScopeStats};
use crate::pressure::Climbs;
use crate::pressure::demand;
use crate::pressure::lease::Lease;
use crate::pressure::reclaim::{self, Holder, Idle, Releaser};

impl Cache {
    /// Releases the idle blocks now, and the busy ones when they return. What is free then is for the caller to give back to
    /// the devices ([`demand::trim_to_demand`]); a thread inside the scope deals with all of it there.
    pub fn invalidate(&'static self) {
        self.shared.generations.raise();
        self.briefly(|owner| {
            owner.renew();
            owner.settle();
        });
    }

    /// Gives the cache up for another name, if no array of it is alive and nobody wants what it holds kept: what it did so
    /// far. `None`, and all is as before, otherwise.
    pub(super) fn retire(&'static self) -> Option<(ScopeStats, PlanStats)> {
        if self.is_entered() {
            return None;
        }
        self.briefly(|owner| {
            owner.settle();
            owner.with(|local, shared| local.has_nothing_to_keep(shared)).then(|| {
                owner.renew();
                owner.with(Local::reset)
            })
        })?
    }

    /// Has `release` give memory back that is idle, told how many bytes went back so far. Returns the bytes.
    fn give_back_briefly(&'static self, by: Releaser, release: impl FnOnce(&Owner, &dyn Fn() -> u64)) -> u64 {
        let given = self.briefly(|owner| {
            let held = || self.shared.counters.get(Counter::HeldBytes);
            let before = held();
            let released = || before.saturating_sub(held());
            owner.settle();
            release(owner, &released);
            // A scope whose own request has its idle memory released lost nothing to others.
            let is_own = by == Releaser::Others && self.is_entered();
            owner.note(fact_of(by), u64::from(released() > 0 && !is_own), released());
            reclaim::count_release(released());
            released()
        });
        given.unwrap_or(0)
    }

    /// Whether plans keep their block: they work on another stream, and their thread may enter the scope again.
    fn keeps_plans(&self, owner: &Owner, which: Idle) -> bool {
        let Idle::OfQueue(queue) = which else { return false };
        self.shared.entered() > 0 && owner.with(|local, _| local.planner.queue().is_some_and(|own| own != queue))
    }

    /// The end of the thread that the cache belonged to, however many entries it left open. What is idle stays, but for
    /// what keeps streams alive that the next thread may not have.
    pub(crate) fn close(&'static self) {
        if let Some(owner) = self.owner() {
            // None is open any more.
            owner.with(|local, _| local.open.forget());
        }
        while self.is_mine() {
            self.leave(0);
        }
        self.briefly(|owner| {
            // Nobody may enter it again.
            self.shared.note_entered(0);
            owner.let_go_of(owner.with(Local::leave_behind));
            if owner.with(|local, _| local.is_cluttered()) {
                self.shared.generations.raise();
            }
        });
    }
}

impl Owner {
    /// Sees to it that what the cache holds can be found.
    pub(super) fn note_holding(&self) {
        if !self.with(|local, _| std::mem::replace(&mut local.is_listed, true)) {
            reclaim::register(**self);
        }
    }

    /// Forgets all that the cache knows, and releases all that is idle.
    pub(super) fn renew(&self) {
        self.let_go_of(self.with(Local::renew));
        self.note(Fact::Invalidated, 1, 0);
        self.perform(self.with(|local, _| local.planner.take_effects()));
        self.tell_demand();
    }

    /// Gives all idle blocks back to their range, and keeps their records.
    pub(super) fn release_lists(&self) {
        while let Some(record) = self.with(Local::take_oldest) {
            self.release(record);
        }
    }

    /// Tells how much is likely to be needed again, if that is something else than before.
    pub(super) fn tell_demand(&self) {
        if let Some((before, now)) = self.with(Local::news_of_demand) {
            demand::tell(before, now);
        }
    }
}

/// How a diagnosis counts a release.
fn fact_of(by: Releaser) -> Fact {
    match by {
        Releaser::Trim => Fact::Trimmed,
        Releaser::IdleLimit => Fact::OverIdleLimit,
        Releaser::Others => Fact::Displaced,
    }
}

impl Holder for Cache {
    fn serves(&self, device: u64) -> bool {
        self.shared.devices().contain(device)
    }

    /// Not while another thread is inside the scope. A plan's block goes too, if that is better than that the range grows.
    fn release_idle(&'static self, which: Idle, need: u64, by: Releaser) -> u64 {
        let has_none = !matches!(which, Idle::All) && self.stats().idle_bytes == 0;
        if has_none {
            return 0;
        }
        self.give_back_briefly(by, |owner, _| {
            if owner.with(|local, _| local.may_release(which)) {
                owner.release_lists();
            }
            if !self.keeps_plans(owner, which) {
                owner.release_plans(need, matches!(which, Idle::All));
            }
        })
    }

    /// What the records of the lists keep for themselves alone is left.
    fn release_some(&'static self, enough: u64, by: Releaser) -> u64 {
        self.give_back_briefly(by, |owner, released| {
            owner.with(|local, _| local.may_release(Idle::All));
            while released() < enough
                && let Some(record) = owner.with(Local::take_oldest)
            {
                owner.release(record);
            }
            if released() == 0 {
                owner.release_plans(u64::MAX, true);
            }
        })
    }

    fn age(&self) -> (u64, u64) {
        (self.shared.entered(), self.shared.counters.get(Counter::Entries))
    }

    fn name(&self) -> Option<Arc<str>> {
        self.scope_name()
    }

    fn count_climb(&'static self, climb: &Climbs, is_limited: bool) {
        self.shared.climbs().add(climb);
        if let Some(owner) = self.owner() {
            owner.note(Fact::Short, 1, 0);
            owner.note(Fact::ShortByLimit, u64::from(is_limited), 0);
        }
    }

    fn site(&self) -> Option<&'static Location<'static>> {
        self.title().map(|(_, site)| site)
    }

    /// Not while another thread is inside the scope.
    fn forget_holding(&'static self) -> bool {
        let held = || self.shared.counters.get(Counter::HeldBytes);
        let is_over = |owner: &Owner| owner.with(|local, _| held() == 0 && std::mem::take(&mut local.is_listed));
        held() == 0 && self.briefly(is_over).unwrap_or(false)
    }

    fn held_bytes(&'static self) -> (u64, u64) {
        let ScopeStats { busy_bytes, idle_bytes, .. } = self.stats();
        (busy_bytes, idle_bytes)
    }

    fn leases(&'static self) -> [&'static Lease; 2] {
        [&self.shared.lease, &self.shared.ring]
    }
}
