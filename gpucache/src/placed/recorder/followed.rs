//! An entry that goes by a known order: each use makes the moves that are due before it.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use super::learned::Learned;
use super::{Name, Seen};
use crate::base::error::Result;
use crate::placed::yard::{Rests, Yard};
use crate::placement::{Link, Move, Order, What, schedule};

/// What links a GPU of today to its host, in each direction: 55 GB/s were measured on an H100 behind PCIe 5, a tenth less is planned
/// with, as both directions at once share the host's memory.
const LINK: Link = Link { bytes_per_second: 50e9, latency: 20e-6 };
/// The part of the room that is left alone, for what lies apart; and as much again after each entry in which arrays had to leave
/// that no move knew of.
const SPARE_SHARE: u64 = 32;
/// How often that is done at most: a quarter of the room is spared then.
const MOST_ATTEMPTS: u32 = 8;

/// An entry that took less than this part of what was thought has its moves timed anew: a schedule costs as much as a hundred uses.
const MUCH_FASTER: f64 = 0.95;
/// The part of an entry that took as long as it did which is thought to be work, and not waiting for copies.
const FASTER: f64 = 0.9;

/// A use that is expected.
struct Expected {
    seen: Seen,
    array: u32,
}

/// An order, and the moves by it.
pub(super) struct Followed {
    uses: Vec<Expected>,
    arrays: Vec<(Name, Weak<dyn Rests>, u64)>,
    moves: Vec<Move>,
    /// The next use.
    place: usize,
    /// The next move.
    next: usize,
    /// Where that is due; beyond all uses if there is none.
    due: usize,
    yard: Option<Arc<Yard>>,
    /// How often an array had left when this was made.
    evictions: u64,
    order: Order,
    room: u64,
    attempts: u32,
    /// Entries that went by these moves; the first one finds arrays where others left them.
    entries: u32,
    /// How often an array had to come when it was asked for, before this entry.
    demanded: u64,
}

impl Followed {
    /// What follows from two entries that were alike. Where everything stayed on the device nothing is to be moved.
    pub(super) fn new(learned: &Learned) -> Followed {
        let order = learned.order(learned.work(LINK.bytes_per_second));
        let uses = learned.uses.iter().zip(&order.uses).map(|(&seen, each)| Expected { seen, array: each.array });
        let yard = learned.yard.clone();
        let evictions = yard.as_ref().map_or(0, |yard| yard.evictions());
        let mut followed = Followed {
            uses: uses.collect(),
            arrays: learned.arrays.clone(),
            moves: Vec::new(),
            place: 0,
            next: 0,
            due: usize::MAX,
            yard,
            evictions,
            order,
            room: learned.room,
            attempts: 0,
            entries: 0,
            demanded: 0,
        };
        if learned.is_short(SPARE_SHARE) {
            followed.schedule_with_less();
        }
        followed
    }

    /// Computes the moves, with more of the room spared.
    fn schedule_with_less(&mut self) {
        self.attempts += 1;
        self.schedule();
    }

    /// Computes the moves.
    fn schedule(&mut self) {
        let spared = self.room / SPARE_SHARE * u64::from(self.attempts);
        let found = schedule(&self.order, self.room - spared, LINK);
        // Where less room does not suffice, the moves stay what they were.
        if let Some(schedule) = found {
            self.moves = schedule.moves;
        }
        self.entries = 0;
    }

    fn demanded(&self) -> u64 {
        self.yard.as_ref().map_or(0, |yard| yard.moves.demanded.load(Relaxed))
    }

    /// An entry begins. Whether it is to be followed: not where arrays had to leave meanwhile, of which no move knows.
    pub(super) fn begin(&mut self) -> bool {
        (self.place, self.next) = (0, 0);
        (self.demanded, self.entries) = (self.demanded(), self.entries.saturating_add(1));
        self.find_due();
        let evictions = self.yard.as_ref().map_or(0, |yard| yard.evictions());
        !self.moves.is_empty() || evictions == self.evictions
    }

    /// A use is about to be made, behind the moves that are due before it. Whether it is the expected one; nothing is done otherwise.
    pub(super) fn passes(&mut self, seen: Seen) -> bool {
        let passes = self.expects(seen);
        if passes {
            if self.due == self.place {
                self.move_due();
            }
            self.place += 1;
        }
        passes
    }

    fn expects(&self, seen: Seen) -> bool {
        self.uses.get(self.place).is_some_and(|expected| expected.seen == seen)
    }

    /// The place of the next use, and all from there on before which no move is due.
    pub(super) fn ahead(&self) -> (usize, impl Iterator<Item = Seen>) {
        let until = self.uses.len().min(self.due);
        let uses = self.uses.get(self.place..until).unwrap_or_default();
        (self.place, uses.iter().map(|expected| expected.seen))
    }

    /// The uses before a place were made.
    pub(super) fn go_on_to(&mut self, place: usize) {
        self.place = place;
    }

    /// An array was made, which is another one in each entry: if it is expected, the moves are its own from now on.
    pub(super) fn bear(&mut self, seen: Seen, slot: &Arc<impl Rests + 'static>) {
        if self.expects(seen) {
            let known: Arc<dyn Rests> = slot.clone();
            self.arrays[self.uses[self.place].array as usize].1 = Arc::downgrade(&known);
        }
    }

    #[cold]
    fn move_due(&mut self) {
        while let Some(each) = self.moves.get(self.next)
            && each.before as usize <= self.place
        {
            self.next += 1;
            let (_, slot, _) = &self.arrays[each.array as usize];
            if let Some(slot) = slot.upgrade() {
                // What fails is made up for when the array is asked for.
                let _ = carry_out(&*slot, each.what);
            }
        }
        self.find_due();
    }

    fn find_due(&mut self) {
        self.due = self.moves.get(self.next).map_or(usize::MAX, |each| each.before as usize);
    }

    /// The entry has ended after so many seconds. Whether it went as expected to its end.
    pub(super) fn end(&mut self, seconds: f64) -> bool {
        let is_whole = self.place == self.uses.len();
        if is_whole {
            self.move_due();
            if self.entries > 1 && !self.moves.is_empty() {
                self.learn(seconds);
            }
        }
        is_whole
    }

    /// What an entry tells that went by these moves from its begin: less room has to do where arrays had to be asked for, and the work
    /// takes no longer than the entry did. The first entries waited for copies, which made it seem to.
    fn learn(&mut self, seconds: f64) {
        if self.demanded() > self.demanded {
            if self.attempts < MOST_ATTEMPTS {
                self.schedule_with_less();
            }
        } else if seconds < self.order.length * MUCH_FASTER {
            let faster = seconds * FASTER / self.order.length;
            self.order.at.iter_mut().for_each(|at| *at *= faster);
            self.order.length *= faster;
            self.schedule();
        }
    }

    /// The next use is about to be made, and needs room.
    pub(super) fn make_way(&mut self) {
        if self.due == self.place {
            self.move_due();
        }
    }

    /// What was used so far.
    pub(super) fn so_far(&self) -> Learned {
        Learned::of(self.uses[..self.place].iter().map(|expected| expected.seen).collect(), self.arrays.clone())
    }
}

fn carry_out(slot: &dyn Rests, what: What) -> Result<()> {
    match what {
        What::WriteBack => slot.write_back(),
        What::Evict => slot.evict().map(|_| ()),
        What::Prefetch => {
            if slot.bring()? {
                slot.yard().moves.prefetched.fetch_add(1, Relaxed);
            }
            Ok(())
        }
    }
}
