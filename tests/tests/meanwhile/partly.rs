//! Entries that are regular in part, while other threads disturb their scopes or take their memory. Contents stay, and all memory can be
//! freed.
//!
//! `PROGRAMS` sets the number of programs. `SEED=n` runs only the n-th one.

use fastrand::Rng;
use gpucache::device::{Device, Virtual};
use gpucache::{Scope, invalidate, trace};
use gpucache_tests::meanwhile::{beside, disturb};
use gpucache_tests::paged::{PAGE, Paged};
use gpucache_tests::play::entries::bound;
use gpucache_tests::play::loop_programs::{Entry, play};
use gpucache_tests::play::partly::disturbed::{Disturbances, entries};
use gpucache_tests::play::{Checked, Player};
use gpucache_tests::{seeds, turn};

const PROGRAMS: u64 = 24;
const SCOPES: usize = 2;
/// The most regular allocations of an entry.
const MOST: usize = 200;

fn names(test: &str) -> [String; SCOPES] {
    [0, 1].map(|scope| format!("partly meanwhile, {test}, {scope}"))
}

fn player<D: Checked>(device: D, test: &str) -> Player<D> {
    let mut player = Player::new(device, names(test));
    player.is_disturbed = true;
    player
}

/// The most bytes that are alive in an entry.
fn most(entries: &[Entry]) -> u64 {
    entries.iter().map(|entry| bound(&entry.ops)).max().unwrap_or(0)
}

fn meanwhile<D: Checked>(seed: u64, device: &D, test: &str, has_enough: bool) {
    let _turn = turn();
    let rng = &mut Rng::with_seed(seed);
    let disturbances = if rng.bool() { Disturbances::NONE } else { Disturbances::random(rng) };
    let entries = entries(rng, (1.0, 12e3), MOST, &disturbances);
    let mut player = player(device.clone(), test);
    player.skips_failures = rng.bool();
    player.limit = (rng.u8(..4) == 0).then(|| most(&entries) * 5 / 4);
    let names = names(test);
    beside(rng, |number| disturb(device, &names, number), || _ = play(&mut player, &entries, |_, _| ()));
    drop(trace::stop());
    let is_expected = |error: &gpucache::Error| error.is_out_of_memory() && (player.limit.is_some() || !has_enough);
    assert!(player.skipped.iter().all(is_expected), "{:?}", player.skipped);
    player.finish();
}

#[test]
fn contents_stay() {
    let devices = [8, 24, 60, 200].map(Paged::new);
    seeds::each(PROGRAMS, 1, |seed| meanwhile(seed, &devices[seed as usize % 4], "paged", false));
}

#[test]
fn rules_are_kept() {
    seeds::each(PROGRAMS, 1, |seed| meanwhile(seed, &Virtual::new(1 << 46), "checked", true));
}

#[test]
fn plans_serve_fast() {
    seeds::each(PROGRAMS, 1, |seed| meanwhile(seed, &Virtual::unchecked(1 << 46), "unchecked", true));
}

/// Each thread has a scope of its own. Together they need more memory than there is, so they take arenas from each other.
#[test]
fn threads_compete_for_memory() {
    // A thread waits for memory a quarter of a second before an allocation fails.
    seeds::each(PROGRAMS, 2, |seed| {
        let _turn = turn();
        let rng = &mut Rng::with_seed(seed);
        let disturbances = if rng.bool() { Disturbances::NONE } else { Disturbances::random(rng) };
        let threads: Vec<Vec<Entry>> = (0..3).map(|_| entries(rng, (1.0, 12e3), MOST, &disturbances)).collect();
        let all: u64 = threads.iter().map(|entries| most(entries)).sum();
        let device = Paged::new(((all as f64 * (0.4 + 0.9 * rng.f64())) as u64).div_ceil(PAGE) + 3);
        std::thread::scope(|scope| {
            for (number, entries) in threads.iter().enumerate() {
                let device = device.clone();
                scope.spawn(move || {
                    let mut player = player(device, &format!("compete {number}"));
                    player.skips_failures = true;
                    play(&mut player, entries, |_, _| ());
                    assert!(player.skipped.iter().all(gpucache::Error::is_out_of_memory), "{:?}", player.skipped);
                    player.drop_kept();
                    player.drop_old();
                    player.verify();
                });
            }
        });
        (0..3).flat_map(|number| names(&format!("compete {number}"))).for_each(|name| _ = invalidate(name));
        device.trim();
        assert_eq!(device.memory().bytes, 0, "the device holds memory that nobody uses");
    });
}

/// An entry that is regular in part runs inside the burst of another one, and as one entry with others after it.
#[test]
fn entries_nest_and_join() {
    seeds::each(PROGRAMS, 1, |seed| {
        let _turn = turn();
        let rng = &mut Rng::with_seed(seed);
        let outer = entries(rng, (1.0, 12e3), MOST, &Disturbances::NONE);
        let inner = entries(rng, (1.0, 12e3), MOST / 4, &Disturbances::NONE);
        let device = Virtual::new(1 << 46);
        let (mut first, mut second) = (player(device.clone(), "outer"), player(device.clone(), "inner"));
        let joins = rng.bool();
        let whole = joins.then(|| Scope::new("partly meanwhile, whole").enter());
        for (entry, within) in outer.iter().zip(inner.iter().cycle()) {
            // The inner entry comes while the outer scope is open, after its arrays of this entry.
            let guard = Scope::new(&names("outer")[0]).enter();
            play(&mut second, std::slice::from_ref(within), |_, _| ());
            drop(guard);
            play(&mut first, std::slice::from_ref(entry), |_, _| ());
        }
        drop(whole);
        for mut player in [first, second] {
            assert!(player.skipped.is_empty(), "{:?}", player.skipped);
            player.drop_kept();
            player.drop_old();
            player.verify();
        }
        ["outer", "inner"].iter().flat_map(|test| names(test)).for_each(|name| _ = invalidate(name));
        _ = invalidate("partly meanwhile, whole");
        device.trim();
        device.synchronize().unwrap();
        assert_eq!(device.memory().bytes, 0, "the device holds memory that nobody uses");
    });
}
