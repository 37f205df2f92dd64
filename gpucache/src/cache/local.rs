//! The owner's side of a cache: plain data that only the thread which owns the cache touches, without locks.
//!
//! Invariants: a record in `lists` came after the last invalidation that the owner settled, one in `spares` has no memory;
//! no method calls a device or any code of the user: what is to be released is handed to the caller.

use super::deferred::Deferred;
use super::lists::{Lists, Place};
use super::owner::Cache;
use super::planner::{Begin, Planner};
use super::policy::{Recycle, Use};
use super::record::{Home, Record};
use super::shared::Shared;
use super::supply::{Moves, Store};
use crate::base::key::Request;
use crate::device::Stream;

/// Threads that come one after the other, each with a stream of its own, leave keys behind: so many are too many.
const CLUTTER: usize = 64;

#[derive(Default)]
pub(super) struct Local {
    lists: Lists,
    pub(super) planner: Planner,
    /// Of the latest entry.
    recycle: Recycle,
    /// Blocks that came back while other streams may still use them.
    pub(super) deferred: Deferred,
    /// Records whose memory went back, for the next misses.
    spares: Vec<Box<Record>>,
}

impl Local {
    /// Recycles as the entry that begins says; one that keeps nothing leaves what others keep alone.
    pub(super) fn enter(&mut self, recycle: Recycle) {
        if recycle != self.recycle && recycle != Recycle::Off {
            self.recycle = recycle;
            self.lists.age_all();
        }
    }

    /// Begins an outermost entry.
    pub(super) fn begin(&mut self, shared: &Shared) -> Begin {
        if self.recycle == Recycle::Auto {
            return self.planner.begin();
        }
        match self.planner.is_at_work() {
            true => {
                self.planner.forget(shared);
                Begin::Clear(self.planner.errands())
            }
            false => Begin::Ready,
        }
    }

    pub(super) fn recycle(&self) -> Recycle {
        self.recycle
    }

    /// What a plan expects next, or a hit if there is no plan to go by, unless the cache was invalidated meanwhile.
    #[inline]
    pub(super) fn serve(&mut self, shared: &Shared, request: &Request<'_>, stream: &Stream) -> Option<Box<Record>> {
        if shared.is_stale() {
            return None;
        }
        match self.planner.is_serving(stream.id()) {
            true => self.planner.serve_expected(shared, request, stream),
            false => self.hit(shared, request, stream.id()),
        }
    }

    /// Once what other threads returned has been settled: what the plan has a place for, else a hit.
    pub(super) fn pop(&mut self, shared: &Shared, request: &Request<'_>, stream: &Stream) -> Option<Box<Record>> {
        if shared.is_stale() {
            return None;
        }
        self.planner.serve_any(shared, request, stream).or_else(|| self.hit(shared, request, stream.id()))
    }

    #[inline(always)]
    fn hit(&mut self, shared: &Shared, request: &Request<'_>, stream: u64) -> Option<Box<Record>> {
        let mut record = self.lists.pop(request, stream)?;
        shared.counters.hits.add(1);
        self.hand_out(shared, &mut record);
        Some(record)
    }

    #[inline]
    fn hand_out(&mut self, shared: &Shared, record: &mut Record) {
        shared.counters.handed_out(record.bytes(), self.planner.live_bytes(), &shared.returns);
        self.planner.look_again();
        self.planner.note(record);
    }

    /// What there is for a miss.
    pub(super) fn store(&mut self) -> Store {
        let moves = match self.recycle {
            Recycle::Auto if self.planner.is_settled() => Moves::First,
            Recycle::Auto => Moves::WhereFar,
            Recycle::Keyed | Recycle::Range | Recycle::Off => Moves::Never,
        };
        Store { spare: self.spares.pop(), moves }
    }

    /// Keeps a record whose memory went back.
    pub(super) fn keep_spare(&mut self, record: Box<Record>) {
        self.spares.push(record);
    }

    /// Takes a fresh record into account. A kept one returns to the list of its key, another is released when dropped.
    pub(super) fn adopt(&mut self, cache: &'static Cache, shared: &Shared, fresh: Fresh<'_>) {
        let Fresh { record, request, stream, keeps, calls } = fresh;
        let generation = if keeps { shared.generation() } else { Home::NEVER_KEPT };
        // Without memory there is nothing to keep.
        let has_list = keeps && request.bytes > 0;
        let place = if has_list { self.lists.place_of(request, stream) } else { Place::default() };
        record.set_home(Home { cache: Some(cache), generation }, place);
        shared.counters.allocated(record.bytes(), calls);
        match keeps {
            true => self.hand_out(shared, record),
            false => shared.counters.handed_out(record.bytes(), self.planner.live_bytes(), &shared.returns),
        }
    }

    /// Takes a block back: into its plan or list, or out of the account and to the caller, who releases it.
    #[inline]
    pub(super) fn put(&mut self, shared: &Shared, record: Box<Record>) -> Put {
        let mut record = record;
        if self.planner.is_at_work() {
            match self.planner.take_back_any(record) {
                None => return Put::Kept,
                Some(rest) => record = rest,
            }
        }
        shared.counters.dropped(record.bytes());
        self.planner.look_again();
        let is_known = self.lists.expects(record.place_in_lists());
        if is_known && self.recycle == Recycle::Keyed {
            self.lists.push(record, false);
            return Put::Kept;
        }
        let budget = self.budget(shared);
        if is_known && record.bytes() as u64 <= budget {
            self.lists.push(record, true);
            return if self.lists.idle_bytes() > budget { Put::KeptTooMuch } else { Put::Kept };
        }
        self.planner.take_evicted(&mut record);
        shared.counters.released(record.bytes());
        Put::Released(record)
    }

    /// The block that has been idle longest, if more is idle than may be; the caller releases it.
    pub(super) fn overflow(&mut self, shared: &Shared) -> Option<Box<Record>> {
        let is_over_budget = self.lists.idle_bytes() > self.budget(shared);
        let record = if is_over_budget { self.lists.pop_oldest()? } else { return None };
        shared.counters.released(record.bytes());
        Some(record)
    }

    #[inline]
    fn budget(&self, shared: &Shared) -> u64 {
        let counters = &shared.counters;
        self.recycle.budget(Use {
            demand: counters.beside.get(),
            busy: counters.busy_bytes.get(),
            keys: self.lists.keys(),
        })
    }

    /// After an invalidation: forgets all keys, and hands out every idle block and spare record for the caller to
    /// release. (A record may be the last to hold its stream, so that none is dropped in here.)
    pub(super) fn renew(&mut self, shared: &Shared) -> Vec<Box<Record>> {
        let mut records = self.take_idle(shared);
        records.append(&mut std::mem::take(&mut self.spares));
        self.lists.forget_keys();
        self.planner.forget(shared);
        shared.renew();
        records
    }

    /// Once its thread has ended: hands out what keeps a stream alive that the next thread may not have, for the caller to
    /// release.
    pub(super) fn leave_behind(&mut self, shared: &Shared) -> Vec<Box<Record>> {
        let mut records = self.lists.take_idle_of_other_streams();
        records.iter().for_each(|record| shared.counters.released(record.bytes()));
        records.append(&mut self.spares);
        records
    }

    /// Whether there are many keys of streams that the next thread may not have.
    pub(super) fn is_cluttered(&self) -> bool {
        self.lists.keys_of_other_streams() > CLUTTER
    }

    /// Hands out every idle block for the caller to release.
    pub(super) fn take_idle(&mut self, shared: &Shared) -> Vec<Box<Record>> {
        let idle = self.lists.take_idle();
        idle.iter().for_each(|record| shared.counters.released(record.bytes()));
        idle
    }
}

/// What became of a block that came back.
pub(super) enum Put {
    Kept,
    /// More is idle now than may be.
    KeptTooMuch,
    /// For the caller to release.
    Released(Box<Record>),
}

/// A record that was just supplied.
pub(super) struct Fresh<'a> {
    pub(super) record: &'a mut Record,
    pub(super) request: &'a Request<'a>,
    pub(super) stream: u64,
    pub(super) keeps: bool,
    pub(super) calls: u64,
}
