//! How a thread enters a scope and leaves it. In between it owns the scope's cache.

use std::sync::atomic::Ordering::Relaxed;

use super::owner::{Cache, Owner};
use super::policy::Terms;
use super::token::claim_token;
use crate::home::Visit;
use crate::pressure::{limits, reclaim};

impl Cache {
    /// Enters the scope: the calling thread owns the cache until it has left as often. Waits while another thread takes idle blocks
    /// out. Returns the entry's place, for [`leave`](Cache::leave).
    #[inline(always)]
    pub fn enter(&'static self, terms: Terms, visit: Visit) -> usize {
        self.enter_and(terms, visit, |owner| owner.begin(visit))
    }

    /// As [`enter`](Cache::enter), for a launch of a graph that needs an entry. The compiler makes own code of it: where `enter` had two callers,
    /// it did not inline all of it, and each entry took 1 to 3 ns more.
    #[inline]
    pub fn enter_to_launch(&'static self) -> usize {
        self.enter_and(Terms::new(), Visit::Uncaptured, |owner| owner.begin(Visit::Uncaptured))
    }

    /// As [`enter`](Cache::enter). `begin` begins an outermost entry.
    #[inline(always)]
    pub(super) fn enter_and(&'static self, terms: Terms, visit: Visit, begin: impl FnOnce(&Owner)) -> usize {
        self.local.enter(claim_token());
        self.shared.counters.visited(visit);
        self.shared.entered.store(reclaim::now(), Relaxed);
        let Some(owner) = self.owner() else { return 0 };
        let entry = owner.with(|local, shared| local.enter(shared, terms));
        if self.shared.is_behind() {
            owner.catch_up();
        }
        owner.make_room_for(0);
        if owner.depth() == 1 {
            begin(&owner);
        }
        entry
    }

    /// As [`leave`](Cache::leave). `end` ends an outermost entry.
    #[inline(always)]
    pub(super) fn end_visit(&'static self, entry: usize, end: impl FnOnce(&Owner)) {
        let Some(owner) = self.owner() else { return };
        let are_open = owner.with(|local, shared| local.leave(shared, entry));
        owner.exit_after(|owner| {
            if owner.depth() == 1 {
                owner.take_deferred();
                owner.attend_stream();
                end(owner);
            } else if are_open {
                owner.make_room_for(0);
            }
        });
        if !self.is_mine() {
            limits::left();
        }
    }
}
