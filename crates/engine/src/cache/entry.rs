//! The beginning and the end of an entry. At the beginning, planning asks the device's range for a block for the plans. At the end
//! it may give that block back.

use super::arena_bound::{self, Need};
use super::current;
use super::local::Local;
use super::owner::Owner;
use super::supply;
use super::token::is_shared;
use crate::device::{Stream, process_exits, softly};
use crate::home::{Counter, Fact, Shared, Visit};
use crate::planner::{ArenaMemory, Begin, Effects, Look, Planner, Refused, Vacated};
use crate::pressure::demand;
use crate::pressure::lease::Piece;
use crate::pressure::reclaim::{self, Releaser};
use crate::pressure::transit::{Transit, are_blocks_taken};
use crate::range::{Carved, Cut, DeviceRange, GatherLimit, Obtained, RangeBlock, RangeState, WaitFor};
use crate::record::{ArenaId, Origin};
use gpucache_plan::entries::Evicted;

/// A trim needs idle memory of more than this share of a range: two of its handles. Less is not worth device calls that the next
/// entries may have to undo.
const WORTH_A_TRIM: u64 = 512;

impl Owner {
    /// Begins an entry of the scope. Its plans get their block if the range has one for them. Otherwise the entry goes unplanned.
    pub(super) fn begin(&self, visit: Visit) {
        match visit {
            Visit::Uncaptured => {}
            Visit::Learning => self.with(|local, shared| local.planner.record_for_graph(shared)),
            Visit::Entry | Visit::FirstPoll | Visit::LaterPoll | Visit::Again => self.refuse_in_capture(),
        }
        self.begin_inside(visit);
        match self.with(|local, shared| local.begin(shared)) {
            Begin::Ready => {}
            begin => self.follow(begin),
        }
    }

    /// Lets the next call of the plan's stream fail if other code captures that stream. The frameworks that shared callers serve tell their
    /// captures: a pool then serves the stream, and no call of the capture would return this error.
    #[inline]
    fn refuse_in_capture(&self) {
        if let Some(stream) = self.with(|local, _| local.watched())
            && stream.captures_unannounced()
            && !(is_shared() && Stream::is_other_in_capture())
        {
            stream.refuse_next(supply::unannounced());
        }
    }

    /// Ends a part of an entry, and begins the next one: a cycle, an iteration of a loop, or a program of an endless entry.
    #[cold]
    pub(super) fn begin_part(
        &self,
        stream: &Stream,
        end: fn(&mut Planner, &Shared) -> Option<Effects>,
        begin: fn(&mut Planner, &Shared) -> Begin,
    ) {
        if stream.is_capturing() {
            return;
        }
        self.take_deferred();
        self.attend_stream();
        self.end_with(|local, shared| end(&mut local.planner, shared));
        self.tell_demand();
        self.follow(self.with(|local, shared| begin(&mut local.planner, shared)));
    }

    /// Changes the plans, and their arena with them, before the entry's first allocation on this stream.
    #[cold]
    pub(super) fn change_plans(&self, stream: &Stream, change: impl FnOnce(&mut Planner, &Shared) -> Begin) {
        if stream.is_capturing() {
            return;
        }
        self.follow(self.change(change));
    }

    /// Runs `act` on the planner, and carries out what planning then asks for.
    pub(super) fn change<R>(&self, act: impl FnOnce(&mut Planner, &Shared) -> R) -> R {
        let (answer, effects) =
            self.with(|local, shared| (act(&mut local.planner, shared), local.planner.take_effects()));
        self.perform(effects);
        answer
    }

    /// Does what planning needs before an entry or an iteration begins.
    #[cold]
    fn follow(&self, begin: Begin) {
        match begin {
            Begin::Ready => return,
            Begin::Install { bytes, stream, refused, may_grow, insists } => {
                self.install((bytes, &stream), refused, may_grow, insists);
                self.perform(self.with(|local, shared| local.planner.leave_ring(shared)));
                #[cfg(feature = "tracing")]
                self.tell_arena(stream.memory_id());
            }
            Begin::Clear => self.change(|_, _| ()),
        }
        self.with(|local, shared| local.planner.begun(shared));
    }

    #[cold]
    fn install(&self, (bytes, stream): (u64, &Stream), refused: Option<Refused>, may_grow: bool, insists: bool) {
        let Some(range) = DeviceRange::of(stream) else { return };
        let mut state = range.occupancy();
        let live = state.live;
        let needed = live.saturating_add(bytes);
        if refused.is_some_and(|refused| refused.is_in_vain(needed)) || are_blocks_taken(stream.memory_id()) {
            return;
        }
        let _transit = Transit::begin();
        if !insists {
            state.live = live.saturating_sub(reclaim::replaceable(stream, bytes, **self));
        }
        let need = self.need(&state, bytes, may_grow);
        let most = if insists { need.most_for_a_graph() } else { need.most() };
        // With 0 bytes, all arrays of the plan are carried, and the arena needs no block.
        let found = (bytes > 0).then(|| {
            self.make_room(refused);
            self.find_arena(range, stream, bytes, most)
        });
        let unwanted = self.with(|local, shared| match found {
            Some(None) => {
                local.planner.refuse(needed, shared);
                None
            }
            found => local.planner.install(&self.door, shared, found.flatten(), bytes),
        });
        if let Some(block) = unwanted {
            range.free(stream, block);
        }
        self.note_holding_of(stream);
    }

    /// The need of an arena of `bytes` bytes.
    fn need(&self, state: &RangeState, bytes: u64, may_grow: bool) -> Need {
        let RangeState { live, reserved, peak_reserved, granule: page, .. } = *state;
        let counter = |counter| self.with(|_, shared| shared.counters.get(counter));
        // What this scope needs at once, and what is in use beside it now, except a ring in which nothing is alive. An arena of entries
        // that vary may need more, and would grow with each of them.
        let own =
            counter(Counter::BusyBytes).saturating_add(self.with(|local, shared| local.planner.idle_ring(shared)));
        let (grows, rise) = self.with(|local, shared| (local.planner.grows(), local.planner.rise(shared)));
        let own_peak = arena_bound::own_need(counter(Counter::Demand), rise);
        let known = own_peak.saturating_add(live.saturating_sub(own));
        Need { needed: live.saturating_add(bytes), known, reserved, peak_reserved, page, grows, may_grow }
    }

    /// Finds a block for the plans, if the scope's limit allows as many bytes more. Notes the outcome for the diagnosis.
    fn find_arena(&self, range: &DeviceRange, stream: &Stream, bytes: u64, most: u64) -> Option<Carved> {
        let is_allowed = self.allows(bytes);
        let find = || find_block(range, stream, bytes, most, self.asks());
        let found = if is_allowed { find().or_else(|| self.yields_idle_ring().then(find).flatten()) } else { None };
        match &found {
            Some(Carved { taken, .. }) => self.note_taken(stream, bytes, *taken),
            None => self.note(if is_allowed { Fact::NoStretch } else { Fact::BeyondLimit }, 1, bytes),
        }
        found
    }

    /// Notes the device calls for a request. Tells the planner of pages that moved. In a shortage, they had to move: the range could not grow
    /// instead.
    pub(super) fn note_taken(&self, stream: &Stream, bytes: u64, taken: Obtained) {
        self.note(Fact::Taken, u64::from(taken.is_any()), bytes);
        let only_moves = taken.allocations == 0 && taken.pieces > 0;
        if only_moves && DeviceRange::of(stream).is_some_and(|range| range.occupancy().room >= bytes) {
            self.with(|local, shared| local.planner.note_moves(shared, taken.pieces));
        }
    }

    /// Gives back memory that the arena may need: idle blocks in lists, and, if the last try failed, a ring that is mostly idle.
    fn make_room(&self, refused: Option<Refused>) {
        self.release_lists();
        if refused.is_some() {
            self.yield_ring();
        }
    }

    /// Gives a ring that is mostly idle back.
    fn yield_ring(&self) {
        self.change(|planner, shared| planner.make_room(shared));
    }

    /// As [`yield_ring`](Owner::yield_ring), if nothing in the ring is alive. Returns whether there was such a ring.
    fn yields_idle_ring(&self) -> bool {
        let yields = self.with(|local, shared| local.planner.idle_ring(shared) > 0);
        if yields {
            self.yield_ring();
        }
        yields
    }

    /// Ends the epoch of the plan's stream if another thread asked for that. A scope that follows its plan makes no other call that
    /// would notice.
    #[inline]
    pub(super) fn attend_stream(&self) {
        if self.with(|local, _| local.planner.wanted_stream().is_some()) {
            self.attend_wanted_stream();
        }
    }

    #[cold]
    fn attend_wanted_stream(&self) {
        let wanted = self.with(|local, _| local.planner.wanted_stream().cloned());
        if let Some(stream) = wanted.filter(|_| !process_exits())
            && let Some(range) = DeviceRange::of(&stream)
        {
            range.streams(|streams| streams.attend(&stream));
        }
    }

    /// Ends an entry. This thread is about to leave it.
    pub(super) fn end(&self) {
        self.end_with(Local::end);
        self.end_inside();
    }

    #[inline(always)]
    fn end_with(&self, end: impl FnOnce(&mut Local, &Shared) -> Option<Effects>) {
        let effects = self.with(end);
        if self.with(|local, _| local.is_look_due()) && self.with(Local::look) {
            while let Some(record) = self.with(|local, _| local.take_unneeded()) {
                drop(record);
            }
        }
        if let Some(effects) = effects {
            self.perform(effects);
        }
    }

    /// Gives up the memory of the plans for a range that must otherwise grow by `need` bytes. While an entry uses it, only what is in the way
    /// goes.
    pub(super) fn release_plans(&self, need: u64, is_short: bool, by: Releaser) {
        let uses_arena = self.uses_arena(by);
        self.change(|planner, shared| match uses_arena {
            // Nobody else can take such an arena. Otherwise it stays: the range would get it only with the arena around it.
            true if is_short && planner.is_idle_in_block(shared) => planner.give_way(shared),
            false if planner.is_in_block() && (!is_short || planner.is_out_of_reach()) => {}
            true => planner.release_what_hinders(shared, need, is_short),
            false => planner.release_idle(shared, need, is_short),
        });
    }

    /// Whether an entry uses the plans' block. While this thread is in a scope inside an endless one, that scope serves it. So if that scope asks
    /// and nothing in the block is alive, the block counts as idle.
    fn uses_arena(&self, by: Releaser) -> bool {
        let waits = by.is_other_than(**self) && self.is_endless() && self.shared.lease.live() == 0;
        self.is_entered() && !waits
    }

    /// Carries out the effects that a request left, if there are any.
    #[inline]
    pub(super) fn perform_due(&self) {
        if self.with(|local, _| local.planner.has_departed()) {
            self.change(|_, _| ());
        }
    }

    /// Carries out the effects that planning asked for.
    pub(super) fn perform(&self, effects: Effects) {
        if process_exits() {
            return std::mem::forget(effects);
        }
        let Effects {
            vacated,
            shorten,
            records,
            streams,
            may_trim,
            #[cfg(feature = "tracing")]
            news,
        } = effects;
        vacated.into_iter().for_each(|vacated| self.give_up(vacated));
        shorten.into_iter().for_each(|bytes| self.shorten_ring(bytes));
        // Keeping a value for later takes memory of the host, and most entries have nothing to keep.
        if !records.is_empty() || !streams.is_empty() {
            self.let_go((records, streams));
        }
        may_trim.into_iter().for_each(|(stream, last)| self.look_at_range(stream, last));
        // Comes last, since a subscriber may call back into this cache.
        #[cfg(feature = "tracing")]
        news.iter().for_each(|news| self.tell(news));
    }

    /// Gives back the memory that the lists and the range need not keep.
    fn look_at_range(&self, stream: Stream, last: Option<u64>) {
        // During a capture of another thread, the driver refuses calls for memory, and ends the capture. A later entry looks.
        if Stream::is_any_in_capture() {
            return self.let_go_of_stream(stream);
        }
        let Some(range) = DeviceRange::of(&stream) else { return };
        let reserved = range.occupancy().reserved;
        let is_steady = self.with(|local, shared| local.planner.look(shared, reserved));
        while let Some(record) = self.with(Local::overflow) {
            self.release(record);
        }
        // A block that an entry left in a list before the plan existed may be all that keeps a page.
        while let Some(record) = self.with(Local::take_unused) {
            self.release(record);
        }
        self.tell_demand();
        // A lower demand lets pages go although nothing was freed meanwhile.
        let last = if is_steady && self.renews_around() { None } else { last };
        let look = trim(range, stream.memory_id(), last);
        self.with(|local, shared| local.planner.looked(shared, look));
        self.let_go_of_stream(stream);
    }

    /// Renews the demand of the innermost scope that is still open, and returns whether it changed. A program that never leaves that scope
    /// may have needed most of it for its first values only.
    fn renews_around(&self) -> bool {
        let Some(around) = current::around(self) else { return false };
        around.shared.counters.renew_first_demand();
        around.tell_demand()
    }

    /// Gives the arena's blocks back to the range, except the parts that are alive.
    fn give_up(&self, vacated: Vacated) {
        let Vacated { memory, arena, live, is_needed, transit: _transit } = vacated;
        let leased = match memory {
            ArenaMemory::OfRange(leased) => leased,
            ArenaMemory::OfOuter(block, stream) => {
                return self.give_up_inside((block, &stream), arena, &live, is_needed);
            }
        };
        // Keeps the stream alive, so that none of the following steps drops its last handle.
        self.let_go_of_stream(leased.stream.clone());
        if live.is_empty() {
            return leased.give_back();
        }
        let Some(range) = DeviceRange::of(&leased.stream) else { return };
        for (number, Piece { block, room }) in leased.pieces.into_iter().enumerate() {
            self.keep_parts(&leased.stream, block, arena, live.iter().filter(|live| live.piece == number));
            room.into_iter().for_each(|room| range.close_room(room));
        }
    }

    /// Gives a block of an arena back to the range, except the parts that are alive.
    pub(super) fn keep_parts<'l>(
        &self,
        stream: &Stream,
        block: RangeBlock,
        arena: ArenaId,
        live: impl Iterator<Item = &'l Evicted> + Clone,
    ) {
        let Some(range) = DeviceRange::of(stream) else { return };
        let parts: Vec<(u64, u64)> = live.clone().map(|live| (live.offset, live.bytes)).collect();
        let blocks = range.split(stream, block, &parts);
        let places = live.map(|live| live.position).zip(blocks.into_iter().map(Origin::Range)).collect();
        self.with(|local, shared| local.planner.note_escaped(shared, arena, places));
    }
}

/// A block for plans from idle memory, if necessary from other scopes. The range then reserves no more than `most` bytes and no
/// more than a soft limit allows. `None` after a failure of the device: calls that can return the failure will meet it again.
#[cold]
fn find_block(range: &DeviceRange, stream: &Stream, bytes: u64, most: u64, by: Releaser) -> Option<Carved> {
    // Idle pages move before the range adds any.
    let gather = || {
        softly(|| range.gather_rather_than_grow(stream, bytes, GatherLimit { aim: 0, most, cut: Cut::OrWait }))
            .ok()
            .flatten()
    };
    let idle = || supply::idle_for(&range.occupancy(), stream, bytes);
    let release = || reclaim::release_idle(idle(), stream.memory_id(), 0, by);
    gather().or_else(|| if release() > 0 { gather() } else { None })
}

/// Gives back memory that the scopes are not likely to need again, if that is worth a call and something was freed since the last
/// look.
fn trim(range: &DeviceRange, device: u64, last: Option<u64>) -> Look {
    let RangeState { reserved, live, frees, .. } = range.occupancy();
    let is_spare = |keep: u64| reserved.saturating_sub(keep) > reserved / WORTH_A_TRIM;
    let mut keep = demand::of(device).max(live);
    if is_spare(keep) {
        keep = keep.max(needed(device, live));
    }
    if last != Some(frees) && is_spare(keep) {
        // A failure is the device's own, and the next call meets it as well.
        let _ = range.trim(keep, WaitFor::Nothing);
    }
    let after = range.occupancy().reserved;
    Look { frees, spare: after.saturating_sub(keep), before: reserved, after }
}

/// The bytes of a device of which `live` are in use that are in use outside scopes, or likely to be needed by scopes. Reported demand
/// ([`demand`]) may lack the scopes that a thread never left, such as the one of `auto_scope`, and lacks all memory outside scopes.
fn needed(device: u64, live: u64) -> u64 {
    let (held, expected) = reclaim::held_and_expected(device);
    expected.saturating_add(live.saturating_sub(held))
}
