//! How large a ring becomes, and when it is given up.

use super::Carry;
use super::comparison::{Reading, Verdict};
use super::worth::{LOOK_IN, TRIALS, is_fat, most, room};
use crate::base::amounts::total;
use crate::device::{ALIGNMENT, Stream};
use crate::home::{Counter, Shared};
use crate::planner::Planner;
use crate::planner::backoff::Pace;
use crate::planner::effects::{ArenaMemory, Effects, Vacated};
use crate::pressure::transit::Transit;
use crate::range::Obtained;
use crate::record::{ArenaId, DropPath};

/// The additional memory that a ring needs.
#[derive(Clone, Debug)]
pub(crate) struct RingGrowth {
    pub(crate) stream: Stream,
    /// The bytes to add at the end of the last block.
    pub(crate) more: u64,
    /// The fewest bytes that help, where there is no memory for `more`.
    pub(crate) least: u64,
    /// The bytes of a new block that has a room of its own; `None` if that would be too much.
    pub(crate) bytes: Option<u64>,
    /// The bytes of a block that makes the ring as large as it will become, as far as that is known.
    pub(crate) whole: u64,
    /// The bytes of the ring now.
    pub(crate) held: u64,
    /// The addresses to keep free for a new block.
    pub(crate) room: u64,
}

/// A ring grows by at least this share of itself, so that a ring which grows in each entry seldom calls the device. With ten
/// prompts of 512 tokens, of random length and batch, one in 36 entries calls the device; with 1/40 it is one in 27. On average,
/// half of the step is idle.
const STEP: u64 = 20;
/// A step is at most this long: four pages of a GPU. Mapping them takes as long as some tokens of a text whose ring is that large.
const LARGEST_STEP: u64 = 4 << 20;
/// The room of a ring is this many times the size of its first block, but at least [`LEAST_ROOM`]. Addresses cost nothing.
const ROOM: u64 = 256;
/// 1 GiB, since rings of small arrays grow as well.
const LEAST_ROOM: u64 = 1 << 30;
/// A ring grows only after this many entries have gone by the plan. Until then, idle blocks of the lists serve the requests, so
/// arrays that are kept only in the first entries need no ring.
pub(super) const ENTRIES_BEFORE_RING: u32 = 4;
/// A ring that is half idle is given up, but not to save a page.
const LITTLE: u64 = 2 << 20;
/// The first block of a ring whose final size is unknown.
const SMALLEST: u64 = 16 << 10;
/// While the ring lies within one page, each further block is this many times as large as the ring. So four blocks fill half of a
/// page of 2 MiB.
const FOLD: u64 = 3;
/// The free end of the ring goes back if it is more than this share of the bytes that the turns need.
const FREE_SHARE: u64 = 64;
/// A ring with more blocks than this grows no more, since each block wastes up to an array at its end.
const MOST_REGIONS: usize = 8;
/// Pages that the range keeps for old arrays count like bytes of the ring, which took other pages, if they are this share of the scope's
/// bytes and at least eight pages of a GPU. Without this, 7 of 10,000 random programs reserved 1.29 to 1.39 × what the range alone needs.
const SPARE: u64 = 8;
const LEAST_SPARE: u64 = 16 << 20;

impl Reading {
    fn of(stream: &Stream) -> Reading {
        let meter = stream.memory().meter();
        Reading { bytes: meter.held(), calls: total(meter.calls()) }
    }
}

impl Planner {
    /// The growth that the ring needs for a request of `wanted` bytes that it could not serve. `None` if the ring may not grow.
    pub(crate) fn wanted_growth(&mut self, shared: &Shared, wanted: u64) -> Option<RingGrowth> {
        let wanted = wanted.checked_next_multiple_of(ALIGNMENT)?;
        let stream = self.growing_stream(shared)?;
        let (in_use, all) = (self.in_use(shared, wanted), self.held(shared));
        let left = room(in_use).saturating_sub(all);
        let left_at_most = most(in_use, self.plans.grows()).saturating_sub(all);
        let lacks = self.carry.ring.lacks(wanted);
        if lacks > left && (lacks > wanted / 2 || lacks > left_at_most) {
            return None;
        }
        Some(self.growth(stream, wanted, lacks, left))
    }

    /// At the end of a turn that lacks memory for the next one: the growth for it, before a request of `wanted` bytes. `Some(None)` if the ring
    /// may not grow by as much. `None` at any other time.
    pub(crate) fn growth_for_turn(&mut self, shared: &Shared, wanted: u64) -> Option<Option<RingGrowth>> {
        let lacks = self.carry.ring.take_lack_of_turn()?;
        let wanted = wanted.checked_next_multiple_of(ALIGNMENT)?;
        let Some(stream) = self.growing_stream(shared) else { return Some(None) };
        let left = room(self.in_use(shared, wanted)).saturating_sub(self.held(shared));
        Some((lacks <= left).then(|| self.growth(stream, wanted, lacks, left)))
    }

    /// The stream of the ring, if the ring may become larger in this entry.
    fn growing_stream(&mut self, shared: &Shared) -> Option<Stream> {
        let stream = self.plans.stream()?.clone();
        self.may_grow(shared, &stream).then_some(stream)
    }

    /// The growth by `lacks` bytes or more, for a request of `wanted` bytes. The ring may have `left` bytes more.
    fn growth(&self, stream: Stream, wanted: u64, lacks: u64, left: u64) -> RingGrowth {
        let Carry { ring, plan, .. } = &self.carry;
        let held = ring.bytes();
        let step = (held / STEP).min(LARGEST_STEP).min(left);
        let least = lacks.next_multiple_of(ALIGNMENT);
        let more = least.max(step.next_multiple_of(ALIGNMENT));
        let own = wanted.max(step).next_multiple_of(ALIGNMENT);
        let room = plan.target.max(plan.largest.max(wanted).saturating_mul(ROOM)).max(LEAST_ROOM);
        let whole = match plan.target.saturating_sub(held) {
            0 => own.max(held.saturating_mul(FOLD)).max(SMALLEST),
            lacking => own.max(lacking),
        };
        let bytes = (wanted <= left).then_some(own);
        RingGrowth { stream, more, least, bytes, whole, held, room }
    }

    /// Whether the ring may become larger in this entry. Also notes the result of a comparison.
    fn may_grow(&mut self, shared: &Shared, stream: &Stream) -> bool {
        let Carry { ring, waits, trials, comparison, .. } = &mut self.carry;
        let is_over = waits.is_over(self.entry.number) && trials.is_over(self.entry.number);
        if ring.regions() > MOST_REGIONS || !is_over {
            return false;
        }
        let verdict = comparison.verdict(self.entry.number, Reading::of(stream));
        match verdict {
            Verdict::Range => trials.tried(self.entry.number, TRIALS),
            // The arrays that are alive now leave gaps in the range as they are dropped.
            Verdict::Ring => self.trimming.note_spare(shared.counters.times_taken()),
            Verdict::None | Verdict::Open => (),
        }
        matches!(verdict, Verdict::None | Verdict::Ring)
    }

    /// Goes on without the ring for some entries if the scope has far more memory than was ever in use: the range may need less.
    fn compare_ring(&mut self, shared: &Shared) -> bool {
        let entry = self.entry.number;
        let Some(stream) = self.plans.stream() else { return false };
        self.trimming.end_with_ring(entry, shared.counters.times_taken());
        let held = self.held(shared);
        let held = held.saturating_add(counted(self.trimming.spare(), held, || Reading::of(stream)));
        let is_fat = is_fat(held, self.in_use(shared, 0));
        if is_fat && self.carry.comparison.has_outgrown(held) {
            self.give_ring_up(shared);
            return true;
        }
        if !self.carry.comparison.is_due(entry, is_fat) {
            return false;
        }
        self.carry.comparison.begin(entry, Reading::of(stream));
        self.vacate_ring(shared);
        true
    }

    /// Serves a request of `bytes` bytes, for which the ring had no room, beside the ring. If the scope would then have far too
    /// much memory, the ring is given up. The range can then serve the request from the ring's idle memory.
    pub(crate) fn carry_aside(&mut self, shared: &Shared, bytes: u64) {
        self.carry.ring.pass();
        self.entry.aside += 1;
        if !self.carry.is_there() {
            return;
        }
        let is_full = self.carry.ring.bytes() >= self.carry.plan.target;
        let limit = most(self.in_use(shared, bytes), self.plans.grows());
        if is_full && self.held(shared).saturating_add(bytes) > limit {
            self.give_ring_up(shared);
        }
    }

    /// Gives the ring up, since the scope needs less memory without it.
    fn give_ring_up(&mut self, shared: &Shared) {
        self.carry.trials.tried(self.entry.number, TRIALS);
        self.vacate_ring(shared);
    }

    /// The scope's peak in use, or its current use and `more` bytes, if that is more.
    fn in_use(&self, shared: &Shared, more: u64) -> u64 {
        shared.in_use().saturating_add(more).max(shared.counters.get(Counter::Demand))
    }

    /// The bytes of arena and ring, and those in use beside them.
    fn held(&self, shared: &Shared) -> u64 {
        let arena = self.arena.as_ref().map_or(0, |arena| arena.bytes);
        total([self.carry.ring.bytes(), arena, shared.counters.get(Counter::BusyBytes)])
    }

    /// The bytes of a ring in which nothing is alive.
    pub(crate) fn idle_ring(&self, shared: &Shared) -> u64 {
        if shared.ring.live() == 0 { self.carry.ring.bytes() } else { 0 }
    }

    /// Whether the scope has a ring, or had one until it was taken away.
    pub(crate) fn has_ring(&self) -> bool {
        self.carry.is_there()
    }

    /// Notes that no more memory was found.
    pub(crate) fn refuse_growth(&mut self) {
        self.carry.waits.tried(self.entry.number, Pace::STEEP);
    }

    /// Notes that the ring's last block got `bytes` more bytes. `taken` says how much came from the device.
    pub(crate) fn ring_grew(&mut self, shared: &Shared, bytes: u64, taken: Obtained) {
        let last = self.carry.ring.regions().saturating_sub(1);
        self.carry.ring.lengthen(last, bytes);
        shared.counters.ring_grew(bytes, taken);
    }

    /// Adds a block to the ring. The first block begins the ring.
    pub(crate) fn add_to_ring(&mut self, shared: &Shared, address: u64, bytes: u64, taken: Obtained) {
        if self.carry.id.is_none() {
            let id = ArenaId::next();
            self.carry.id = Some(id);
            self.carry.records.join(id);
            self.carry.begin(self.learning.notes);
            self.trimming.note_ring(self.entry.number, shared.counters.times_taken());
        }
        self.carry.ring.add_region(address, bytes);
        shared.counters.ring_grew(bytes, taken);
    }

    /// Gives the ring up. Arrays that are alive in it keep their own memory.
    pub(crate) fn vacate_ring(&mut self, shared: &Shared) {
        let Some(arena) = self.carry.id.take() else { return };
        self.publish(shared);
        let (bytes, live_bytes) = (self.carry.ring.bytes(), shared.ring.live());
        let live = self.carry.ring.evict();
        let lent = shared.lent.bytes().saturating_sub(shared.lease.live());
        shared.counters.ring_given_up(bytes, (live.len() as u64, live_bytes), lent);
        let transit = Transit::begin();
        if let Some(leased) = shared.ring.end() {
            self.effects.vacated.push(Vacated {
                memory: ArenaMemory::OfRange(leased),
                arena,
                live,
                is_needed: true,
                transit,
            });
        }
        self.carry.path = DropPath::NOBODYS;
        (self.carry.lately, self.carry.lately_entries) = (0, 0);
        self.look_again();
        self.trimming.note_spare(shared.counters.times_taken());
    }

    /// Gives the ring up because its memory is needed elsewhere, or because it serves too little. The next ring has to wait. So a
    /// scope that loses its ring in each entry does not make a new one in each entry.
    pub(crate) fn lose_ring(&mut self, shared: &Shared) {
        if self.carry.is_there() {
            self.refuse_growth();
            self.vacate_ring(shared);
        }
    }

    /// Whether the ring is worth keeping, with `live` bytes in use at the end of this entry. Looks back over some entries. Also
    /// notes these bytes.
    fn needs_ring(&mut self, live: u64) -> bool {
        let Carry { lately, lately_entries, ring, plan, .. } = &mut self.carry;
        (*lately, *lately_entries) = ((*lately).max(live), *lately_entries + 1);
        let is_due = *lately_entries >= LOOK_IN;
        let is_used = !is_due || *lately + plan.largest + LITTLE >= ring.bytes() / 2;
        if is_due {
            (*lately, *lately_entries) = (0, 0);
        }
        is_used && (live > 0 || self.plans.carry().largest > 0)
    }

    /// Begins an entry. Without an arena, the ring serves nothing in it, and its idle memory would be missing elsewhere. So the
    /// ring is given up.
    pub(crate) fn leave_ring(&mut self, shared: &Shared) -> Effects {
        if self.lacks_arena() {
            self.lose_ring(shared);
        }
        self.take_effects()
    }

    /// Gives the ring up if more of it is idle than in use, since its memory is needed elsewhere.
    pub(crate) fn make_room(&mut self, shared: &Shared) {
        if self.carry.idle_bytes(shared) > shared.ring.live() {
            self.lose_ring(shared);
        }
    }

    /// Gives the ring up in a shortage, or else as [`make_room`](Planner::make_room) does.
    pub(in crate::planner) fn release_ring(&mut self, shared: &Shared, is_short: bool) {
        match is_short {
            true => self.lose_ring(shared),
            false => self.make_room(shared),
        }
    }

    /// At the end of an entry: gives the ring up if it was taken away or nothing is carried any more. Otherwise gives back the free
    /// end that the ring does not need.
    #[inline]
    pub(in crate::planner) fn tidy_ring(&mut self, shared: &Shared) {
        if self.carry.is_there() {
            self.tidy_ring_in_use(shared);
        }
    }

    fn tidy_ring_in_use(&mut self, shared: &Shared) {
        if shared.ring.is_lost() || !self.needs_ring(shared.ring.live()) {
            return self.lose_ring(shared);
        }
        if !self.compare_ring(shared) {
            self.shorten_ring(shared);
        }
    }

    /// Gives back the free end of the ring that its turns do not need.
    pub(super) fn shorten_ring(&mut self, shared: &Shared) {
        let (ring, target) = (&mut self.carry.ring, self.carry.plan.target);
        let bytes = ring.bytes();
        if target > 0
            && bytes > target + target / FREE_SHARE
            && let Some(left) = ring.shorten(target)
        {
            self.effects.shorten = Some(left);
            shared.counters.ring_shrank(bytes - left);
        }
    }
}

/// The bytes of `spare` that count like bytes of the ring, if the scope holds `held` bytes. A little is spare in each range.
fn counted(spare: u64, held: u64, now: impl FnOnce() -> Reading) -> u64 {
    if spare < LEAST_SPARE {
        return 0;
    }
    let spare = spare.min(now().bytes.saturating_sub(held));
    if spare < (held / SPARE).max(LEAST_SPARE) { 0 } else { spare }
}
