//! The owner's side of a cache: plain data that only the owning thread touches, without locks.
//!
//! Invariants:
//!
//! - A record in `lists` returned after the last invalidation that the owner followed. A record in `spares` has no memory.
//! - No method calls a device or user code. Methods hand records that must be released to the caller.

use std::sync::atomic::Ordering::Relaxed;

use super::lists::Lists;
use super::open::OpenTerms;
use super::policy::{Recycle, Terms};
use super::scope_limit::ScopeLimit;
use super::supply::Moves;
use crate::device::{Stream, WeakStream};
use crate::home::{Counter, Counts, FIRST_SPACING, Shared};
use crate::planner::{Begin, Effects, Planner, Resolved};
use crate::pressure::reclaim::Idle;
use crate::record::{Door, Generation, ListPlace, Origin, Record, Request};

/// The least number of spare records to keep. They take 16 KB, and save heap allocations to a step with as many supplies.
const SPARES: usize = 64;
/// In entries. This is far more than the number of orders that take turns, so a spare record that one of them needs is not dropped. A drop
/// takes time, and programs that just began to be planned have many.
const SPARES_KEPT_FOR: u32 = 256;

/// Threads that come one after the other, each with a stream of its own, leave keys behind, of some 200 bytes each. Beyond this
/// many foreign keys the cache begins anew, which costs the next thread its plan.
const MANY_FOREIGN_KEYS: usize = 64;

#[derive(Default)]
pub(super) struct Local {
    lists: Lists,
    pub(super) planner: Planner,
    pub(super) open: OpenTerms,
    /// As the latest entry says.
    recycle: Recycle,
    /// Whether the entry is one inside that of another scope, or has left something in a block of that scope.
    pub(super) is_inside: bool,
    pub(super) limit: ScopeLimit,
    /// Blocks that returned while other streams may still use them.
    pub(super) deferred: Vec<Box<Record>>,
    /// Idle blocks of 0 bytes, whatever their shapes. There are as many as were in use at once.
    empties: Vec<Box<Record>>,
    /// Bytes of blocks from before an invalidation that went back since the range was last trimmed for them.
    pub(super) untrimmed: u64,
    /// Records whose memory went back, for the next supplies.
    pub(super) spares: Vec<Box<Record>>,
    /// How many spare records nobody has needed since the last look.
    unneeded: usize,
    /// Entries until the next look at how much is alive.
    look_in: u32,
    /// Whether the cache is registered as one that may hold memory.
    pub(super) is_listed: bool,
    /// The demand that was reported last.
    told: u64,
    /// The arena size of the plans that was last reported to a subscriber, in bytes.
    #[cfg(feature = "tracing")]
    pub(super) last_arena: u64,
    watched: Option<(u64, WeakStream)>,
}

impl Local {
    pub(super) fn new() -> Local {
        Local { look_in: FIRST_SPACING, ..Local::default() }
    }

    /// Applies the settings of an entry that begins. Returns the place to pass to [`leave`](Local::leave).
    #[inline]
    pub(super) fn enter(&mut self, shared: &Shared, terms: Terms) -> usize {
        self.follow(shared, terms);
        self.open.enter(terms)
    }

    /// Notes that an entry ends. Returns whether others are open. The settings of those apply again.
    #[inline]
    pub(super) fn leave(&mut self, shared: &Shared, entry: usize) -> bool {
        let open = self.open.leave(entry);
        open.into_iter().for_each(|terms| self.follow(shared, terms));
        open.is_some()
    }

    /// Applies these settings from now on. An entry that keeps nothing does not change how blocks of other entries are kept.
    fn follow(&mut self, shared: &Shared, Terms { recycle, limit }: Terms) {
        self.limit.set(limit);
        if recycle != self.recycle && recycle != Recycle::Off {
            // Under this policy alone, blocks that return do not age.
            let was_keyed = std::mem::replace(&mut self.recycle, recycle) == Recycle::Keyed;
            shared.keeps_all.store(recycle == Recycle::Keyed, Relaxed);
            if was_keyed {
                self.lists.age_all();
            }
        }
    }

    /// Begins an outermost entry.
    pub(super) fn begin(&mut self, shared: &Shared) -> Begin {
        self.planner.count_begun();
        if self.recycle == Recycle::Auto {
            return self.planner.begin_entry(shared);
        }
        match self.planner.is_at_work() {
            true => {
                self.planner.forget(shared);
                Begin::Clear
            }
            false => Begin::Ready,
        }
    }

    /// Ends an outermost entry. Returns what planning asks for. A scope that does not plan has nothing to end.
    #[inline]
    pub(super) fn end(&mut self, shared: &Shared) -> Option<Effects> {
        let has_end = self.recycle == Recycle::Auto || self.planner.has_more_to_do();
        if has_end { self.planner.end_entry(shared) } else { None }
    }

    /// A block from the lists, if there is no plan to follow and the cache was not invalidated meanwhile.
    #[inline]
    pub(super) fn serve(&mut self, shared: &Shared, request: &Request<'_>, stream: u64) -> Option<Box<Record>> {
        // An entry that keeps all blocks by key may be open within one that plans.
        let plans = self.recycle != Recycle::Keyed;
        let is_awaited = plans && (self.planner.awaits_part() || self.planner.may_move());
        let is_listed = !shared.generations.is_behind() && !self.planner.is_serving(stream) && !is_awaited;
        if is_listed { self.hit(shared, request, stream) } else { None }
    }

    /// Serves a request from the plan, or else from the lists. While blocks are still returning (`is_settled` is false), it asks
    /// only for the plan's expected position, and not the lists.
    pub(super) fn resolve(
        &mut self,
        shared: &Shared,
        request: &Request<'_>,
        stream: &Stream,
        is_settled: bool,
    ) -> Resolved {
        if shared.generations.is_behind() {
            return Resolved::Nothing;
        }
        if self.planner.is_serving(stream.id()) {
            match self.planner.resolve(shared, request, stream, is_settled) {
                Resolved::Nothing => {}
                resolved => return resolved,
            }
        }
        if is_settled { self.hit(shared, request, stream.id()).into() } else { Resolved::Nothing }
    }

    /// A block from the lists.
    #[inline(always)]
    pub(super) fn hit(&mut self, shared: &Shared, request: &Request<'_>, stream: u64) -> Option<Box<Record>> {
        // Requests of 0 bytes have no list.
        let mut record = self.lists.pop(request, stream).or_else(|| self.pop_empty(request, stream))?;
        shared.counters.hit(record.bytes);
        self.hand_out(shared, &mut record, request);
        Some(record)
    }

    /// A block of 0 bytes, for any shape without elements.
    #[cold]
    fn pop_empty(&mut self, request: &Request<'_>, stream: u64) -> Option<Box<Record>> {
        let mut record = self.empties.pop_if(|record| request.bytes == 0 && record.stream().id() == stream)?;
        record.shape.assign(request.dims);
        Some(record)
    }

    #[inline]
    fn hand_out(&mut self, shared: &Shared, record: &mut Record, request: &Request<'_>) {
        shared.note_handed_out(record.bytes);
        self.planner.look_again();
        self.planner.note(record, request);
    }

    /// The means for a supply: a record without memory if there is one, and when pages may move.
    pub(super) fn store(&mut self, shared: &Shared, request: &Request<'_>) -> (Option<Box<Record>>, Moves) {
        let moves = Moves::of(self.recycle, &mut self.planner);
        let of_another_stream = if request.bytes == 0 { self.empties.pop() } else { None };
        of_another_stream.iter().for_each(|_| shared.counters.released(0));
        let spare = of_another_stream.or_else(|| self.spares.pop());
        self.unneeded = self.unneeded.min(self.spares.len());
        (spare, moves)
    }

    /// Notes that an entry ends. Returns whether the next look is due.
    #[inline]
    pub(super) fn is_look_due(&mut self) -> bool {
        self.look_in -= 1;
        self.look_in == 0
    }

    /// Looks at how much is alive. Returns whether looks are so far apart by now that spare records which nobody needed in between may go
    /// ([`take_unneeded`](Local::take_unneeded)).
    pub(super) fn look(&mut self, shared: &Shared) -> bool {
        self.look_in = self.planner.look_at_alive(shared);
        self.look_in >= SPARES_KEPT_FOR
    }

    /// Hands out one spare record that nobody has needed since the last look, for the caller to drop. A few always stay. The plans
    /// gave some of these records and make new ones instead.
    pub(super) fn take_unneeded(&mut self) -> Option<Box<Record>> {
        if self.unneeded > SPARES {
            self.unneeded -= 1;
            return self.spares.pop();
        }
        self.unneeded = self.spares.len();
        None
    }

    /// Remembers the stream of the last supply, if graphs may be captured on it. Returns whether this is another stream than
    /// before.
    #[inline]
    pub(super) fn watch(&mut self, stream: &Stream) -> bool {
        let is_new = stream.can_capture() && self.watched.as_ref().is_none_or(|(id, _)| *id != stream.id());
        if is_new {
            self.watched = Some((stream.id(), stream.downgrade()));
        }
        is_new
    }

    /// The stream of the last supply, if graphs may be captured on it.
    pub(super) fn watched(&self) -> Option<Stream> {
        self.watched.as_ref().and_then(|(_, stream)| stream.upgrade())
    }

    /// Counts a fresh record. If the scope `keeps` it, it later returns to the list of its key. Otherwise its drop releases it.
    pub(super) fn adopt(
        &mut self,
        shared: &Shared,
        door: &'static Door,
        request: &Request<'_>,
        (record, taken): (&mut Record, crate::range::Obtained),
        keeps: bool,
    ) {
        let generation = if keeps { shared.generation() } else { Generation::NEVER_KEPT };
        // All blocks of 0 bytes are alike.
        let has_list = keeps && request.bytes > 0;
        let stream = record.stream().id();
        let place = if has_list { self.lists.place_of(request, stream) } else { ListPlace::default() };
        record.set_home(door, generation, place);
        shared.counters.allocated(record.bytes, taken, matches!(record.origin, Origin::Device));
        match keeps {
            true => self.hand_out(shared, record, request),
            false => shared.note_handed_out(record.bytes),
        }
    }

    /// Takes a block back into its plan or list. If neither takes it, or if more is idle then than the budget allows, stops counting a block
    /// and returns it for the caller to release.
    #[inline]
    pub(super) fn put(&mut self, shared: &Shared, record: Box<Record>) -> Option<Box<Record>> {
        let mut record = record;
        if self.planner.is_at_work() {
            match self.planner.take_back_any(shared, record) {
                None => return None,
                Some(rest) => record = rest,
            }
        }
        // Done here and not at the drop: the drop may run on another thread, in whose processor cache this line of the record is
        // not.
        record.end_life();
        shared.counters.dropped(record.bytes);
        self.planner.look_again();
        if self.recycle == Recycle::Keyed {
            return self.lists.keep(record).and_then(|record| self.put_aside(shared, record));
        }
        if !self.lists.expects(record.place()) {
            return self.put_aside(shared, record);
        }
        let budget = self.budget(shared);
        if !self.lists.takes(record.bytes as u64, budget) {
            return Some(self.put_out(shared, record));
        }
        self.lists.push(record);
        if self.lists.idle_bytes() > budget { self.take_oldest(shared) } else { None }
    }

    /// Takes back a block that has no list.
    // Not inlined, as the next one and `take_oldest`: `put` would save more registers for them.
    #[inline(never)]
    fn put_aside(&mut self, shared: &Shared, record: Box<Record>) -> Option<Box<Record>> {
        if record.bytes > 0 || record.generation != shared.generation() {
            return Some(self.put_out(shared, record));
        }
        self.empties.push(record);
        None
    }

    /// Stops counting a block.
    #[inline(never)]
    fn put_out(&mut self, shared: &Shared, mut record: Box<Record>) -> Box<Record> {
        self.planner.release_escaped(&mut record);
        shared.counters.released(record.bytes);
        record
    }

    /// The block that has been idle longest, if more is idle than the budget allows. The caller releases it.
    pub(super) fn overflow(&mut self, shared: &Shared) -> Option<Box<Record>> {
        let is_over_budget = self.lists.idle_bytes() > self.budget(shared);
        if is_over_budget { self.take_oldest(shared) } else { None }
    }

    /// A block that nobody requested since the last call that found none. The caller releases it.
    pub(super) fn take_unused(&mut self, shared: &Shared) -> Option<Box<Record>> {
        self.lists.pop_unused().inspect(|record| shared.counters.released(record.bytes))
    }

    #[inline]
    fn budget(&self, shared: &Shared) -> u64 {
        let (demand, busy) = (shared.counters.get(Counter::Beside), shared.counters.get(Counter::BusyBytes));
        // Without an arena memory is scarce, and other threads cannot take idle memory from the lists while the owner is inside.
        let keys = if self.planner.lacks_arena() { usize::MAX } else { self.lists.keys() };
        self.recycle.budget(demand, busy, keys)
    }

    /// Follows an invalidation: forgets all keys, and hands out every idle block and spare record for the caller to release. A
    /// record may hold the last handle of its stream, so none is dropped in here.
    pub(super) fn renew(&mut self, shared: &Shared) -> Vec<Box<Record>> {
        let mut records = self.lists.take_idle();
        records.append(&mut self.empties);
        records.iter().for_each(|record| shared.counters.released(record.bytes));
        records.append(&mut self.spares);
        self.lists.forget_keys();
        self.planner.forget(shared);
        shared.renew();
        records
    }

    /// After an invalidation within an entry: looks for loops in the rest of the entry, which may be the whole program.
    pub(super) fn search_anew(&mut self) {
        if self.recycle == Recycle::Auto {
            self.planner.search_anew();
        }
    }

    /// Prepares the cache for its next thread, after its thread has ended. Hands out the records that keep a stream alive which the
    /// next thread may not have. The caller releases them.
    pub(super) fn leave_behind(&mut self, shared: &Shared) -> Vec<Box<Record>> {
        let mut records = self.lists.take_idle_of_other_streams();
        records.iter().for_each(|record| shared.counters.released(record.bytes));
        records.append(&mut self.spares);
        if let Some(last) = self.lists.last_stream() {
            let others = self.empties.extract_if(.., |record| record.stream().id() != last);
            records.extend(others.inspect(|_| shared.counters.released(0)));
        }
        records
    }

    /// Whether there are many keys of streams that the next thread may not have.
    pub(super) fn is_cluttered(&self) -> bool {
        self.lists.keys_of_other_streams() > MANY_FOREIGN_KEYS
    }

    /// Whether no array of the cache is alive, and no idle memory has to be kept.
    pub(super) fn has_nothing_to_keep(&self, shared: &Shared) -> bool {
        let keeps_all = self.recycle == Recycle::Keyed && self.lists.idle_bytes() > 0;
        !keeps_all && self.deferred.is_empty() && !shared.has_busy()
    }

    /// Resets the cache once nothing is busy or idle any more. Returns its statistics so far.
    pub(super) fn reset(&mut self, shared: &Shared) -> Counts {
        self.planner.publish(shared);
        self.planner = Planner::default();
        (self.recycle, self.limit, self.told) = (Recycle::default(), ScopeLimit::default(), 0);
        shared.reset()
    }

    /// The demand of the cache, if another one was reported last. Notes it as reported.
    pub(super) fn news_of_demand(&mut self, shared: &Shared) -> Option<u64> {
        let now = shared.counters.expected();
        let is_news = self.told != now;
        self.told = now;
        is_news.then_some(now)
    }

    /// Whether idle blocks may be taken out of the lists for this purpose. If so, [`take_oldest`](Local::take_oldest) finds all of
    /// them.
    pub(super) fn may_release(&mut self, which: Idle) -> bool {
        let keeps_all = self.recycle == Recycle::Keyed;
        if keeps_all && matches!(which, Idle::All) {
            self.lists.age_all();
        }
        !keeps_all || matches!(which, Idle::All)
    }

    /// The block that has been idle longest. The caller releases it.
    #[inline(never)]
    pub(super) fn take_oldest(&mut self, shared: &Shared) -> Option<Box<Record>> {
        self.lists.pop_oldest().inspect(|record| shared.counters.released(record.bytes))
    }
}
