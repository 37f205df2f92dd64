//! The owner's side of a cache: plain data that only the thread which owns the cache touches, without locks.
//!
//! Invariants: a record in `lists` has the generation that [`Shared::generation`] names; no method calls a device or any
//! code of the user: what is to be released is handed to the caller.

use super::block::{Home, Record};
use super::lists::Lists;
use super::owner::Cache;
use super::shared::Shared;
use crate::base::key::Request;

#[derive(Default)]
pub(super) struct Local {
    lists: Lists,
    /// How many reasons the owner has to keep the cache: open entries of the scope, and calls under way.
    pub(super) depth: usize,
}

impl Local {
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

    /// Takes a fresh record into account. A kept one returns to the list of its key, another is released when dropped.
    pub(super) fn adopt(&mut self, cache: &'static Cache, shared: &Shared, fresh: Fresh<'_>) {
        let Fresh { record, request, stream, keeps } = fresh;
        let (generation, list) = match keeps {
            true => (shared.generation(), self.lists.place_of(request, stream)),
            false => (Home::NEVER_KEPT, 0),
        };
        record.set_home(Home { cache: Some(cache), generation, list });
        shared.counters.allocated(record.bytes());
        shared.counters.handed_out(record.bytes(), &shared.returns);
    }

    /// Takes a block back: into its list, or out of the account and to the caller, who releases it.
    #[inline]
    pub(super) fn put(&mut self, shared: &Shared, record: Box<Record>) -> Option<Box<Record>> {
        let home = record.home();
        shared.counters.dropped(record.bytes());
        if home.generation == shared.generation() {
            self.lists.push(home.list, record);
            None
        } else {
            shared.counters.released(record.bytes());
            Some(record)
        }
    }

    /// After an invalidation: forgets all keys, and hands out every idle block for the caller to release.
    pub(super) fn renew(&mut self, shared: &Shared) -> Vec<Box<Record>> {
        let idle = self.take_idle(shared);
        self.lists.forget_keys();
        shared.renew();
        idle
    }

    /// Hands out every idle block for the caller to release.
    pub(super) fn take_idle(&mut self, shared: &Shared) -> Vec<Box<Record>> {
        let idle = self.lists.take_idle();
        idle.iter().for_each(|record| shared.counters.released(record.bytes()));
        idle
    }
}

/// A record that the device has just given.
pub(super) struct Fresh<'a> {
    pub(super) record: &'a mut Record,
    pub(super) request: &'a Request<'a>,
    pub(super) stream: u64,
    pub(super) keeps: bool,
}
