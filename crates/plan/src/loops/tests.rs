//! Tests of the search, by small programs whose loops are known.

use std::collections::HashMap;

use proptest::prelude::*;

use super::{Cycle, Found, Known, Search};
use crate::entries::Log;

/// An entry that is logged and searched, and its arrays by name.
struct Entry {
    log: Log,
    search: Search,
    arrays: HashMap<(u32, u32), u32>,
    found: Vec<(u32, Found)>,
    /// The cycles, and the allocations before which they ended.
    cycles: Vec<(u32, Cycle)>,
}

impl Entry {
    fn new(known: Option<&Known>) -> Entry {
        let (mut log, mut search) = (Log::default(), Search::default());
        log.begin(1);
        search.begin(known.map(|known| (7, known)).into_iter(), 0);
        Entry { log, search, arrays: HashMap::new(), found: Vec::new(), cycles: Vec::new() }
    }

    /// Allocates the array of a name. The array that had the name before is dropped after that.
    fn put(&mut self, name: (u32, u32), bytes: u64) {
        let cycle = self.search.cycle(&self.log);
        self.cycles.extend(cycle.map(|cycle| (self.log.len(), cycle)));
        assert!(self.log.allocated(1, bytes).is_some());
        let found = self.search.allocated(&self.log);
        self.found.extend(found.map(|found| (self.log.len(), found)));
        self.take(name);
        self.arrays.insert(name, self.log.len() - 1);
    }

    fn take(&mut self, name: (u32, u32)) {
        if let Some(number) = self.arrays.remove(&name) {
            self.log.dropped(number);
            self.search.dropped(self.log.len() - number);
        }
    }

    /// A training step of 600 allocations: 200 layers forward, whose activations wait for the way back.
    fn train(&mut self, scale: u64) {
        for layer in 0..200 {
            self.put((0, layer), (100 + u64::from(layer)) * scale);
            self.put((1, 0), 300 * scale);
            self.take((1, 0));
        }
        for layer in (0..200).rev() {
            self.put((2, 0), 400 * scale);
            self.take((0, layer));
            self.take((2, 0));
        }
    }

    /// A training step with so many layers, and of so many rows. Each layer allocates a fifth array in steps of an odd number of layers.
    fn train_on(&mut self, layers: u32, rows: u64) {
        for layer in 0..layers {
            self.put((0, layer), (100 + u64::from(layer)) * rows);
            (0..2 + layers % 2).for_each(|name| self.put((1, name), 300 * rows));
            (0..2 + layers % 2).for_each(|name| self.take((1, name)));
        }
        for layer in (0..layers).rev() {
            self.put((2, 0), 400 * rows);
            self.take((0, layer));
            self.take((2, 0));
        }
    }

    /// A token of 45 allocations. Each of five layers makes its cache anew, one row longer.
    fn token(&mut self, row: u64, rows: u64) {
        for layer in 0..5 {
            for half in 0..2 {
                self.put((10, 0), row);
                self.put((11 + half, layer), row * rows);
                self.take((10, 0));
            }
            for temporary in 0..5 {
                self.put((13 + temporary % 2, 0), row * u64::from(1 + temporary));
            }
        }
        self.take((13, 0));
        self.take((14, 0));
    }

    /// The first loop that was found: its length, and the number of the allocation that begins the next iteration.
    fn first_loop(&self) -> Option<(u32, u32)> {
        self.found.iter().find_map(|(at, found)| match found {
            Found::Loop { length } => Some((*length, *at)),
            Found::Known { .. } => None,
        })
    }
}

#[test]
fn a_step_is_found_after_two_of_them_and_begins_where_the_fewest_bytes_are_alive() {
    let mut entry = Entry::new(None);
    (0..3).for_each(|_| entry.train(1));
    assert_eq!(entry.first_loop(), Some((600, 1200)));
}

#[test]
fn a_step_is_found_behind_other_allocations() {
    let mut entry = Entry::new(None);
    (0..77).for_each(|weight| entry.put((3, weight), u64::from(weight) * 1000 + 1));
    (0..4).for_each(|_| entry.train(1));
    assert_eq!(entry.first_loop(), Some((600, 1277)));
}

#[test]
fn a_step_whose_sizes_all_change_keeps_its_order() {
    let mut entry = Entry::new(None);
    [5, 9, 6, 14].into_iter().for_each(|scale| entry.train(scale));
    assert_eq!(entry.first_loop().map(|(length, _)| length), Some(600));
}

/// A step of 600 allocations whose sizes grow with the length of its text, and every sixth with its square.
fn read(entry: &mut Entry, length: u64) {
    let bytes = |layer: u32| if layer.is_multiple_of(3) { length * length } else { u64::from(100 + layer) * length };
    (0..300).for_each(|layer| entry.put((0, layer), bytes(layer)));
    for layer in (0..300).rev() {
        entry.put((2, 0), 400 * length);
        entry.take((0, layer));
    }
}

#[test]
fn a_step_is_found_whose_text_has_any_length() {
    let mut entry = Entry::new(None);
    [32, 1024, 50, 700].into_iter().for_each(|length| read(&mut entry, length));
    assert_eq!(entry.first_loop().map(|(length, _)| length), Some(600));
}

#[test]
fn random_sizes_of_arrays_that_are_dropped_at_once_are_no_loop() {
    let (mut entry, mut random) = (Entry::new(None), fastrand::Rng::with_seed(1));
    for _ in 0..5000 {
        entry.put((0, 0), random.u64(1..1 << 20));
        entry.take((0, 0));
    }
    assert_eq!(entry.found, []);
}

/// Two parts of a step drop the same arrays. Their sizes differ in the step that is learned, and not in a later one.
#[test]
fn a_loop_is_not_known_by_parts_that_only_sizes_tell_apart() {
    let part = |entry: &mut Entry, bytes: u64| {
        for number in 0..20 {
            entry.put((5, 0), bytes << (number * number % 7));
            entry.take((5, 0));
        }
    };
    let step = |entry: &mut Entry, [early, late]: [u64; 2]| {
        part(entry, early);
        (0..600).for_each(|number| entry.put((6, number % 7), 1 << 20));
        part(entry, late);
        (0..7).for_each(|name| entry.take((6, name)));
    };
    let mut first = Entry::new(None);
    [[1000, 3000], [2000, 4000], [2500, 9000], [3000, 5000]].into_iter().for_each(|sizes| step(&mut first, sizes));
    let known = first.search.known(&first.log, 640);
    let mut later = Entry::new(Some(&known));
    part(&mut later, 5000);
    assert_eq!(later.found, []);
}

#[test]
fn a_token_is_found_and_not_a_layer_whose_cache_waits_for_the_next_token() {
    let mut entry = Entry::new(None);
    (0..10).for_each(|layer| entry.put((11 + layer % 2, layer / 2), 4096 * 30));
    (1..20).for_each(|rows| entry.token(4096, 30 + rows));
    let (length, at) = entry.first_loop().unwrap();
    assert_eq!((length, (at - 10) % 45), (45, 0));
}

#[test]
fn a_loop_that_is_known_is_found_after_one_iteration() {
    let mut first = Entry::new(None);
    let mut known = None;
    for rows in 1..40 {
        first.token(4096, 30 + rows);
        if known.is_none() && first.first_loop().is_some_and(|(_, at)| at == first.log.len()) {
            known = Some(first.search.known(&first.log, 45));
        }
    }
    let known = known.unwrap();
    let mut second = Entry::new(Some(&known));
    // A prompt of another length and batch, and then tokens.
    (0..10).for_each(|layer| second.put((11 + layer % 2, layer / 2), 3 * 4096 * 55));
    (1..3).for_each(|rows| second.token(3 * 4096, 55 + rows));
    let (at, found) = second.found[0];
    assert_eq!(found, Found::Known { place: 7, position: (at - 10) % 45 });
    // In the first token, the caches that are replaced have another age.
    assert!(at <= 10 + 45 + 12, "found at {at}");
}

#[test]
fn an_iteration_without_allocations_or_longer_than_the_log_has_no_windows() {
    let mut entry = Entry::new(None);
    (0..3).for_each(|_| entry.train(1));
    assert!(entry.search.known(&entry.log, 0).is_empty());
    assert!(entry.search.known(&entry.log, u32::MAX).is_empty());
}

#[test]
fn what_is_never_dropped_is_no_loop() {
    let mut entry = Entry::new(None);
    (0..5000).for_each(|name| entry.put((0, name), 4096));
    assert_eq!(entry.found, []);
}

/// Allocations of random sizes and lifetimes.
fn wander(entry: &mut Entry, random: &mut fastrand::Rng, allocations: u32) {
    for _ in 0..allocations {
        entry.put((20, random.u32(..64)), random.u64(1..1 << 24));
    }
}

#[test]
fn a_loop_that_begins_while_the_search_rests_is_found_as_soon() {
    for before in [20_000, 30_000, 36_000, 45_000, 60_000] {
        let mut entry = Entry::new(None);
        wander(&mut entry, &mut fastrand::Rng::with_seed(3), before);
        let mut steps = 0;
        while entry.first_loop().is_none() {
            entry.train(1);
            steps += 1;
        }
        let (length, at) = entry.first_loop().unwrap();
        assert_eq!((length, (at - before) % 600), (600, 0), "after {before}");
        // The loop has to be half of the entry, and is looked at once in an iteration.
        assert!(600 * steps <= before + 3 * 600, "{steps} steps after {before}");
    }
}

#[test]
fn a_search_that_finds_nothing_rests_most_of_the_time() {
    let (mut entry, mut random) = (Entry::new(None), fastrand::Rng::with_seed(3));
    let mut rests = 0;
    for _ in 0..100_000 {
        wander(&mut entry, &mut random, 1);
        rests += u32::from(entry.search.rests);
    }
    assert!(rests > 55_000, "{rests}");
}

/// Layers that keep nothing are a loop, and the step that they are a part of is one around it.
#[test]
fn the_step_around_layers_is_found_if_shorter_periods_are_skipped() {
    let step = |entry: &mut Entry| {
        (0..1200).for_each(|number| entry.put((0, number % 3), 100 + u64::from(number % 30)));
        (0..300).for_each(|number| entry.put((1, number % 2), 1000 + u64::from(number)));
    };
    let found = |skips: bool| {
        let mut entry = Entry::new(None);
        if skips {
            entry.search.skip_shorter(512, 8192);
        }
        (0..4).for_each(|_| step(&mut entry));
        entry.first_loop().map(|(length, _)| length)
    };
    assert!(found(false).is_some_and(|length| length < 512 && length.is_multiple_of(30)));
    assert_eq!(found(true), Some(1500));
}

#[test]
fn steps_that_repeat_no_order_are_cycles() {
    let (mut entry, mut random) = (Entry::new(None), fastrand::Rng::with_seed(5));
    // Weights, which stay.
    (0..50).for_each(|name| entry.put((9, name), 1 << 20));
    let mut begins = Vec::new();
    for _ in 0..30 {
        begins.push(entry.log.len());
        // No two steps in a row have as many layers.
        let layers = 60 + begins.len() as u32 % 3 * 7 + random.u32(..7);
        entry.train_on(layers, random.u64(1..9));
    }
    assert_eq!(entry.found, [], "no order repeats");
    assert!(entry.cycles.len() > 15, "{:?}", entry.cycles);
    for &(end, cycle) in &entry.cycles {
        let step = begins.iter().position(|&begin| begin == end).unwrap();
        assert_eq!((cycle.length, cycle.is_again), (end - begins[step - 1], false));
    }
}

#[test]
fn random_programs_and_growing_ones_have_no_cycles() {
    let (mut entry, mut random) = (Entry::new(None), fastrand::Rng::with_seed(5));
    wander(&mut entry, &mut random, 20_000);
    assert!(entry.cycles.is_empty(), "{:?}", entry.cycles);
    let mut entry = Entry::new(None);
    (1..300).for_each(|rows| entry.token(4096, rows));
    assert!(entry.cycles.is_empty(), "{:?}", entry.cycles);
}

#[test]
fn a_short_loop_is_taken_several_times_at_once() {
    let mut entry = Entry::new(None);
    for _ in 0..400 {
        (0..3).for_each(|name| entry.put((0, name), 1000 * u64::from(name + 1)));
        (0..3).for_each(|name| entry.take((0, name)));
    }
    assert_eq!(entry.first_loop().map(|(length, _)| length), Some(33));
}

proptest! {
    /// A loop that is found has two whole iterations, of which the second repeats most sizes of the first. The program may be any.
    #[test]
    fn a_loop_that_is_found_repeats(
        kinds in proptest::collection::vec((0u32..12, 0u64..5, 0u32..40), 8..60),
        rounds in 1usize..60,
    ) {
        let mut entry = Entry::new(None);
        for round in 0..rounds {
            for &(name, size, skip) in &kinds {
                if skip as usize != round % 41 {
                    entry.put((name, 0), 1 << (8 + size));
                }
            }
        }
        for (at, found) in entry.found {
            let Found::Loop { length } = found else { continue };
            prop_assert!(2 * length <= at);
            let same = (at - length..at).filter(|&number| entry.log.bytes_at(number) == entry.log.bytes_at(number - length));
            prop_assert!(2 * same.count() as u32 >= length, "{length} at {at}");
        }
    }
}
