//! Random entries that are regular in part are disturbed: they deviate, their scope is invalidated, memory is short, calls fail, arrays
//! are dropped on other threads, and other scopes are entered inside. No memory is handed out twice, contents stay, statistics equal
//! those of a naive model, and all memory can be freed.
//!
//! `PROGRAMS` sets the number of programs on each device. `SEED=n` runs only the n-th one.

use std::collections::VecDeque;

use fastrand::Rng;
use gpucache::Scope;
use gpucache::device::Virtual;
use gpucache::prelude::*;
use gpucache_tests::faulty::{Failure, Fault};
use gpucache_tests::paged::Paged;
use gpucache_tests::play::entries::bound;
use gpucache_tests::play::loop_programs::{Entry, play};
use gpucache_tests::play::partly::disturbed::{Disturbances, entries, short_entries};
use gpucache_tests::play::{Checked, Player};
use gpucache_tests::{Faulty, seeds, turn};

/// The first scope has the entries. The second one is entered inside them.
const SCOPES: usize = 2;
const PROGRAMS: u64 = 40;
/// The most regular allocations of an entry.
const MOST: usize = 200;

/// A player in scopes that later programs of this test use too.
fn player<D: Checked>(device: D, test: &str) -> Player<D> {
    Player::new(device, (0..SCOPES).map(|scope| format!("partly, {test}, {scope}")))
}

/// The most bytes that are alive in an entry.
fn most(entries: &[Entry]) -> u64 {
    entries.iter().map(|entry| bound(&entry.ops)).max().unwrap_or(0)
}

#[test]
fn partly_regular_entries_are_disturbed() {
    let _turn = turn();
    seeds::each(PROGRAMS, 1, |seed| {
        let rng = &mut Rng::with_seed(seed);
        let bytes = [(1.0, 4e3), (64e3, 64e6), (1.0, 64e6)][rng.usize(..3)];
        let disturbances = Disturbances::random(rng);
        let entries = entries(rng, bytes, MOST, &disturbances);
        let mut player = player(Virtual::new(1 << 46), "disturbed");
        player.beside = rng.bool().then(|| Virtual::new(1 << 46));
        play(&mut player, &entries, |_, _| ());
        assert!(player.skipped.is_empty(), "{:?}", player.skipped);
        player.finish();
    });
}

#[test]
fn partly_regular_entries_with_little_memory() {
    let _turn = turn();
    seeds::each(PROGRAMS, 1, |seed| {
        let rng = &mut Rng::with_seed(seed);
        let disturbances = if rng.bool() { Disturbances::NONE } else { Disturbances::random(rng) };
        let entries = entries(rng, (64e3, 64e6), MOST, &disturbances);
        let limit = ((most(&entries) as f64 * (0.6 + 0.8 * rng.f64())) as usize).next_multiple_of(2 << 20);
        let has_limit = rng.bool();
        let mut player = player(Virtual::new(if has_limit { 1 << 46 } else { limit }), "little");
        player.limit = has_limit.then_some(limit as u64);
        player.skips_failures = rng.bool();
        play(&mut player, &entries, |_, _| ());
        assert!(player.skipped.iter().all(gpucache::Error::is_out_of_memory), "{:?}", player.skipped);
        player.finish();
    });
}

/// Two streams of the host, whose arrays have contents.
#[test]
fn partly_regular_entries_on_the_host() {
    let _turn = turn();
    let streams = [Host::new_stream().unwrap(), Host::new_stream().unwrap()];
    seeds::each(PROGRAMS, 2, |seed| {
        let rng = &mut Rng::with_seed(seed);
        let disturbances = Disturbances::random(rng);
        let entries = entries(rng, (1.0, 8e3), MOST, &disturbances);
        // Each array of these streams costs a switch of threads.
        let [device, beside] = if rng.usize(..8) > 0 { [Host::new(), Host::new()] } else { streams.clone() };
        let mut player = player(device, "host");
        player.beside = rng.bool().then_some(beside);
        play(&mut player, &entries, |_, _| ());
        assert!(player.skipped.is_empty(), "{:?}", player.skipped);
        player.finish();
    });
}

/// Short entries, often without a burst at their beginning or their end. Many arrays outlive their entry.
#[test]
fn short_partly_regular_entries() {
    let _turn = turn();
    let paged = Paged::new(400);
    seeds::each(PROGRAMS, 1, |seed| {
        let rng = &mut Rng::with_seed(seed);
        let disturbances = Disturbances { rare: [usize::MAX, 300, 60, 20][rng.usize(..4)], ..Disturbances::NONE };
        let entries = short_entries(rng, (1.0, 8e3), &disturbances);
        if rng.bool() {
            short(player(Host::new(), "short, host"), &entries);
        } else {
            short(player(paged.clone(), "short, paged"), &entries);
        }
    });
}

fn short<D: Checked>(mut player: Player<D>, entries: &[Entry]) {
    play(&mut player, entries, |_, _| ());
    assert!(player.skipped.is_empty(), "{:?}", player.skipped);
    player.finish();
}

/// Pages with contents. There are too few of them for some programs.
#[test]
fn partly_regular_entries_on_few_pages() {
    let _turn = turn();
    let devices = [24, 60, 200].map(Paged::new);
    seeds::each(PROGRAMS, 1, |seed| {
        let rng = &mut Rng::with_seed(seed);
        let disturbances = Disturbances::random(rng);
        let entries = entries(rng, (1.0, 12e3), MOST, &disturbances);
        let mut player = player(devices[seed as usize % 3].clone(), "paged");
        player.skips_failures = rng.bool();
        play(&mut player, &entries, |_, _| ());
        assert!(player.skipped.iter().all(gpucache::Error::is_out_of_memory), "{:?}", player.skipped);
        player.finish();
    });
}

/// Any call may fail, once or until the next entry. Allocations on another stream of the same device come in between.
#[test]
fn partly_regular_entries_on_a_device_that_fails() {
    let _turn = turn();
    seeds::each(PROGRAMS, 2, |seed| {
        // A device of chunks is never forgotten, and each existing one makes invalidations slower.
        if seed >= 4000 {
            return;
        }
        let rng = &mut Rng::with_seed(seed);
        let disturbances = Disturbances::random(rng);
        let entries = entries(rng, (1.0, 8e3), MOST, &disturbances);
        let device = if rng.bool() { Faulty::with_chunks(usize::MAX) } else { Faulty::with_chunks(4 << 20) };
        let mut player = player(device.clone(), "failing");
        player.beside = rng.bool().then(|| device.another_stream());
        player.skips_failures = rng.bool();
        let faults: Vec<Option<Fault>> = entries.iter().map(|_| fault(rng)).collect();
        play(&mut player, &entries, |player, entry| match faults[entry] {
            Some(fault) => player.device().arm(fault),
            None => player.device().disarm(),
        });
        device.disarm();
        player.finish();
        device.assert_clean();
    });
}

fn fault(rng: &mut Rng) -> Option<Fault> {
    let failure = [Failure::Device, Failure::OutOfMemory][rng.usize(..2)];
    let at = rng.u64(1..2000);
    match rng.usize(..4) {
        0 => Some(Fault::once(at, failure)),
        1 => Some(Fault::for_ever(at, failure)),
        _ => None,
    }
}

/// An array of the regular part is still alive when the next entry begins, and the gap at the end of the plan was empty. Its place must
/// not be used again.
#[test]
fn an_array_stays_that_outlives_an_entry_without_its_last_burst() {
    let _turn = turn();
    for (place, alive) in [(15, 1), (15, 3), (14, 3), (13, 3)] {
        let name = format!("partly: {place} of {alive} without the last burst");
        let mut sizes = Rng::with_seed(3);
        for _ in 0..30 {
            drop(without_the_last_burst(&name, alive, sizes.usize(1..40), None));
        }
        let before = gpucache::stats(&name).unwrap().served.planned.allocations;
        let kept = without_the_last_burst(&name, alive, 0, Some(place)).unwrap();
        assert!(gpucache::stats(&name).unwrap().served.planned.allocations > before, "no plan was made");
        drop(without_the_last_burst(&name, alive, sizes.usize(1..40), None));
        drop(without_the_last_burst(&name, alive, 0, None));
        assert!(kept.iter().all(|&byte| byte == KEPT), "array {place} was overwritten");
    }
}

/// The contents of an array that is kept.
const KEPT: u8 = 200;

/// An entry with 16 regular arrays, of which so many are alive at once, and a burst of so many at its end.
fn without_the_last_burst(name: &str, alive: usize, burst: usize, keeps: Option<usize>) -> Option<Array<u8, Host>> {
    let _scope = Scope::new(name).enter();
    let (host, mut kept, mut held) = (Host::new(), None, VecDeque::new());
    for place in 0..16 {
        let mark = if keeps == Some(place) { KEPT } else { place as u8 };
        // What fills only a little of a plan's memory stays there.
        let bytes = if place < 13 { 40_000 + 5000 * place } else { 100 * place };
        let array = Array::full(&host, bytes, mark).unwrap();
        match keeps == Some(place) {
            true => kept = Some(array),
            false => held.push_back(array),
        }
        if held.len() == alive {
            held.pop_front();
        }
    }
    drop(held);
    let bytes = |place: usize| 1000 + 7919 * place % 19_000;
    let burst: Vec<_> = (0..burst).map(|place| Array::full(&host, bytes(place + burst), 100u8).unwrap()).collect();
    drop(burst);
    kept
}
