//! What a diagnosis goes by: how often something kept a scope from being planned lately, how much it came to, and where.
//!
//! Facts are noted on ways that no plan serves, so that a warm scope pays nothing for them. Each kind is counted over the last
//! [`WINDOW`] entries and the [`WINDOW`] before, so that what is over is forgotten, with a few samples: memory is bounded.

use std::panic::Location;

use super::growth::AliveOverTime;
use crate::record::Request;

/// Something that keeps a scope from being planned, or makes it fat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// Entries that no plan served, or none to their end.
    Unplanned,
    /// Entries that were recorded, with their allocations.
    Recorded,
    /// Allocations of sizes that the plan did not expect, in entries as long as it.
    OtherSize,
    /// Allocations that the plan did not expect, or that it expected and that did not come.
    OtherOrder,
    /// Allocations whose place was taken by an array that outlived its entry.
    Blocked,
    /// Allocations of arrays that outlive their entry in no order, and have no place.
    Aside,
    /// Of a recorded entry, the first allocation that was another than in the recorded entry before, which was as long.
    UnlikeSize,
    /// The same, of entries that were not equally long, or had the same sizes in another order.
    UnlikeOrder,
    /// Recorded entries with the same allocations as the one before, whose drops came otherwise.
    UnlikeDrops,
    /// Allocations in recorded entries on another stream than the first one's.
    OtherStream,
    /// The same, where others outlived the entry: the arrays that did, with their bytes.
    UnlikeEscapes,
    /// Allocations of entries of which the plan that was there served none.
    Unserved,
    /// Drops inside of the scope of what other streams may still use.
    UsedElsewhere,
    /// Allocations of entries with `recycle = "off"`.
    Unkept,
    /// Entries with more allocations than are recorded.
    TooLong,
    /// Entries whose allocations are together more than a plan can have.
    TooLarge,
    /// Blocks for plans that the limit of the scope refused.
    BeyondLimit,
    /// Blocks for plans that the device's range had no stretch for.
    NoStretch,
    /// Allocations before which the limit of the scope had idle memory go back.
    Squeezed,
    /// Allocations for which the device was short of memory, and those of them that a limit of the device or the process met.
    Short,
    /// The part of [`Short`](Fact::Short) that a limit of the device or the process met.
    ShortByLimit,
    /// Times that the ring had to grow, for arrays that outlive their entry.
    RingGrew,
    /// Times that `trim` released idle memory of the scope, with the bytes.
    Trimmed,
    /// Times that the idle limit of a device released idle memory of the scope, with the bytes.
    OverIdleLimit,
    /// Times that another limit, or the requests of others, released idle memory of the scope, with the bytes.
    Displaced,
    /// Invalidations that the scope followed.
    Invalidated,
    /// Entries for which the device gave memory.
    Taken,
}

/// An allocation that was other than expected.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Its number in the entry, from 1, as far as the plan or the record has counted.
    pub number: u64,
    /// The type of the array's elements.
    pub type_name: &'static str,
    /// Its shape, or the first dimensions of it.
    pub shape: ShapeSample,
    /// Its size in bytes.
    pub bytes: u64,
    /// The fewest and the most bytes that were expected in its place.
    pub expected: Option<(u64, u64)>,
    /// The line that allocated it, if it is known.
    pub site: Option<&'static Location<'static>>,
}

/// The first dimensions of a shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShapeSample {
    rank: usize,
    dims: [usize; SHOWN_DIMS],
}

/// As many dimensions of a sample are kept.
const SHOWN_DIMS: usize = 4;
/// As many entries make a window.
const WINDOW: u64 = 16;
/// As many samples of a kind are kept, each of another line.
const SAMPLES: usize = 3;

/// How much there was of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FactCount {
    /// In how many entries it was seen.
    pub entries: u64,
    /// How often it was seen.
    pub events: u64,
    /// Bytes that it concerned.
    pub bytes: u64,
}

/// How much there was of one kind lately.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    fact: Fact,
    /// The entry in which it was seen last.
    last: u64,
    now: FactCount,
    before: FactCount,
    pub(crate) samples: Vec<Sample>,
}

/// All that was noted of a scope on a thread.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    tallies: Vec<Tally>,
    /// Beside the rest, since entries without a look do not touch it.
    pub alive: Box<AliveOverTime>,
    /// While more and more arrays are alive: some that were not dropped, each of another line.
    pub kept: Vec<Sample>,
}

impl Sample {
    /// The allocation of this number was this request, where so many bytes were expected.
    pub(crate) fn of(request: &Request<'_>, number: u64, expected: Option<(u64, u64)>) -> Sample {
        let Request { type_name, dims, bytes, site, .. } = *request;
        Sample { number, type_name, shape: ShapeSample::of(dims), bytes: bytes as u64, expected, site }
    }
}

impl ShapeSample {
    fn of(shape: &[usize]) -> ShapeSample {
        let mut dims = [0; SHOWN_DIMS];
        std::iter::zip(&mut dims, shape).for_each(|(place, dim)| *place = *dim);
        ShapeSample { rank: shape.len(), dims }
    }

    /// The first dimensions, and whether there are more.
    pub fn dims(&self) -> (&[usize], bool) {
        (&self.dims[..self.rank.min(SHOWN_DIMS)], self.rank > SHOWN_DIMS)
    }
}

impl std::ops::AddAssign for FactCount {
    fn add_assign(&mut self, other: FactCount) {
        self.entries = self.entries.saturating_add(other.entries);
        self.events = self.events.saturating_add(other.events);
        // What was refused counts too, and may be as much as a number says.
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

impl Tally {
    fn new(fact: Fact, entry: u64) -> Tally {
        Tally { fact, last: entry, now: FactCount::default(), before: FactCount::default(), samples: Vec::new() }
    }

    /// Begins the window of this entry, if another one was under way.
    fn turn_to(&mut self, entry: u64) {
        match (entry / WINDOW).saturating_sub(self.last / WINDOW) {
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
        self.now += FactCount { entries, events, bytes };
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
    /// Entries of which [`lately`](Facts::lately) tells.
    pub const WINDOW: u64 = WINDOW;

    /// Something was seen in this entry, so often, with so many bytes. 0 events are none.
    pub(crate) fn note(&mut self, fact: Fact, entry: u64, events: u64, bytes: u64) {
        if events > 0 {
            self.tally(fact, entry).note(entry, events, bytes);
        }
    }

    /// The same of one allocation.
    pub(crate) fn note_sample(&mut self, fact: Fact, entry: u64, sample: Sample) {
        let tally = self.tally(fact, entry);
        tally.note(entry, 1, sample.bytes);
        tally.show(sample);
    }

    /// An example of what is noted in this entry, if there is one.
    pub(crate) fn show(&mut self, fact: Fact, entry: u64, sample: Option<Sample>) {
        if let Some(sample) = sample {
            self.tally(fact, entry).show(sample);
        }
    }

    fn tally(&mut self, fact: Fact, entry: u64) -> &mut Tally {
        let place = self.tallies.iter().position(|tally| tally.fact == fact).unwrap_or_else(|| {
            self.tallies.push(Tally::new(fact, entry));
            self.tallies.len() - 1
        });
        &mut self.tallies[place]
    }

    /// How much there was of one kind in the window of this entry and the one before.
    pub fn lately(&self, fact: Fact, entry: u64) -> FactCount {
        let Some(mut tally) = self.of(fact).cloned() else { return FactCount::default() };
        tally.turn_to(entry);
        let mut sum = tally.now;
        sum += tally.before;
        sum
    }

    /// In which entry it was seen last.
    pub fn last(&self, fact: Fact) -> Option<u64> {
        self.of(fact).map(|tally| tally.last)
    }

    /// The samples of one kind.
    pub fn samples(&self, fact: Fact) -> &[Sample] {
        self.of(fact).map_or(&[], |tally| &tally.samples)
    }

    fn of(&self, fact: Fact) -> Option<&Tally> {
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
        assert_eq!(facts.lately(Fact::Blocked, 2 * WINDOW - 1), amount(2, 5, 40));
        facts.note(Fact::Blocked, WINDOW, 1, 1);
        assert_eq!(facts.lately(Fact::Blocked, WINDOW), amount(3, 6, 41));
        assert_eq!(facts.lately(Fact::Blocked, 2 * WINDOW), amount(1, 1, 1));
        assert_eq!(facts.lately(Fact::Blocked, 3 * WINDOW), amount(0, 0, 0));
        assert_eq!(facts.lately(Fact::Aside, 6), amount(0, 0, 0));
    }

    #[test]
    fn samples_are_few_and_of_other_lines() {
        let mut facts = Facts::default();
        let sample = |number, site| Sample {
            number,
            type_name: "f32",
            shape: ShapeSample::of(&[1, 2, 3, 4, 5]),
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
        assert_eq!(facts.samples(Fact::OtherSize)[0].shape.dims(), (&[1, 2, 3, 4][..], true));
        facts.note(Fact::OtherSize, 4 * WINDOW, 1, 1);
        assert!(facts.samples(Fact::OtherSize).is_empty());
    }
}
