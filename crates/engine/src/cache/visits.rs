//! How a thread enters a scope and leaves it. In between it owns the scope's cache.

use super::owner::Cache;
use super::policy::Terms;
use super::token::claim_token;
use crate::home::Visit;
use crate::pressure::{limits, reclaim};

impl Cache {
    /// Enters the scope: the calling thread owns the cache until it has left as often. Waits while another thread takes idle blocks
    /// out. Returns the entry's place, for [`leave`](Cache::leave).
    #[inline(always)]
    pub fn enter(&'static self, terms: Terms, visit: Visit) -> usize {
        self.local.enter(claim_token());
        self.shared.counters.visited(visit);
        self.shared.note_entered(reclaim::now());
        let Some(owner) = self.owner() else { return 0 };
        let entry = owner.with(|local, shared| local.enter(shared, terms));
        if self.shared.is_behind() {
            owner.catch_up();
        }
        owner.shrink();
        if owner.depth() == 1 {
            owner.begin(visit);
        }
        entry
    }

    /// As [`leave`](Cache::leave).
    #[inline(always)]
    pub(super) fn end_visit(&'static self, entry: usize) {
        let Some(owner) = self.owner() else { return };
        let are_open = owner.with(|local, shared| local.leave(shared, entry));
        owner.exit_after(|owner| {
            if owner.depth() == 1 {
                owner.take_deferred();
                owner.attend_stream();
                owner.end();
            } else if are_open {
                owner.shrink();
            }
        });
        if !self.is_mine() {
            limits::left();
        }
    }
}
