//! How a scope plans, the owner's side: which plan serves an entry, and what is learned from it.
//!
//! All plans of a scope lie in one block, and are of one stream. The block itself stands where other threads can take it away
//! while nothing in it is alive ([`lease`](super::lease)), which is found out when something is to be served from it, at the
//! latest. Invariants: `stream` and `epoch` name a stream and a block only while the block is there, or is not known to be
//! gone; a record whose home names the epoch is a live position of `cursor`, the cursor of the active plan. No method calls
//! a device or drops a record: [`Begin`] and [`Errands`] say what is to be done.

mod backoff;
mod curiosity;
mod errands;
mod growth;
mod plans;
mod serve;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hashbrown::HashMap;

use super::lease::Leased;
use super::plan_stats::Deviations;
use super::record::{Door, Stack};
use super::shared::Shared;
use super::transit::Transit;
use crate::device::Stream;
use crate::plan::{Cursor, Learner, Scratch};
use crate::range::{self, Carved};

use backoff::{Backoff, LONGEST_WAIT};
use curiosity::Curiosity;
pub(super) use errands::{Begin, Errands, Refused, Trim, Vacated};
use growth::LOOK_IN;
use plans::Plans;

/// Plans, the cursor of the active one, and what was learned for the next ones. What each allocation and drop needs comes
/// first, in two lines of the processor's cache.
#[derive(Default)]
#[repr(C)]
pub(super) struct Planner {
    /// What [`serve`](Planner::serve) and [`take_back`](Planner::take_back) go by: as below, but 0 while an entry is
    /// recorded, which takes a closer look at everything.
    fast_stream: u64,
    fast_epoch: u64,
    /// Where the block lies.
    base: u64,
    /// As many bytes may be in use by the plan before that is to be noted.
    room: u64,
    /// Records for what the cursor serves.
    records: Stack,
    /// Where records return to.
    door: Option<&'static Door>,
    /// The stream that is served; 0 for none.
    stream: u64,
    /// Names the block; 0 for none.
    epoch: u64,
    cursor: Cursor,
    /// The most that it had in use at once since it was laid out or looked at.
    peak: u64,
    /// Entries until that is looked at.
    look_in: u32,
    is_recording: bool,
    entry: Entry,
    learner: Learner,
    scratch: Scratch,
    plans: Plans,
    arena: Option<Arena>,
    /// Whether there ever was a block.
    has_planned: bool,
    /// The stream that is recorded.
    recorded: Option<Stream>,
    /// What was evicted from a block and is still in use, by epoch and position: its memory, and its generation.
    evicted: HashMap<(u64, u32), (range::Block, u64)>,
    errands: Errands,
    curiosity: Curiosity,
    /// No block was to be had.
    refused: Option<Refused>,
    /// Waits before what outlived its entry is taken out of the block, and before another order is learned when one was
    /// forgotten: both longer each time.
    evicting: Backoff<2>,
    forgetting: Backoff<8>,
    /// Waits before pages move again for an entry without a plan.
    moving: Backoff<8>,
    /// Entries until the range is trimmed, and how many it were the last time.
    trim_in: u32,
    last_trim_in: u32,
    /// How often the range had something freed at the last look, and the calls that the scope had made by then.
    frees: Option<u64>,
    calls: u64,
    planning: Duration,
}

/// The block in which the plans lie.
struct Arena {
    stream: Stream,
    bytes: u64,
    positions: u64,
}

/// What happened in the entry that is under way.
#[derive(Default)]
struct Entry {
    number: u32,
    /// Whether a plan serves it, or did until its block was needed elsewhere.
    is_planned: bool,
    is_dissolved: bool,
    /// Whether its first recorded allocation has come.
    has_stream: bool,
    served_before: u64,
    seen: Deviations,
    /// Allocations that the plan expected, and has no place for.
    aside: u64,
    /// Bytes by which the range had to grow.
    grown: u64,
}

/// Deviations in one of so many allocations make an entry worth recording, or those after it.
const CURIOUS: u64 = 1024;
/// A plan serves an entry well if at most one of so many allocations went beside it.
const BESIDE: u64 = 8;
/// What outlives its entry in a plan's block by deviation may fill this share of it, or block this share of what is
/// served, before it is taken out.
const ESCAPED: u64 = 64;
/// Epochs are no generations of a cache, and each is of one block in the process.
static NEXT_EPOCH: AtomicU64 = AtomicU64::new(1 << 63);

impl Planner {
    /// Begins an entry.
    pub(super) fn begin(&mut self, shared: &Shared) -> Begin {
        let number = self.entry.number.wrapping_add(1).max(1);
        self.entry = Entry { number, ..Entry::default() };
        self.learner.begin(self.plans.is_empty() || self.curiosity.is_due());
        self.is_recording = self.learner.is_recording();
        if shared.lease.live() == 0 {
            self.plans.predict(&mut self.cursor);
        }
        if self.arena.is_some() && shared.lease.is_lost() {
            self.lose(shared);
        }
        if self.arena.is_some() {
            self.begin_planned(shared);
            return Begin::Ready;
        }
        match self.plans.stream() {
            Some(stream) if self.plans.bytes() > 0 => {
                let refused = self.refused;
                self.refused.iter_mut().for_each(|refused| refused.wait = refused.wait.saturating_sub(1));
                Begin::Install { bytes: self.plans.bytes(), stream: stream.clone(), refused }
            }
            _ => Begin::Ready,
        }
    }

    /// Whether it serves, records, or has anything to do so with.
    #[inline]
    pub(super) fn is_at_work(&self) -> bool {
        self.is_recording || !self.plans.is_empty()
    }

    /// Whether it has plans, and no block for them.
    #[inline]
    pub(super) fn lacks_block(&self) -> bool {
        self.arena.is_none() && !self.plans.is_empty()
    }

    fn begin_planned(&mut self, shared: &Shared) {
        (self.fast_stream, self.fast_epoch) = if self.is_recording { (0, 0) } else { (self.stream, self.epoch) };
        self.cursor.begin(shared.lease.live() > 0);
        self.entry.is_planned = true;
        self.entry.served_before = self.cursor.served();
    }

    /// Serves from a block of `bytes` bytes, which was asked for. Hands it back if the plans were forgotten meanwhile, as by an
    /// invalidation.
    pub(super) fn install(
        &mut self,
        door: &'static Door,
        shared: &Shared,
        found: Carved,
        bytes: u64,
    ) -> Option<range::Block> {
        let Carved { block, address: base, calls } = found;
        let Some(stream) = self.plans.stream().filter(|_| self.plans.bytes() == bytes).cloned() else {
            return Some(block);
        };
        self.door = Some(door);
        let positions = self.plans.positions();
        self.has_planned = true;
        (self.base, self.stream, self.epoch) = (base, stream.id(), NEXT_EPOCH.fetch_add(1, Relaxed));
        self.records.join(self.epoch);
        shared.lease.begin(Leased { block, stream: stream.clone(), bytes });
        self.arena = Some(Arena { stream, bytes, positions });
        (self.refused, self.trim_in, self.last_trim_in, self.frees) = (None, 0, 0, None);
        shared.counters.installed(bytes, positions, calls);
        self.calls = shared.counters.device_allocations.get();
        self.begin_planned(shared);
        None
    }

    /// There is no block to be had while so much of the range is in use.
    pub(super) fn refuse(&mut self, live: u64) {
        let last_wait = self.refused.map_or(0, |refused| refused.last_wait);
        let wait = LONGEST_WAIT.min(2 * last_wait + 1);
        self.refused = Some(Refused { live, wait, last_wait: wait });
    }

    /// The plans' stream, if another thread wants its open epoch to end.
    #[inline]
    pub(super) fn wanted_stream(&self) -> Option<Stream> {
        self.arena.as_ref().map(|arena| &arena.stream).filter(|stream| stream.is_wanted()).cloned()
    }

    /// Ends an entry, and learns from it.
    pub(super) fn end(&mut self, shared: &Shared) -> Errands {
        self.publish(shared);
        let served = self.cursor.served() - self.entry.served_before;
        let in_service = self.entry.is_planned && !self.entry.is_dissolved;
        if in_service && served > 0 {
            self.entry.seen.missing += self.cursor.left();
        }
        let Deviations { extra, blocked, larger, .. } = self.entry.seen;
        if self.learner.recorded().is_some() || served + extra + blocked + larger > 0 {
            // What is larger is in order, and fits the next time.
            let beside = extra + blocked;
            let goes_by_plan = beside * BESIDE <= served + larger + beside && (in_service || larger > beside);
            self.learn(shared, goes_by_plan, served);
            if goes_by_plan && self.arena.is_some() && self.is_trim_due() {
                let last = self.frees;
                self.errands.may_trim = self.plans.stream().cloned().map(|stream| Trim { stream, last });
            }
        }
        if self.arena.is_some() && shared.lease.is_lost() {
            self.vacate(shared);
        }
        std::mem::take(&mut self.errands)
    }

    fn learn(&mut self, shared: &Shared, goes_by_plan: bool, served: u64) {
        let seen = self.entry.seen;
        let odd = seen.extra + seen.blocked + seen.reordered;
        if goes_by_plan && odd + seen.larger == 0 {
            self.learner.went_well();
        }
        let start = Instant::now();
        let recorded = self.learn_order(shared);
        let has_deviated = !goes_by_plan || odd * CURIOUS > served || seen.larger > 0;
        self.curiosity.ended(self.entry.is_planned && has_deviated);
        let is_planned = self.entry.is_planned && !self.plans.is_empty();
        let followed = (is_planned && goes_by_plan).then(|| self.plans.active());
        if let Some(plan) = recorded.or(followed) {
            self.plans.follow(plan, self.entry.number);
        }
        // An entry that goes by another plan says nothing of the active one.
        let is_strange = recorded.is_none_or(|plan| plan == self.plans.active());
        if is_planned && (goes_by_plan || is_strange) && self.plans.judge(goes_by_plan) {
            self.forget_active(shared);
        }
        if goes_by_plan && (self.is_oversized() || self.is_wasteful(shared)) {
            // All at once, since the block is as large as the highest of them.
            self.forget_plans(shared);
            self.learn_anew();
        }
        let live = shared.lease.live();
        let is_in_the_way = live > self.plans.bytes() / ESCAPED || live > 0 && seen.blocked * ESCAPED > served;
        let is_outgrown = live > 0 && self.plans.is_outgrown();
        if is_outgrown || is_in_the_way && self.evicting.is_over(self.entry.number) {
            self.vacate(shared);
        }
        if shared.lease.live() == 0 && self.plans.relayout(&mut self.cursor) {
            (self.room, self.peak, self.look_in) = (0, 0, LOOK_IN);
        }
        if self.arena.as_ref().is_some_and(|arena| arena.bytes < self.plans.bytes()) {
            self.vacate(shared);
        }
        self.planning += start.elapsed();
        self.tell(shared);
    }

    /// What the recorded entry teaches: the plan that it went by, or a new one.
    fn learn_order(&mut self, shared: &Shared) -> Option<usize> {
        let log = self.learner.recorded()?;
        if let Some(known) = self.plans.that_holds(log) {
            return Some(known);
        }
        if let Some(wider) = self.plans.absorb(log, &mut self.scratch) {
            self.curiosity.renew();
            return Some(wider);
        }
        let envelope = self.learner.end(&mut self.scratch)?;
        self.curiosity.renew();
        let stream = self.recorded.clone()?;
        if self.plans.stream().is_none_or(|other| other.id() != stream.id()) {
            self.forget_plans(shared);
        }
        Some(self.plans.add(envelope, stream, self.entry.number))
    }

    /// Whether the range is to be looked at: soon after a block was found, and ever more rarely.
    fn is_trim_due(&mut self) -> bool {
        let is_due = self.trim_in == 0;
        self.trim_in = if is_due { self.last_trim_in } else { self.trim_in - 1 };
        is_due
    }

    /// The range was looked at when so many frees had happened: waits longer before the next time, and much longer if the
    /// range has grown since the last time.
    pub(super) fn looked(&mut self, shared: &Shared, frees: u64) {
        let calls = shared.counters.device_allocations.get();
        let factor = if std::mem::replace(&mut self.calls, calls) == calls { 2 } else { 8 };
        self.frees = Some(frees);
        self.last_trim_in = LONGEST_WAIT.min(factor * self.last_trim_in + 1);
        self.trim_in = self.last_trim_in;
    }

    /// Gives the block up, with a place of its own for what is live in it; where it was taken away, nothing is.
    pub(super) fn vacate(&mut self, shared: &Shared) -> bool {
        let Some(Arena { bytes, positions, .. }) = self.arena.take() else { return false };
        self.publish(shared);
        let live_bytes = shared.lease.live();
        let live = self.cursor.evict();
        shared.counters.uninstalled(bytes, positions, live.len() as u64, live_bytes);
        let transit = Transit::begin();
        if let Some(Leased { block, stream, .. }) = shared.lease.end() {
            self.errands.vacated = Some(Vacated { block, stream, epoch: self.epoch, live, transit });
        }
        (self.stream, self.epoch, self.entry.is_dissolved) = (0, 0, true);
        (self.fast_stream, self.fast_epoch) = (0, 0);
        true
    }

    /// The block was taken away. The entry goes on as one without a block, and says nothing of the plan.
    #[cold]
    fn lose(&mut self, shared: &Shared) {
        self.vacate(shared);
        self.entry.is_planned = false;
    }

    /// The memory of what was live in a block that was vacated.
    pub(super) fn evict(&mut self, shared: &Shared, epoch: u64, places: Vec<(u32, range::Block)>) {
        let generation = shared.generation();
        let own = |(position, block)| ((epoch, position), (block, generation));
        self.evicted.extend(places.into_iter().map(own));
    }

    fn forget_active(&mut self, shared: &Shared) {
        self.vacate(shared);
        self.plans.remove_active(&mut self.cursor);
        self.learn_anew();
    }

    /// Learns another order in the place of one that was forgotten, after a while.
    fn learn_anew(&mut self) {
        self.curiosity.renew();
        self.learner.rest(self.forgetting.wait(self.entry.number));
    }

    fn forget_plans(&mut self, shared: &Shared) {
        self.vacate(shared);
        self.errands.streams.extend(self.plans.clear(&mut self.cursor));
        self.errands.records.push(std::mem::take(&mut self.records));
    }

    /// Forgets all plans and all that was recorded.
    pub(super) fn forget(&mut self, shared: &Shared) {
        self.forget_plans(shared);
        self.errands.streams.extend(self.recorded.take());
        self.learner = Learner::default();
        self.is_recording = false;
        self.refused = None;
        (self.evicting, self.forgetting, self.moving) = Default::default();
    }

    pub(super) fn errands(&mut self) -> Errands {
        std::mem::take(&mut self.errands)
    }

    /// Tells everyone what the cursor did so far.
    pub(super) fn publish(&self, shared: &Shared) {
        let (cursor, live_bytes) = (&self.cursor, shared.lease.live());
        let live = if live_bytes > 0 { cursor.live() } else { 0 };
        shared.counters.planned(cursor.served(), live, live_bytes);
    }

    /// Tells everyone of the plans, and of the entry that ends.
    fn tell(&mut self, shared: &Shared) {
        let known = &shared.counters.plan;
        self.plans.tell(known);
        known.planning.set(self.planning.as_nanos() as u64);
        known.has_stopped.set(u64::from(self.learner.has_stopped()));
        known.deviations.add(self.entry.seen);
    }
}
