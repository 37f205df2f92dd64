//! The owner's side of a cache: plain data that only the thread which owns the cache touches, without locks.
//!
//! Invariants: a record in `lists` has the generation that [`Shared::generation`] names, one in `spares` has no memory;
//! no method calls a device or any code of the user: what is to be released is handed to the caller.

use super::block::{Home, Record};
use super::lists::Lists;
use super::owner::Cache;
use super::policy::{Recycle, Use};
use super::shared::Shared;
use crate::base::key::Request;

#[derive(Default)]
pub(super) struct Local {
    lists: Lists,
    /// Of the latest entry.
    recycle: Recycle,
    /// Records whose memory went back, for the next misses.
    spares: Vec<Box<Record>>,
    /// How many reasons the owner has to keep the cache: open entries of the scope, and calls under way.
    pub(super) depth: usize,
}

impl Local {
    /// Recycles as the entry that begins says. One that keeps nothing leaves what others keep alone.
    pub(super) fn set_recycle(&mut self, recycle: Recycle) {
        if recycle != self.recycle && recycle != Recycle::Off {
            self.recycle = recycle;
            self.lists.age_all();
        }
    }

    pub(super) fn recycle(&self) -> Recycle {
        self.recycle
    }

    /// A hit, unless the cache was invalidated meanwhile.
    #[inline]
    pub(super) fn pop(&mut self, shared: &Shared, request: &Request<'_>, stream: u64) -> Option<Box<Record>> {
        if shared.is_stale() {
            return None;
        }
        let record = self.lists.pop(request, stream)?;
        shared.counters.hits.add(1);
        shared.counters.handed_out(record.bytes(), &shared.returns);
        Some(record)
    }

    /// A record without memory, if there is one.
    pub(super) fn spare(&mut self) -> Option<Box<Record>> {
        self.spares.pop()
    }

    /// Keeps a record whose memory went back.
    pub(super) fn keep_spare(&mut self, record: Box<Record>) {
        self.spares.push(record);
    }

    /// Takes a fresh record into account. A kept one returns to the list of its key, another is released when dropped.
    pub(super) fn adopt(&mut self, cache: &'static Cache, shared: &Shared, fresh: Fresh<'_>) {
        let Fresh { record, request, stream, keeps, calls } = fresh;
        let (generation, list) = match keeps {
            true => (shared.generation(), self.lists.place_of(request, stream)),
            false => (Home::NEVER_KEPT, 0),
        };
        record.set_home(Home { cache: Some(cache), generation, list });
        shared.counters.allocated(record.bytes(), calls);
        shared.counters.handed_out(record.bytes(), &shared.returns);
    }

    /// Takes a block back: into its list, or out of the account and to the caller, who releases it.
    #[inline]
    pub(super) fn put(&mut self, shared: &Shared, record: Box<Record>) -> Option<Box<Record>> {
        let home = record.home();
        shared.counters.dropped(record.bytes());
        if home.generation == shared.generation() && record.bytes() as u64 <= self.budget(shared) {
            self.lists.push(home.list, record, self.recycle == Recycle::Range);
            None
        } else {
            shared.counters.released(record.bytes());
            Some(record)
        }
    }

    /// Whether more is idle than may be.
    #[inline]
    pub(super) fn is_over_budget(&self, shared: &Shared) -> bool {
        self.lists.idle_bytes() > self.budget(shared)
    }

    /// The block that has been idle longest, if more is idle than may be; the caller releases it.
    pub(super) fn overflow(&mut self, shared: &Shared) -> Option<Box<Record>> {
        let record = if self.is_over_budget(shared) { self.lists.pop_oldest()? } else { return None };
        shared.counters.released(record.bytes());
        Some(record)
    }

    #[inline]
    fn budget(&self, shared: &Shared) -> u64 {
        let counters = &shared.counters;
        self.recycle.budget(Use {
            demand: counters.demand.get(),
            busy: counters.busy_bytes.get(),
            keys: self.lists.keys(),
        })
    }

    /// After an invalidation: forgets all keys, and hands out every idle block and spare record for the caller to
    /// release. (A record may be the last to hold its stream, so that none is dropped in here.)
    pub(super) fn renew(&mut self, shared: &Shared) -> Vec<Box<Record>> {
        let mut records = self.take_idle(shared);
        records.append(&mut self.spares);
        self.lists.forget_keys();
        shared.renew();
        records
    }

    /// Hands out every idle block for the caller to release.
    pub(super) fn take_idle(&mut self, shared: &Shared) -> Vec<Box<Record>> {
        let idle = self.lists.take_idle();
        idle.iter().for_each(|record| shared.counters.released(record.bytes()));
        idle
    }
}

/// A record that was just supplied.
pub(super) struct Fresh<'a> {
    pub(super) record: &'a mut Record,
    pub(super) request: &'a Request<'a>,
    pub(super) stream: u64,
    pub(super) keeps: bool,
    pub(super) calls: u64,
}
