//! The owner's side of a cache: plain data that only the thread which owns the cache touches, without locks.
//!
//! Invariants: a record in `lists` came after the last invalidation that the owner followed, one in `spares` has no memory;
//! no method calls a device or any code of the user: what is to be released is handed to the caller.

use super::deferred::Deferred;
use super::lists::Lists;
use super::open::OpenTerms;
use super::policy::{Recycle, Terms};
use super::supply::{Moves, Supplied};
use crate::device::{Stream, WeakStream};
use crate::home::{Counter, Counts, FIRST_SPACING, Shared};
use crate::planner::{Begin, Planner, Resolved};
use crate::pressure::demand::Told;
use crate::pressure::reclaim::Idle;
use crate::record::{Door, Generation, ListPlace, Origin, Record, Request};

/// So many spare records are kept in any case: they take 16 KB, and spare a step with as many supplies the heap.
const SPARES: usize = 64;
/// In entries. Far more than orders that take turns, so that a spare record that one of them needs is not dropped.
const SPARES_KEPT_FOR: u32 = 256;
/// Threads that come one after the other, each with a stream of its own, leave keys behind, of some 200 bytes each. With so many
/// of them the cache begins anew, which costs the next thread its plan.
const MANY_FOREIGN_KEYS: usize = 64;

#[derive(Default)]
pub(super) struct Local {
    lists: Lists,
    pub(super) planner: Planner,
    pub(super) open: OpenTerms,
    /// Of the latest entry.
    recycle: Recycle,
    /// The most bytes that may be held, as the newest entry says.
    pub(super) limit: u64,
    /// Blocks that came back while other streams may still use them.
    pub(super) deferred: Deferred,
    /// Idle blocks without memory: as many as were in use at once, whatever their shapes.
    empties: Vec<Box<Record>>,
    /// Records whose memory went back, for the next supplies.
    pub(super) spares: Vec<Box<Record>>,
    /// How many of them were not needed at any time since that was looked at last.
    unneeded: usize,
    /// Entries until the next look at how much is alive, and as many as that were at the last one.
    look_in: u32,
    looks_apart: u32,
    /// Entries since it was looked at, by the last look, which spare records are needed.
    spares_for: u32,
    /// Whether the cache can be found as one that may hold memory.
    pub(super) is_listed: bool,
    told: Told,
    /// Bytes of the arena that plans had last, as far as a subscriber was told.
    #[cfg(feature = "tracing")]
    pub(super) last_arena: u64,
    watched: Option<(u64, WeakStream)>,
}

impl Local {
    pub(super) fn new() -> Local {
        Local { look_in: FIRST_SPACING, looks_apart: FIRST_SPACING, ..Local::default() }
    }

    /// Recycles as the entry that begins says. Returns what [`leave`](Local::leave) knows that by.
    #[inline]
    pub(super) fn enter(&mut self, shared: &Shared, terms: Terms) -> usize {
        self.follow(shared, terms);
        self.open.enter(terms)
    }

    /// An entry ends. Returns whether others are open, which recycle as they said.
    #[inline]
    pub(super) fn leave(&mut self, shared: &Shared, entry: usize) -> bool {
        let open = self.open.leave(entry);
        open.into_iter().for_each(|terms| self.follow(shared, terms));
        open.is_some()
    }

    /// Recycles in this way from now on; an entry that keeps nothing leaves what others keep alone.
    fn follow(&mut self, shared: &Shared, Terms { recycle, limit }: Terms) {
        self.limit = limit;
        if recycle != self.recycle && recycle != Recycle::Off {
            self.recycle = recycle;
            shared.note_keeping(recycle == Recycle::Keyed);
            self.lists.age_all();
        }
    }

    /// Begins an outermost entry.
    pub(super) fn begin(&mut self, shared: &Shared) -> Begin {
        if self.recycle == Recycle::Auto {
            return self.planner.begin(shared);
        }
        match self.planner.is_at_work() {
            true => {
                self.planner.forget(shared);
                Begin::Clear
            }
            false => Begin::Ready,
        }
    }

    /// A block from the lists if there is no plan to go by, unless the cache was invalidated meanwhile.
    #[inline]
    pub(super) fn serve(&mut self, shared: &Shared, request: &Request<'_>, stream: u64) -> Option<Box<Record>> {
        let is_listed = !shared.is_stale() && !self.planner.is_serving(stream);
        if is_listed { self.hit(shared, request, stream) } else { None }
    }

    /// What the plan has for a request, or else the lists. While blocks are on their way back it is not settled what there is: the
    /// lists are not asked then, and of the plan the expected position alone.
    pub(super) fn resolve(
        &mut self,
        shared: &Shared,
        request: &Request<'_>,
        stream: &Stream,
        is_settled: bool,
    ) -> Resolved {
        if shared.is_stale() {
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
        // Without bytes there is no list.
        let mut record = self.lists.pop(request, stream).or_else(|| self.pop_empty(request, stream))?;
        shared.counters.hit(record.bytes());
        self.hand_out(shared, &mut record, request);
        Some(record)
    }

    /// A block without memory, for any shape that has no elements.
    #[cold]
    fn pop_empty(&mut self, request: &Request<'_>, stream: u64) -> Option<Box<Record>> {
        let mut record = self.empties.pop_if(|record| request.bytes == 0 && record.stream().id() == stream)?;
        record.shape.assign(request.dims);
        Some(record)
    }

    #[inline]
    fn hand_out(&mut self, shared: &Shared, record: &mut Record, request: &Request<'_>) {
        shared.counters.handed_out(record.bytes(), shared.planned_bytes(), &shared.returns);
        self.planner.look_again();
        self.planner.note(shared, record, request);
    }

    /// What there is for a supply: a record without memory, and when pages move.
    pub(super) fn store(&mut self, shared: &Shared, request: &Request<'_>) -> (Option<Box<Record>>, Moves) {
        let moves = match self.recycle {
            Recycle::Auto if self.planner.had_better_move() => Moves::First,
            Recycle::Auto => Moves::WhereFar,
            Recycle::Keyed | Recycle::Range | Recycle::Off => Moves::Never,
        };
        let of_another_stream = if request.bytes == 0 { self.empties.pop() } else { None };
        of_another_stream.iter().for_each(|_| shared.counters.released(0));
        let spare = of_another_stream.or_else(|| self.spares.pop());
        self.unneeded = self.unneeded.min(self.spares.len());
        (spare, moves)
    }

    /// An entry ends. Whether there is something to look at then ([`look`](Local::look)).
    #[inline]
    pub(super) fn is_look_due(&mut self) -> bool {
        self.look_in -= 1;
        self.look_in == 0
    }

    /// Looks at how much is alive. Returns whether it is to be looked at which spare records are needed
    /// ([`take_unneeded`](Local::take_unneeded)).
    pub(super) fn look(&mut self, shared: &Shared) -> bool {
        self.spares_for = self.spares_for.saturating_add(self.looks_apart);
        self.look_in = self.planner.look_at_alive(shared);
        self.looks_apart = self.look_in;
        let are_spares_due = self.spares_for >= SPARES_KEPT_FOR;
        self.spares_for *= u32::from(!are_spares_due);
        are_spares_due
    }

    /// A spare record that none needed since the last look, but for a few: the caller's to drop, one a call. Some come from plans,
    /// which make new ones instead.
    pub(super) fn take_unneeded(&mut self) -> Option<Box<Record>> {
        if self.unneeded > SPARES {
            self.unneeded -= 1;
            return self.spares.pop();
        }
        self.unneeded = self.spares.len();
        None
    }

    /// Remembers the stream of the last supply, if graphs may be captured on it. Returns whether it is another one.
    #[inline]
    pub(super) fn watch(&mut self, stream: &Stream) -> bool {
        let is_new = stream.can_capture() && self.watched.as_ref().is_none_or(|(id, _)| *id != stream.id());
        if is_new {
            self.watched = Some((stream.id(), stream.downgrade()));
        }
        is_new
    }

    /// A stream on which entries work, if graphs may be captured on it.
    pub(super) fn watched(&self) -> Option<Stream> {
        self.watched.as_ref().and_then(|(_, stream)| stream.upgrade())
    }

    /// Takes a fresh record into account. If the scope `keeps` it, it returns to the list of its key. Another is released when dropped.
    pub(super) fn adopt(
        &mut self,
        shared: &Shared,
        door: &'static Door,
        request: &Request<'_>,
        Supplied { record, taken }: &mut Supplied,
        keeps: bool,
    ) {
        let generation = if keeps { shared.generation() } else { Generation::NEVER_KEPT };
        // Blocks without memory are all alike.
        let has_list = keeps && request.bytes > 0;
        let stream = record.stream().id();
        let place = if has_list { self.lists.place_of(request, stream) } else { ListPlace::default() };
        record.set_home(door, generation, place);
        shared.counters.allocated(record.bytes(), *taken, matches!(record.origin, Origin::Device));
        match keeps {
            true => self.hand_out(shared, record, request),
            false => shared.counters.handed_out(record.bytes(), shared.planned_bytes(), &shared.returns),
        }
    }

    /// Takes a block back: into its plan or list, or out of the account and to the caller, who releases it.
    #[inline]
    pub(super) fn put(&mut self, shared: &Shared, record: Box<Record>) -> Put {
        let mut record = record;
        if self.planner.is_at_work() {
            match self.planner.take_back_any(shared, record) {
                None => return Put::Kept,
                Some(rest) => record = rest,
            }
        }
        // Here and not at the drop, by a thread for which this line of the record is another one's.
        record.end_life();
        shared.counters.dropped(record.bytes());
        self.planner.look_again();
        if !self.lists.expects(record.place()) {
            return self.put_aside(shared, record);
        }
        if self.recycle == Recycle::Keyed {
            self.lists.push(record, false);
            return Put::Kept;
        }
        let budget = self.budget(shared);
        if record.bytes() as u64 > budget {
            return self.put_out(shared, record);
        }
        self.lists.push(record, true);
        if self.lists.idle_bytes() > budget { Put::KeptTooMuch } else { Put::Kept }
    }

    /// Takes a block back that has no list.
    fn put_aside(&mut self, shared: &Shared, record: Box<Record>) -> Put {
        if record.bytes() > 0 || record.generation != shared.generation() {
            return self.put_out(shared, record);
        }
        self.empties.push(record);
        Put::Kept
    }

    /// Takes a block out of the account.
    fn put_out(&mut self, shared: &Shared, mut record: Box<Record>) -> Put {
        self.planner.release_escaped(&mut record);
        shared.counters.released(record.bytes());
        Put::Released(record)
    }

    /// The block that has been idle longest, if more is idle than may be; the caller releases it.
    pub(super) fn overflow(&mut self, shared: &Shared) -> Option<Box<Record>> {
        let is_over_budget = self.lists.idle_bytes() > self.budget(shared);
        if is_over_budget { self.take_oldest(shared) } else { None }
    }

    /// A block that nobody asked for since the last time that all of these were taken; the caller releases it.
    pub(super) fn take_unused(&mut self, shared: &Shared) -> Option<Box<Record>> {
        let unused = self.lists.pop_unused();
        match &unused {
            Some(record) => shared.counters.released(record.bytes()),
            None => self.lists.look(),
        }
        unused
    }

    #[inline]
    fn budget(&self, shared: &Shared) -> u64 {
        let (demand, busy) = (shared.counters.get(Counter::Beside), shared.counters.get(Counter::BusyBytes));
        // Without an arena memory is scarce, and what is idle in lists cannot be taken away from a thread that is inside.
        let keys = if self.planner.lacks_arena() { usize::MAX } else { self.lists.keys() };
        self.recycle.budget(demand, busy, keys)
    }

    /// After an invalidation: forgets all keys, and hands out every idle block and spare record for the caller to
    /// release. (A record may be the last to hold its stream, so that none is dropped in here.)
    pub(super) fn renew(&mut self, shared: &Shared) -> Vec<Box<Record>> {
        let mut records = self.lists.take_idle();
        records.append(&mut self.empties);
        records.iter().for_each(|record| shared.counters.released(record.bytes()));
        records.append(&mut self.spares);
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

    /// Whether no array of the cache is alive, and what is idle is not to be kept whatever happens.
    pub(super) fn has_nothing_to_keep(&self, shared: &Shared) -> bool {
        let keeps_all = self.recycle == Recycle::Keyed && self.lists.idle_bytes() > 0;
        !keeps_all && self.deferred.records.is_empty() && !shared.has_busy()
    }

    /// Becomes as new, when nothing is busy or idle any more. Returns what was done so far.
    pub(super) fn reset(&mut self, shared: &Shared) -> Counts {
        self.planner.publish(shared);
        self.planner = Planner::default();
        self.recycle = Recycle::default();
        shared.reset()
    }

    /// What the cache told last of its demand, and what it tells now, if that is something else.
    pub(super) fn news_of_demand(&mut self, shared: &Shared) -> Option<(Told, Told)> {
        let now = shared.demand();
        let before = std::mem::replace(&mut self.told, now);
        (before != now).then_some((before, now))
    }

    /// Whether idle blocks may be taken out of the lists for this; if so, all of them can be.
    pub(super) fn may_release(&mut self, which: Idle) -> bool {
        let keeps_all = self.recycle == Recycle::Keyed;
        if keeps_all && matches!(which, Idle::All) {
            self.lists.age_all();
        }
        !keeps_all || matches!(which, Idle::All)
    }

    /// The block that has been idle longest; the caller releases it.
    pub(super) fn take_oldest(&mut self, shared: &Shared) -> Option<Box<Record>> {
        let record = self.lists.pop_oldest()?;
        shared.counters.released(record.bytes());
        Some(record)
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
