//! Random programs of entries with loops. The loops begin, end, nest, change their sizes and are interrupted. No memory is handed out
//! twice, contents stay, statistics equal those of a naive model, and all memory can be freed.
//!
//! `PROGRAMS` sets the number of programs on each device. `SEED=n` runs only the n-th one.

use fastrand::Rng;
use gpucache::Scope;
use gpucache::device::Virtual;
use gpucache::prelude::*;
use gpucache_tests::Faulty;
use gpucache_tests::faulty::{Failure, Fault};
use gpucache_tests::paged::Paged;
use gpucache_tests::play::entries::bound;
use gpucache_tests::play::loop_programs::{kind, play, program, sweep};
use gpucache_tests::play::{Checked, Player};
use gpucache_tests::seeds;

/// The first scope has the loops. The second one is entered inside them.
const SCOPES: usize = 2;
const PROGRAMS: u64 = 40;
/// The share of undisturbed programs of which a first entry has to be planned in part. In others, arrays live too long, or the loop is
/// too short to be found.
const PLANNED: f64 = 0.3;

/// A player in scopes that later programs of this test use too.
fn player<D: Checked>(device: D, test: &str) -> Player<D> {
    Player::new(device, (0..SCOPES).map(|scope| format!("loops, {test}, {scope}")))
}

#[test]
fn loops_are_planned_in_their_first_entry() {
    let (mut planned, mut programs) = (0, 0);
    seeds::each(PROGRAMS, 1, |seed| {
        let rng = &mut Rng::with_seed(seed);
        let kind = kind(rng, (1, 1 << 20));
        let entries = program(rng, &kind, false);
        let mut player = player(Virtual::new(1 << 46), "plain");
        planned += u64::from(play(&mut player, &entries, |_, _| ()) > 0);
        programs += 1;
        assert!(player.skipped.is_empty(), "{:?}", player.skipped);
        player.finish();
    });
    let is_enough = programs < 20 || f64::from(programs) * PLANNED < planned as f64;
    assert!(is_enough, "{planned} of {programs} programs have a planned loop");
}

#[test]
fn loops_are_disturbed() {
    seeds::each(PROGRAMS, 1, |seed| {
        let rng = &mut Rng::with_seed(seed);
        let bytes = [(1, 4 << 10), (64 << 10, 64 << 20), (1, 64 << 20)][rng.usize(0..3)];
        let kind = kind(rng, bytes);
        let entries = program(rng, &kind, true);
        let mut player = player(Virtual::new(1 << 46), "disturbed");
        player.beside = rng.bool().then(|| Virtual::new(1 << 46));
        play(&mut player, &entries, |_, _| ());
        assert!(player.skipped.is_empty(), "{:?}", player.skipped);
        player.finish();
    });
}

/// Programs one behind the other, of which nothing stays.
#[test]
fn programs_are_disturbed() {
    seeds::each(PROGRAMS, 1, |seed| {
        let rng = &mut Rng::with_seed(seed);
        let kind = kind(rng, [(1, 4 << 10), (64 << 10, 64 << 20)][rng.clone().usize(0..2)]);
        let entries = sweep(rng, &kind, rng.clone().bool());
        let mut player = player(Virtual::new(1 << 46), "programs");
        player.beside = rng.bool().then(|| Virtual::new(1 << 46));
        play(&mut player, &entries, |_, _| ());
        assert!(player.skipped.is_empty(), "{:?}", player.skipped);
        player.finish();
    });
}

#[test]
fn loops_with_little_memory() {
    seeds::each(PROGRAMS, 1, |seed| {
        let rng = &mut Rng::with_seed(seed);
        let kind = kind(rng, (64 << 10, 64 << 20));
        let is_disturbed = rng.bool();
        let entries = program(rng, &kind, is_disturbed);
        let most = entries.iter().map(|entry| bound(&entry.ops)).max().unwrap_or(0);
        let limit = ((most as f64 * (0.6 + 0.8 * rng.f64())) as usize).next_multiple_of(2 << 20);
        let mut player = player(Virtual::new(limit), "little");
        player.skips_failures = rng.bool();
        play(&mut player, &entries, |_, _| ());
        assert!(player.skipped.iter().all(gpucache::Error::is_out_of_memory), "{:?}", player.skipped);
        player.finish();
    });
}

/// Two streams of the host, whose arrays have contents.
#[test]
fn loops_on_the_host() {
    let streams = [Host::new_stream().unwrap(), Host::new_stream().unwrap()];
    seeds::each(PROGRAMS, 4, |seed| {
        let rng = &mut Rng::with_seed(seed);
        let kind = kind(rng, (1, 8 << 10));
        let entries =
            if seed % 4 == 0 { sweep(rng, &kind, seed % 8 == 0) } else { program(rng, &kind, rng.clone().bool()) };
        // Each array of these streams costs a switch of threads.
        let [device, beside] = if rng.usize(0..8) > 0 { [Host::new(), Host::new()] } else { streams.clone() };
        let mut player = player(device, "host");
        player.beside = rng.bool().then_some(beside);
        play(&mut player, &entries, |_, _| ());
        assert!(player.skipped.is_empty(), "{:?}", player.skipped);
        player.finish();
    });
}

/// Any call may fail, once or until the next entry. Allocations on another stream of the same device come in between.
#[test]
fn loops_on_a_device_that_fails() {
    seeds::each(PROGRAMS, 4, |seed| {
        // A device of chunks is never forgotten, and each existing one makes invalidations slower.
        if seed >= 4000 {
            return;
        }
        let rng = &mut Rng::with_seed(seed);
        let kind = kind(rng, (1, 8 << 10));
        let entries = program(rng, &kind, rng.clone().bool());
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
    let failure = [Failure::Device, Failure::OutOfMemory][rng.usize(0..2)];
    let at = rng.u64(1..5000);
    match rng.usize(0..4) {
        0 => Some(Fault::once(at, failure)),
        1 => Some(Fault::for_ever(at, failure)),
        _ => None,
    }
}

/// Another thread needs the memory of the plan, in which nothing is alive just then. The next allocation finds that out.
#[test]
fn an_allocation_whose_plan_was_taken_away_counts_once() {
    const PAGE: usize = 2 << 20;
    let device = Virtual::new(4 * PAGE);
    let entry = |need: usize| {
        Scope::new("loops: taken away").run(|| {
            drop(device.zeros::<u8>(PAGE).unwrap());
            std::thread::scope(|threads| _ = threads.spawn(|| device.zeros::<u8>(need).map(drop).unwrap()));
            drop(device.zeros::<u8>(3 * PAGE).unwrap());
        });
    };
    (0..6).for_each(|_| entry(0));
    let stats = || gpucache::stats("loops: taken away").unwrap();
    let (before, planned) = (stats().allocations(), stats().served.planned.allocations);
    assert!(planned > 0);
    entry(4 * PAGE);
    assert_eq!(stats().allocations() - before, 2);
    assert_eq!(stats().served.planned.allocations - planned, 1);
}

/// While a graph is captured, no iteration ends. If that takes so long that the log is full, the search begins anew.
#[test]
fn a_loop_is_found_and_a_graph_is_captured_for_long() {
    const LONGEST_LOG: usize = 1 << 17;
    const ALL: usize = LONGEST_LOG + 4000;
    let device = Paged::new(8);
    let allocate = |places: std::ops::Range<usize>| {
        places.for_each(|place| drop(device.zeros::<u8>(100 + place % 40).unwrap()));
    };
    Scope::new("loops: captured").run(|| {
        allocate(0..160);
        device.set_capturing(true);
        // The log is full some allocations before the end.
        allocate(160..LONGEST_LOG + 20);
        device.set_capturing(false);
        allocate(LONGEST_LOG + 20..ALL);
    });
    let stats = gpucache::stats("loops: captured").unwrap();
    assert_eq!(stats.allocations(), ALL as u64);
    assert!(stats.served.planned.allocations > 2000, "{stats}");
}
