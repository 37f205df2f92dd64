//! The facts for a diagnosis: how often something lately kept a scope from being planned, how many bytes it concerned, and where.
//!
//! Facts are noted only on paths that no plan serves, so a warm scope pays nothing for them. Each kind is counted over the current
//! window of [`Facts::WINDOW`] entries and the window before, with a few samples. So old facts are forgotten, and the memory for facts is
//! bounded.

use std::panic::Location;

use super::growth::{AliveOverTime, FIRST_GROWTH};
use crate::base::amounts::{Combine as _, SUM, combine};
use crate::record::Request;

/// A reason why a scope is not planned, or why it takes more memory than necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// Entries that no plan served, or that a plan did not serve to their end.
    Unplanned,
    /// Entries that were recorded. The events and bytes are those of their allocations.
    Recorded,
    /// Allocations of sizes that the plan did not expect, in entries of the plan's length.
    OtherSize,
    /// Allocations that the plan did not expect, and expected allocations that did not come.
    OtherOrder,
    /// Allocations whose place an array had taken that outlived its entry.
    Blocked,
    /// Allocations of arrays that outlive their entry in no order. No plan has a place for them.
    Aside,
    /// The first allocation of a recorded entry that differs from the recorded entry before, if both entries have the same length.
    UnlikeSize,
    /// As [`UnlikeSize`](Fact::UnlikeSize), for two entries of different lengths, or with the same sizes in another order.
    UnlikeOrder,
    /// Recorded entries with the same allocations as the entry before, but other drops.
    UnlikeDrops,
    /// Allocations of recorded entries on another stream than the first allocation's.
    OtherStream,
    /// Recorded entries with the same allocations as the entry before, of which other arrays outlived the entry: those arrays.
    UnlikeEscapes,
    /// Allocations of entries for which a plan was there, but on another stream, so that it served none of them.
    Unserved,
    /// Drops inside the scope of blocks that other streams may still use.
    UsedElsewhere,
    /// Allocations of entries with `recycle = "off"`.
    Unkept,
    /// Entries with more allocations than a recording holds.
    TooLong,
    /// Entries whose allocations together exceed the most that a plan can have.
    TooLarge,
    /// Blocks for plans that the limit of the scope did not allow.
    BeyondLimit,
    /// Blocks for plans for which the device's range had no free stretch of addresses.
    NoStretch,
    /// Allocations for which the scope's limit made idle memory go back first.
    Squeezed,
    /// Allocations for which the device was short of memory, with or without a limit.
    Short,
    /// The part of [`Short`](Fact::Short) that was caused by a limit of the device or the process.
    ShortByLimit,
    /// Times when the ring had to grow, for arrays that outlive their entry.
    RingGrew,
    /// Times when `trim` released idle memory of the scope, with the bytes.
    Trimmed,
    /// Times when the idle limit of a device released idle memory of the scope, with the bytes.
    OverIdleLimit,
    /// Times when another limit, or the requests of others, released idle memory of the scope, with the bytes.
    Displaced,
    /// Invalidations that the scope followed.
    Invalidated,
    /// Allocations, and searches for a plan's block, for which the device gave memory.
    Taken,
}

/// An example of an allocation that differs from the expected one.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The number of the allocation in its entry, from 1, as far as the plan or the recording has counted.
    pub number: u64,
    /// The type of the array's elements.
    pub type_name: &'static str,
    /// The first dimensions of the array.
    shape: [usize; SHOWN_DIMS],
    /// How many dimensions the array has.
    rank: usize,
    /// The array's size in bytes.
    pub bytes: u64,
    /// The fewest and the most bytes that were expected in this place.
    pub expected: Option<(u64, u64)>,
    /// The line of the program that allocated the array, if it is known.
    pub site: Option<&'static Location<'static>>,
}

/// How many dimensions of a sample are kept.
const SHOWN_DIMS: usize = 4;
/// How many samples of a kind are kept. Each is of another line.
const SAMPLES: usize = 3;

/// How often a kind of fact occurred: the number of entries in which it did, of its events, and of the bytes that they concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FactCount {
    /// The entries in which it occurred.
    pub entries: u64,
    /// How many times it occurred.
    pub events: u64,
    /// The bytes that it concerned.
    pub bytes: u64,
}

/// How often a kind of fact occurred lately.
#[derive(Clone, Debug)]
pub(crate) struct FactTally {
    fact: Fact,
    /// The entry in which the fact occurred last.
    last: u64,
    now: FactCount,
    before: FactCount,
    pub(crate) samples: Vec<Sample>,
}

/// All facts that were noted for a scope on a thread.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    tallies: Vec<FactTally>,
    /// How many arrays were alive over time. Boxed, so that it lies apart from the rest: most entries do not touch it.
    pub(crate) alive: Box<AliveOverTime>,
    /// Samples of arrays that were not dropped, each of another line, while more and more arrays are alive.
    pub kept: Vec<Sample>,
}

impl Sample {
    /// A sample of an allocation: its request, its number, and the bytes that were expected in its place.
    pub(crate) fn of(request: &Request<'_>, number: u64, expected: Option<(u64, u64)>) -> Sample {
        let Request { type_name, dims, bytes, site, .. } = *request;
        let mut shape = [0; SHOWN_DIMS];
        std::iter::zip(&mut shape, dims).for_each(|(place, dim)| *place = *dim);
        Sample { number, type_name, shape, rank: dims.len(), bytes: bytes as u64, expected, site }
    }

    /// The first dimensions of the array, and whether it has more.
    pub fn dims(&self) -> (&[usize], bool) {
        (&self.shape[..self.rank.min(SHOWN_DIMS)], self.rank > SHOWN_DIMS)
    }
}

// Sums stop at the largest number: refused requests count too, and may be as large as the type allows.
combine!(FactCount: entries events bytes;);

impl FactTally {
    fn new(fact: Fact, entry: u64) -> FactTally {
        FactTally { fact, last: entry, now: FactCount::default(), before: FactCount::default(), samples: Vec::new() }
    }

    /// Begins the window of this entry, if the last one was another window.
    fn turn_to(&mut self, entry: u64) {
        match (entry / Facts::WINDOW).saturating_sub(self.last / Facts::WINDOW) {
            0 => {}
            1 => self.before = std::mem::take(&mut self.now),
            _ => (self.before, self.now) = Default::default(),
        }
        if self.now == self.before && self.now.events == 0 {
            self.samples.clear();
        }
    }

    fn note(&mut self, entry: u64, events: u64, bytes: u64) {
        self.turn_to(entry);
        let entries = u64::from(self.now.events == 0 || self.last != entry);
        self.now.combine(&FactCount { entries, events, bytes }, SUM);
        self.last = entry;
    }

    fn show(&mut self, sample: Sample) {
        let is_known = |known: &Sample| known.site.is_some() && known.site == sample.site;
        if let Some(known) = self.samples.iter_mut().find(|known| is_known(known)) {
            *known = sample;
        } else if self.samples.len() < SAMPLES {
            self.samples.push(sample);
        }
    }
}

impl Facts {
    /// How many entries make a window.
    pub const WINDOW: u64 = 16;
    /// The first number of entries after which [`growth`](Facts::growth) can tell.
    pub const FIRST_GROWTH: u64 = FIRST_GROWTH;

    /// How much more is alive now than after a quarter of all entries: arrays, their bytes, and the number of entries in between. `None`
    /// unless the number of arrays grew steadily, and by `least` arrays or more.
    pub fn growth(&self, least: u64) -> Option<(u64, u64, u64)> {
        self.alive.growth(least)
    }

    /// Whether it is too early for [`growth`](Facts::growth), but the number of live arrays, `now` outside of an entry, rose and never fell.
    pub fn rose_so_far(&self, now: u64) -> bool {
        self.alive.rose_so_far(now)
    }

    /// Notes that a fact occurred `events` times in this entry, with `bytes` bytes. 0 events are not noted.
    pub(crate) fn note(&mut self, fact: Fact, entry: u64, events: u64, bytes: u64) {
        if events > 0 {
            self.tally(fact, entry).note(entry, events, bytes);
        }
    }

    /// Notes a fact that occurred in one allocation.
    pub(crate) fn note_sample(&mut self, fact: Fact, entry: u64, sample: Sample) {
        let tally = self.tally(fact, entry);
        tally.note(entry, 1, sample.bytes);
        tally.show(sample);
    }

    /// Adds a sample to a fact that is noted in this entry.
    pub(crate) fn show(&mut self, fact: Fact, entry: u64, sample: Option<Sample>) {
        if let Some(sample) = sample {
            self.tally(fact, entry).show(sample);
        }
    }

    fn tally(&mut self, fact: Fact, entry: u64) -> &mut FactTally {
        let place = self.tallies.iter().position(|tally| tally.fact == fact).unwrap_or_else(|| {
            self.tallies.push(FactTally::new(fact, entry));
            self.tallies.len() - 1
        });
        &mut self.tallies[place]
    }

    /// How often a fact occurred in the window of this entry and the window before.
    pub fn lately(&self, fact: Fact, entry: u64) -> FactCount {
        let Some(mut tally) = self.of(fact).cloned() else { return FactCount::default() };
        tally.turn_to(entry);
        tally.now.combine(&tally.before, SUM);
        tally.now
    }

    /// The entry in which a fact occurred last.
    pub fn last(&self, fact: Fact) -> Option<u64> {
        self.of(fact).map(|tally| tally.last)
    }

    /// Examples of allocations that a fact concerned.
    pub fn samples(&self, fact: Fact) -> &[Sample] {
        self.of(fact).map_or(&[], |tally| &tally.samples)
    }

    fn of(&self, fact: Fact) -> Option<&FactTally> {
        self.tallies.iter().find(|tally| tally.fact == fact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(entries: u64, events: u64, bytes: u64) -> FactCount {
        FactCount { entries, events, bytes }
    }

    #[test]
    fn what_is_over_is_forgotten_after_two_windows() {
        let mut facts = Facts::default();
        (1..=3).for_each(|_| facts.note(Fact::Blocked, 5, 1, 10));
        facts.note(Fact::Blocked, 6, 2, 10);
        facts.note(Fact::Blocked, 6, 0, 10);
        assert_eq!(facts.lately(Fact::Blocked, 6), amount(2, 5, 40));
        assert_eq!(facts.lately(Fact::Blocked, 2 * Facts::WINDOW - 1), amount(2, 5, 40));
        facts.note(Fact::Blocked, Facts::WINDOW, 1, 1);
        assert_eq!(facts.lately(Fact::Blocked, Facts::WINDOW), amount(3, 6, 41));
        assert_eq!(facts.lately(Fact::Blocked, 2 * Facts::WINDOW), amount(1, 1, 1));
        assert_eq!(facts.lately(Fact::Blocked, 3 * Facts::WINDOW), amount(0, 0, 0));
        assert_eq!(facts.lately(Fact::Aside, 6), amount(0, 0, 0));
    }

    #[test]
    fn samples_are_few_and_of_other_lines() {
        let mut facts = Facts::default();
        let sample = |number, site| Sample {
            number,
            type_name: "f32",
            shape: [1, 2, 3, 4],
            rank: 5,
            bytes: 8,
            expected: None,
            site,
        };
        let here = Location::caller();
        (0..10).for_each(|number| facts.note_sample(Fact::OtherSize, 1, sample(number, Some(here))));
        assert_eq!(facts.samples(Fact::OtherSize).len(), 1);
        assert_eq!(facts.samples(Fact::OtherSize)[0].number, 9);
        (0..10).for_each(|number| facts.note_sample(Fact::OtherSize, 1, sample(number, None)));
        assert_eq!(facts.samples(Fact::OtherSize).len(), SAMPLES);
        assert_eq!(facts.samples(Fact::OtherSize)[0].dims(), (&[1, 2, 3, 4][..], true));
        facts.note(Fact::OtherSize, 4 * Facts::WINDOW, 1, 1);
        assert!(facts.samples(Fact::OtherSize).is_empty());
    }
}
