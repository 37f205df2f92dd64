//! Entries of scopes cost the same inside any number of open entries, and in whatever order they end.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use gpucache_capi::{allocate, enter, enter_uncached, free, leave};

/// The host.
const DEVICE: i32 = -1;
const FEW: usize = 100;
const MANY: usize = 100_000;
/// How many operations are measured at a time.
const TIMES: usize = 50;

/// The time of 50 exits of the oldest of so many open entries, and of 50 entries inside so many open entries that are outside of scopes.
fn times(open: usize) -> [Duration; 2] {
    let mut entries: Vec<u64> = (0..open).map(|_| enter("open").unwrap()).collect();
    let began = Instant::now();
    entries.drain(..TIMES).for_each(|entry| leave(entry).unwrap());
    let left = began.elapsed();
    entries.into_iter().rev().for_each(|entry| leave(entry).unwrap());
    let outside: Vec<u64> = (0..open).map(|_| enter_uncached().unwrap()).collect();
    let began = Instant::now();
    (0..TIMES).for_each(|_| leave(enter("inside").unwrap()).unwrap());
    let entered = began.elapsed();
    outside.into_iter().rev().for_each(|entry| leave(entry).unwrap());
    [left, entered]
}

/// The shortest times of some runs, since other programs disturb single ones.
fn shortest(open: usize) -> [Duration; 2] {
    let runs: Vec<[Duration; 2]> = (0..5).map(|_| times(open)).collect();
    [0, 1].map(|which| runs.iter().map(|run| run[which]).min().unwrap())
}

#[test]
fn the_number_of_open_entries_does_not_matter() {
    let (few, many) = (shortest(FEW), shortest(MANY));
    for which in [0, 1] {
        assert!(many[which] < 20 * few[which], "{few:?} inside {FEW}, {many:?} inside {MANY}");
    }
}

#[test]
fn the_newest_open_entry_serves() {
    let is_served_by = |name: &str| {
        let allocations = || gpucache::stats(name).map_or(0, |stats| stats.allocations());
        let before = allocations();
        free(allocate(4096, DEVICE, 0).unwrap()).unwrap();
        allocations() > before
    };
    let outside = enter_uncached().unwrap();
    let first = enter("first").unwrap();
    let between = enter_uncached().unwrap();
    let second = enter("second").unwrap();
    leave(first).unwrap();
    assert!(is_served_by("second"));
    leave(second).unwrap();
    assert!(!is_served_by("second") && !is_served_by("first"));
    let third = enter("third").unwrap();
    leave(between).unwrap();
    assert!(is_served_by("third"));
    leave(outside).unwrap();
    assert!(leave(outside).is_err() && is_served_by("third"));
    leave(third).unwrap();
    assert!(!is_served_by("third"));
}
