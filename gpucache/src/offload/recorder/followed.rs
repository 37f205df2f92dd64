//! An entry that follows a known order.
//!
//! Each fetch makes the moves that the schedule places before this use: copies of arrays that later uses need, and write-backs of arrays that
//! leave. A copy starts about two of the longest copies before the last moment that still hides it, unless the entry would then take longer.

use std::sync::{Arc, Weak};
use std::time::Instant;

use super::change::Change;
use super::learned::Learned;
use super::misses::{Misses, Remedy};
use super::pacer::Pacer;
use super::timetable::{LEAST_FREE, LINK, Timetable};
use super::{Account, BORN, Due, Name, Seen};
use crate::offload::host_pool::{HostPool, Rests};
use crate::offload::moves::{Moves, OffloadStats};
use crate::offload::sampling::{Sampling, Timing};
use gpucache_plan::offload::Access;

/// An order, and the moves by it.
pub(super) struct Followed {
    uses: Vec<Seen>,
    arrays: Vec<(Name, Weak<dyn Rests>, u64)>,
    table: Timetable,
    /// The room that there was when this was made.
    room: u64,
    /// Times the entry, to find better moves.
    pacer: Option<Pacer>,
    /// The next use.
    place: usize,
    /// The next move.
    next: usize,
    /// Where that, or a mark of the pacer's, is due; beyond all uses if there is none.
    due: usize,
    /// An order keeps no device alive.
    pool: Weak<HostPool>,
    /// The pool while the recorder is borrowed. It is dropped afterwards, since that may call code of the program.
    held: Option<Arc<HostPool>>,
    /// The counts of the device.
    moves: Arc<Moves>,
    /// The counts of the scope.
    account: Account,
    sampling: Sampling,
    misses: Misses,
    /// Where the memory of the schedule's offsets begins, once it is contiguous.
    base: Option<u64>,
    /// How often an array had left when this was made.
    evictions: u64,
    /// Entries that went by these moves; the first one finds arrays where others left them.
    entries: u32,
    /// Whether the room or sizes have changed since.
    change: Change,
    /// Whether the order is to be learned again.
    pub(super) is_outdated: bool,
    /// Moves that are due, to be made once the recorder is not borrowed.
    due_moves: Due,
}

impl Followed {
    /// The moves that follow from two equal entries. If everything stayed on the device, there are none. The order was learned again
    /// `relearned` times.
    pub(super) fn new(learned: &Learned, (pool, account): (&Arc<HostPool>, Account), relearned: u32) -> Followed {
        let order = learned.order(learned.work(LINK.bytes_per_second));
        let evictions = pool.evictions();
        let mut followed = Followed {
            uses: learned.uses.clone(),
            arrays: learned.arrays.clone(),
            table: Timetable::new(order, learned.room_for_moves(), learned.places()),
            room: learned.room,
            pacer: None,
            place: 0,
            next: 0,
            due: usize::MAX,
            pool: Arc::downgrade(pool),
            held: None,
            moves: pool.moves.clone(),
            account,
            sampling: Sampling::default(),
            misses: Misses::default(),
            base: None,
            evictions,
            entries: 0,
            change: Change::new((learned.room, learned.made()), relearned),
            is_outdated: false,
            due_moves: Vec::new(),
        };
        if learned.is_short(LEAST_FREE) {
            followed.lay_out(Timetable::begin);
            followed.restart();
        }
        followed
    }

    /// Computes moves, for a link as it was measured.
    fn lay_out<R>(&mut self, compute: impl FnOnce(&mut Timetable, Option<f64>) -> R) -> R {
        let begun = Instant::now();
        let measured = self.moves.speed().bytes_per_second();
        let answer = compute(&mut self.table, measured);
        let took = begun.elapsed();
        self.count(|stats| stats.layout_time = stats.layout_time.saturating_add(took));
        answer
    }

    /// Other moves are made from now on, which are to be timed. Arrays come to other places.
    fn restart(&mut self) {
        self.entries = 0;
        self.sampling.restart();
        if self.table.offsets().is_none() || self.misses.tidy() {
            self.base = None;
        }
    }

    /// Takes the results of the pacer, once it has any.
    fn take_pace(&mut self) {
        let Some(pacer) = self.pacer.take_if(|pacer| pacer.is_void() || pacer.is_over()) else { return };
        // A device without marks tells no time.
        let Some((places, seconds)) = pacer.read().filter(|_| !pacer.is_void()) else { return };
        if self.lay_out(|table, measured| table.pace(places, &seconds, measured)) {
            self.restart();
        }
    }

    /// Counts something for the device and the scope.
    pub(super) fn count(&self, count: impl Fn(&mut OffloadStats)) {
        self.account.as_deref().into_iter().chain([&*self.moves]).for_each(|moves| moves.count(&count));
    }

    /// The pool, unless the program dropped all its arrays.
    fn hold(&mut self) -> Option<&HostPool> {
        if self.held.is_none() {
            self.held = self.pool.upgrade();
        }
        self.held.as_deref()
    }

    /// The pool that was held, to be dropped once the recorder is not borrowed.
    pub(super) fn take_held(&mut self) -> Option<Arc<HostPool>> {
        self.held.take()
    }

    fn pages_gone(&mut self) -> u64 {
        self.hold().map_or(0, HostPool::pages_gone)
    }

    /// A fetch of the thread had to bring an array of this pool.
    pub(super) fn note_demanded(&mut self, pool: &HostPool) {
        if std::ptr::eq(self.pool.as_ptr(), pool) {
            self.misses.note();
        }
    }

    /// The purpose for which moves of the current entry are timed, if they are.
    pub(super) fn timing(&self) -> Timing {
        self.sampling.sample.clone()
    }

    /// Begins an entry. Returns whether to follow it: not if arrays had to leave meanwhile without a move, and not if the moves are for
    /// another room or for other sizes.
    pub(super) fn begin(&mut self, account: Account) -> bool {
        (self.place, self.next) = (0, 0);
        // A cache whose name is forgotten serves another one.
        self.account = account;
        let Some(pool) = self.hold() else { return false };
        pool.settle();
        self.take_pace();
        self.sampling.begin();
        if let Some(sample) = self.sampling.paced().filter(|_| self.pacer.is_none() && !self.table.moves().is_empty()) {
            self.pacer = Some(Pacer::new(self.uses.len() as u32, sample));
        }
        let pages = self.pages_gone();
        self.misses.begin(pages);
        self.entries = self.entries.saturating_add(1);
        self.find_due();
        if self.table.moves().is_empty() {
            return self.needs_no_moves();
        }
        let known = self.room;
        let room = self.hold().map_or(known, HostPool::room);
        self.is_outdated = self.change.begin(room);
        !self.is_outdated
    }

    /// Whether no array is known to have to leave: none did since, or everything was found to fit and there is as much room as then. Then
    /// arrays that leave do so for others, or since they rest on the host.
    fn needs_no_moves(&mut self) -> bool {
        let (evictions, least) = (self.evictions, self.room);
        let has_room = |pool: &HostPool| pool.room() >= least;
        self.moves.read().evictions == evictions || self.table.fits() && self.hold().is_some_and(has_room)
    }

    /// Notes a use, after the moves that are due before it. Returns whether it is the expected one; otherwise nothing changes.
    pub(super) fn passes(&mut self, seen: Seen) -> bool {
        let passes = self.expects(seen);
        if passes {
            if self.due == self.place {
                self.pass_due();
            }
            self.place += 1;
        }
        passes
    }

    fn expects(&self, seen: Seen) -> bool {
        self.uses.get(self.place) == Some(&seen)
    }

    /// The place of the next use, and all from there on before which no move is due.
    pub(super) fn ahead(&self) -> (usize, impl Iterator<Item = Seen>) {
        let until = self.uses.len().min(self.due);
        let uses = self.uses.get(self.place..until).unwrap_or_default();
        (self.place, uses.iter().copied())
    }

    /// The uses before a place were made.
    pub(super) fn go_on_to(&mut self, place: usize) {
        self.place = place;
    }

    /// Notes a new array, which is a different one in each entry. If it is expected, the moves apply to it from now on.
    pub(super) fn bear(&mut self, seen: Seen, slot: &Arc<impl Rests + 'static>) {
        if self.expects(seen) {
            let known: Arc<dyn Rests> = slot.clone();
            let bytes = slot.tag().bytes;
            self.arrays[self.table.array(self.place)] = (seen.name, Arc::downgrade(&known), bytes);
            self.change.note_made(bytes);
        }
    }

    /// Makes the mark that is due here, and notes the due moves.
    #[cold]
    fn pass_due(&mut self) {
        if self.pacer.is_some()
            && self.hold().is_some()
            && let (Some(pacer), Some(pool)) = (&mut self.pacer, &self.held)
        {
            pacer.pass(self.place, &pool.stream);
        }
        while let Some(each) = self.table.moves().get(self.next)
            && each.before as usize <= self.place
        {
            self.next += 1;
            let (_, slot, _) = &self.arrays[each.array as usize];
            self.due_moves.extend(slot.upgrade().map(|slot| (slot, *each)));
        }
        self.find_due();
    }

    fn find_due(&mut self) {
        let moves = self.table.moves().get(self.next).map_or(usize::MAX, |each| each.before as usize);
        self.due = self.pacer.as_ref().map_or(moves, |pacer| pacer.due().min(moves));
    }

    /// The moves that are due, which are for the caller to make.
    pub(super) fn take_due(&mut self) -> Due {
        std::mem::take(&mut self.due_moves)
    }

    /// The entry has ended: the moves behind its last use are due, if it went as expected to its end.
    pub(super) fn pass_end(&mut self) {
        if self.is_whole() {
            self.pass_due();
        }
    }

    fn is_whole(&self) -> bool {
        self.place == self.uses.len()
    }

    /// The entry has ended, and its last moves are made. Whether it went as expected to its end.
    pub(super) fn end(&mut self) -> bool {
        let is_whole = self.is_whole();
        if is_whole && self.entries > 1 && !self.table.moves().is_empty() {
            self.make_do();
        }
        is_whole
    }

    /// Has arrays leave once, or plans with less room, if fetches had to bring arrays in an entry that followed these moves from its beginning.
    fn make_do(&mut self) {
        let pages = self.pages_gone();
        match self.misses.end(pages) {
            Remedy::Nothing => {}
            Remedy::Tidy => self.restart(),
            Remedy::LessRoom => self.plan_with_less(),
        }
    }

    /// Plans with less room, or else has arrays leave once more.
    fn plan_with_less(&mut self) {
        let has_other_moves = self.table.may_spare_more() && self.lay_out(Timetable::spare_more);
        if has_other_moves || self.misses.tidy() {
            self.misses.note_other_moves();
            self.restart();
        }
    }

    /// The host memory pool whose arrays are to leave now, and the bytes that are to be contiguous then.
    pub(super) fn take_apart(&mut self) -> Option<(Arc<HostPool>, u64)> {
        // The pool is not dropped here, since the recorder is borrowed.
        let pool = if self.misses.take_tidy() { self.pool.upgrade()? } else { return None };
        Some((pool, self.table.offsets().map_or(0, |offsets| offsets.height())))
    }

    /// Notes that all arrays left since the entry began, the address of contiguous memory, and its bytes. If they are too few for the
    /// schedule, another one follows from here on.
    pub(super) fn note_tidied(&mut self, contiguous: Option<(u64, u64)>) {
        let pages = self.pages_gone();
        self.misses.begin(pages);
        self.base = None;
        let Some((address, bytes)) = contiguous else { return };
        if self.lay_out(|table, measured| table.fit(bytes, measured)) {
            self.base = Some(address);
        }
        let moves = self.table.moves();
        self.next = moves.partition_point(|each| (each.before as usize) < self.place);
        self.find_due();
    }

    /// The address of an array at a place, if the schedule has offsets.
    pub(super) fn address(&self, array: u32, place: u32) -> Option<u64> {
        self.base?.checked_add(self.table.offsets()?.of(array, place)?)
    }

    /// The address of an array in the use that was noted last.
    pub(super) fn address_now(&self, name: Name) -> Option<u64> {
        let place = self.place.checked_sub(1)?;
        let is_it = self.uses.get(place).is_some_and(|seen| seen.name == name);
        is_it.then(|| self.address(self.table.array(place) as u32, place as u32))?
    }

    /// The address of the array that the next use makes.
    pub(super) fn address_of_next(&self) -> Option<u64> {
        let seen = self.uses.get(self.place)?;
        let is_born = seen.access == Access::Fill && seen.name & BORN != 0;
        is_born.then(|| self.address(self.table.array(self.place) as u32, self.place as u32))?
    }

    /// The next use is about to be made, and needs room.
    pub(super) fn make_way(&mut self) {
        if self.due == self.place {
            self.pass_due();
        }
    }

    /// The uses so far.
    pub(super) fn so_far(&self) -> Learned {
        Learned::of(self.uses[..self.place].to_vec(), self.arrays.clone())
    }
}
