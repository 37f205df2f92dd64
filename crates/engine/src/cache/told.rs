//! What a cache tells of itself, to whoever asks: statistics, and whose it is.

use std::sync::{Arc, PoisonError};

use super::owner::{Cache, claim_token};
use crate::home::{PlanStats, ScopeStats};
use crate::pressure::Climbs;

impl Cache {
    pub(crate) fn plan_stats(&'static self) -> PlanStats {
        self.publish();
        self.shared.plan_stats()
    }

    /// How its allocations were served when memory was short.
    pub(crate) fn climbs(&self) -> Climbs {
        *self.shared.climbs()
    }

    /// The same, and counts anew from now on.
    pub(super) fn take_climbs(&self) -> Climbs {
        std::mem::take(&mut *self.shared.climbs())
    }

    /// Tells what a plan has served so far, if this thread knows.
    pub(super) fn publish(&'static self) {
        if let Some(owner) = self.owner() {
            owner.with(|local, shared| local.planner.publish(shared));
        }
    }

    /// What is counted of this cache.
    pub fn stats(&'static self) -> ScopeStats {
        self.publish();
        self.shared.stats()
    }

    /// Has peaks be what is in use now: at once, or where another thread is inside, when that one leaves.
    pub(super) fn reset_peaks(&'static self) {
        self.shared.ask_for_reset();
        if let Some(owner) = self.hold_unless_entered() {
            owner.catch_up();
            owner.exit();
        }
    }

    /// Serves the calling thread from now on.
    pub(super) fn note_thread(&self) {
        let thread = std::thread::current();
        let name = thread.name().map_or_else(|| format!("thread {}", claim_token()), str::to_string);
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(name.into());
    }

    /// The thread that it served last has ended.
    pub(super) fn forget_thread(&self) {
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The name of the thread that it serves, or a number where it has none; `None` once that has ended.
    pub fn thread(&self) -> Option<Arc<str>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
