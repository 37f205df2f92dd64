//! Records the allocations and drops of recorded entries, and finds the lines of arrays that are never dropped.
//!
//! While more and more arrays of a scope are alive, its entries are *watched*: each array is known by its record until it is
//! dropped. The diagnosis shows those arrays that are still alive when all others of their time are gone. Watched entries take the
//! same paths as recorded ones. A drop of a watched array takes the same path as a drop of an array that other streams use. So no
//! other entry and no other drop is slower.

use hashbrown::HashMap;

use super::Planner;
use crate::device::Stream;
use crate::home::{Sample, Shared};
use crate::record::{Record, Request};

/// The watched arrays that are alive.
#[derive(Default)]
pub(super) struct Watch {
    /// By the address of the record, which belongs to the array until its drop. The number is that of the entry.
    alive: HashMap<usize, (Sample, u64)>,
    /// How many entries and iterations of loops began, under any policy.
    begun: u64,
}

/// The most arrays that are watched at once, so that memory is bounded. Few entries have more alive at once.
const MOST: usize = 4096;
/// This many arrays that have been alive for long are enough to show the lines.
const ENOUGH: usize = 8;
/// The number of lines that the diagnosis shows.
const LINES: usize = 3;
/// From this growth on, arrays are watched. A smaller growth says nothing yet.
pub(super) const SUSPECT: u64 = 2;
/// In its first entries, the record of live arrays is too short to show a leak. Arrays are watched then while the ring grows.
const YOUNG: u64 = 64;

fn name_of(record: &Record) -> usize {
    std::ptr::from_ref(record) as usize
}

impl Watch {
    fn add(&mut self, record: &mut Record, request: &Request<'_>, entry: u64) {
        if self.alive.len() < MOST {
            record.watch();
            self.alive.insert(name_of(record), (Sample::of(request, 0, None), entry));
        }
    }

    /// The arrays that have been alive for at least half as long as the oldest watched array.
    fn oldest(&self, entry: u64) -> impl Iterator<Item = &(Sample, u64)> {
        let age = move |(_, since): &(Sample, u64)| entry.saturating_sub(*since);
        let most = self.alive.values().map(age).max().unwrap_or(0);
        self.alive.values().filter(move |watched| age(watched) * 2 >= most && most > 1)
    }

    /// The lines that allocated most of the arrays that this entry allocated, and that are alive as it ends.
    pub(super) fn escaped(&self) -> Vec<Sample> {
        Watch::lines(self.alive.values().filter(|(_, since)| *since == self.begun))
    }

    /// The lines that allocated most of these arrays, each with one array.
    fn lines<'w>(watched: impl Iterator<Item = &'w (Sample, u64)>) -> Vec<Sample> {
        let mut lines: Vec<(Sample, u64)> = Vec::new();
        for (sample, _) in watched {
            match lines.iter_mut().find(|(line, _)| line.site == sample.site) {
                Some((_, count)) => *count += 1,
                None => lines.push((*sample, 1)),
            }
        }
        lines.sort_by_key(|(line, count)| (std::cmp::Reverse(*count), line.site.map(|site| site.line())));
        lines.into_iter().take(LINES).map(|(line, _)| line).collect()
    }
}

impl Planner {
    /// Notes that an entry or an iteration begins, under any policy.
    pub(crate) fn count_begun(&mut self) {
        self.watch.begun += 1;
    }

    /// Notes that a watched array was dropped.
    #[cold]
    pub(crate) fn unwatch(&mut self, record: &mut Record) {
        self.watch.alive.remove(&name_of(record));
        record.unwatch();
    }

    /// Arrays outlive their entry and the ring has grown. Watches the next entries of a young scope until the next look.
    pub(crate) fn watch_while_young(&mut self) {
        if self.watch.begun < YOUNG {
            self.learning.watch(true);
        }
    }

    /// At the end of an entry: notes how much is alive, and whether to watch the next entries. Returns the number of entries until
    /// the next look.
    #[cold]
    pub(crate) fn look_at_alive(&mut self, shared: &Shared) -> u32 {
        let (counts, entry) = (shared.counts(), self.watch.begun);
        let facts = &mut *shared.facts();
        let next = facts.alive.note(counts.busy_blocks(), counts.busy_bytes());
        let grows = facts.growth(SUSPECT).is_some();
        let samples = Watch::lines(self.watch.oldest(entry));
        if grows || entry >= YOUNG || !samples.is_empty() {
            facts.kept = samples;
        }
        if !grows {
            self.watch.alive.clear();
        }
        self.learning.watch(grows && self.watch.oldest(entry).count() < ENOUGH);
        next
    }

    /// Records an allocation if its entry is recorded, and watches its array if the entry is watched.
    #[inline]
    pub(crate) fn note(&mut self, record: &mut Record, request: &Request<'_>) {
        if self.learning.notes {
            self.note_closely(record, request);
        }
    }

    #[inline(never)]
    fn note_closely(&mut self, record: &mut Record, request: &Request<'_>) {
        if self.learning.is_recording {
            self.record(record, request);
        }
        if self.learning.is_watching && request.bytes > 0 {
            self.watch.add(record, request, self.watch.begun);
        }
    }

    fn record(&mut self, record: &mut Record, request: &Request<'_>) {
        if !self.is_recorded(record.stream().id()) {
            record.recorded = (0, 0);
            if record.bytes > 0 {
                self.note_recorded(request, None);
            }
            return;
        }
        let number = self.log(record.stream(), record.bytes as u64);
        if record.bytes > 0 {
            self.note_recorded(request, number);
        }
        // No entry has the number 0.
        record.recorded = number.map_or((0, 0), |number| (mark(self.entry.number), number));
        match number {
            Some(_) => self.search(),
            None if self.learning.learner.log.is_too_long() => self.search_beyond(),
            None => {}
        }
    }

    /// Logs an allocation on the recorded stream.
    pub(super) fn log(&mut self, stream: &Stream, bytes: u64) -> Option<u32> {
        let learning = &mut self.learning;
        if !self.entry.has_stream {
            self.entry.has_stream = true;
            learning.learner.log.begin(stream.id());
            if learning.stream.as_ref().is_none_or(|known| known.id() != stream.id()) {
                self.effects.streams.extend(learning.stream.replace(stream.clone()));
            }
        }
        learning.learner.log.allocated(stream.id(), bytes)
    }

    /// Records a drop if the entry is recorded.
    #[inline]
    pub(super) fn note_drop(&mut self, record: &Record) {
        if !self.learning.is_recording {
            return;
        }
        let (entry, number) = record.recorded;
        let log = &mut self.learning.learner.log;
        if entry == mark(self.entry.number) {
            log.dropped(number);
            self.search_drop(number);
        } else if entry == mark(self.entry.number - 1) {
            log.dropped_of_before(number.wrapping_sub(self.learning.learner.first_before));
        }
    }
}

/// The part of an entry's number that fits into a record. No record stays alive for so many entries that two of them have the same
/// part.
fn mark(entry: u64) -> u32 {
    entry as u32
}
