//! Shapes that never come twice. A program with new shapes in each entry stays as fast as at the beginning, and the process does
//! not grow. Shapes that do come again are still found, and kept memory can be given back.
//!
//! `ENTRIES` sets how many entries a program has, 40,000 by default; a release build plays a million in seconds. Statistics and
//! sizes belong to the whole process, so the tests take turns.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use gpucache::device::{Device, Virtual};
use gpucache::{Array, invalidate_all, stats, stats::ScopeStats};
use gpucache::{Recycle, Scope};
use gpucache_tests::counting::{Counting, held_bytes};
use gpucache_tests::process::{median, number, resident};
use gpucache_tests::turn;

#[global_allocator]
static COUNTING: Counting = Counting;

/// The entries before the first timed ones.
const WARMING: usize = 10_000;
/// The entries that are timed together, at the beginning and at the end.
const TIMED: usize = 1_000;
/// The bytes by which the process, and below the heap, may grow once the program is warm. A process that frees memory can grow as
/// well.
const GROWTH: u64 = 20 << 20;
const HEAP_GROWTH: i64 = 2 << 20;
/// How much slower the last entries may be than the first ones.
const SLOWER: f64 = 1.2;
/// The attempts to show that they are not slower, on a machine that does other things as well.
const ATTEMPTS: usize = 3;

fn entries() -> usize {
    (number("ENTRIES").unwrap_or(40_000) as usize).max(WARMING + 2 * TIMED)
}

/// The observations about a program.
struct Seen {
    /// The median times of an entry, just warm and after many entries.
    times: [Duration; 2],
    /// By how much the process grew in between, if that can be measured.
    growth: u64,
    /// By how much the heap grew.
    heap: i64,
    /// The statistics of the scope before the last entries, and at the end.
    stats: [ScopeStats; 2],
}

/// Plays a program in a scope of its own, with the numbers from `first` on. The last entries take turns with those of a scope that is just
/// warm, so a machine that becomes slower or faster meanwhile affects both. State that all scopes share would slow both down: the heap shows
/// its growth.
fn play(name: &str, recycle: Recycle, first: usize, entry: &impl Fn(usize)) -> Seen {
    let one = |name: &str, number| {
        let start = Instant::now();
        let scope = Scope::new(name).recycle(recycle).enter();
        entry(number);
        drop(scope);
        start.elapsed()
    };
    let all = |name: &str, numbers: std::ops::Range<usize>| numbers.for_each(|number| _ = one(name, number));
    let end = first + entries();
    all(name, first..first + WARMING + TIMED);
    let (size, held) = (resident(), held_bytes());
    all(name, first + WARMING + TIMED..end - TIMED);
    let before = stats(name).unwrap();
    let growth = size.zip(resident()).map_or(0, |(early, late)| late.saturating_sub(early));
    let heap = held_bytes() - held;
    let young = format!("{name}, young");
    all(&young, end..end + WARMING);
    let pairs = (0..TIMED).map(|number| (one(&young, end + WARMING + number), one(name, end - TIMED + number)));
    let (early, late) = pairs.unzip();
    Seen { times: [median(early), median(late)], growth, heap, stats: [before, stats(name).unwrap()] }
}

/// Plays a program of entries with new shapes on a device of its own, and checks all conditions. Returns the first observations.
fn endures<D: Device>(name: &str, recycle: Recycle, device: &D, entry: impl Fn(usize)) -> Seen {
    let seen = play(name, recycle, 0, &entry);
    println!("{name}: {:?} an entry, {} and {} bytes more, {:?}", seen.times, seen.growth, seen.heap, seen.stats[1]);
    assert!(seen.heap <= HEAP_GROWTH, "{name}: the heap grew by {} bytes", seen.heap);
    assert!(seen.growth <= GROWTH, "{name}: the process grew by {} bytes", seen.growth);
    let is_slower = |[early, late]: [Duration; 2]| late.as_secs_f64() > SLOWER * early.as_secs_f64();
    let mut times = vec![seen.times];
    while is_slower(times[times.len() - 1]) {
        assert!(times.len() < ATTEMPTS, "{name}: an entry takes longer and longer: {times:?}");
        // Other numbers under another name, which is as new as the first name was.
        let attempt = times.len();
        times.push(play(&format!("{name}, {attempt}"), recycle, 2 * attempt * entries(), &entry).times);
    }
    invalidate_all();
    device.trim();
    let left = stats(name).unwrap();
    assert_eq!((left.idle_blocks, left.idle_bytes, left.busy_blocks), (0, 0, 0), "{name}: what was kept is given back");
    assert_eq!(device.memory().bytes, 0, "{name}: all the way to the device");
    seen
}

/// Dims that no other number has, of at most a few megabytes.
fn dims(number: usize) -> [usize; 2] {
    [number % 1000 + 1, number / 1000 + 1]
}

fn under(recycle: Recycle, shape: &str, entry: impl Fn(&Virtual, usize)) {
    let _turn = turn();
    let device = Virtual::unchecked(1 << 46);
    endures(&format!("{shape}, {recycle:?}"), recycle, &device, |number| entry(&device, number));
}

fn one_array(device: &Virtual, number: usize) {
    drop(Array::<u8, _>::zeros(device, dims(number)).unwrap());
}

#[test]
fn one_array_planned() {
    under(Recycle::Auto, "one array", one_array);
}

#[test]
fn one_array_from_the_range() {
    under(Recycle::Range, "one array", one_array);
}

/// Sequences of a length that no other step has, and arrays computed from them.
fn a_step(device: &Virtual, number: usize) {
    let tokens = Array::<u32, _>::zeros(device, number + 1).unwrap();
    let activations = Array::<f32, _>::zeros(device, [number + 1, 16]).unwrap();
    let scores = activations.try_clone().unwrap();
    drop((tokens, activations));
    drop(Array::<f32, _>::zeros(device, [16, number + 1]).unwrap());
    drop(scores);
}

#[test]
fn a_step_planned() {
    under(Recycle::Auto, "a step", a_step);
}

#[test]
fn a_step_from_the_range() {
    under(Recycle::Range, "a step", a_step);
}

/// Arrays without bytes are never over a budget of bytes.
fn an_empty_array(device: &Virtual, number: usize) {
    drop(Array::<u8, _>::zeros(device, [number + 1, 0]).unwrap());
}

#[test]
fn an_empty_array_planned() {
    under(Recycle::Auto, "an empty array", an_empty_array);
}

#[test]
fn an_empty_array_from_the_range() {
    under(Recycle::Range, "an empty array", an_empty_array);
}

/// Arrays of many dimensions without bytes, in shapes that records have no room for.
#[test]
fn many_dims_without_bytes() {
    under(Recycle::Auto, "many dims", |device, number| {
        drop(Array::<[u8; 0], _>::zeros(device, [1, 2, 1, 2, 1, 2, 1, number + 1]).unwrap());
    });
}

/// Arrays that come in each entry are found beside one that never came before.
fn hot_shapes(recycle: Recycle, name: &str) {
    const HOT: usize = 5;
    let _turn = turn();
    let device = Virtual::unchecked(1 << 46);
    let entry = |number| {
        let _hot: [Array<f32, _>; HOT] = std::array::from_fn(|place| Array::zeros(&device, 100 + place).unwrap());
        drop(Array::<u8, _>::zeros(&device, dims(number)).unwrap());
        let _empty = Array::<u8, _>::zeros(&device, [0, number]).unwrap();
    };
    let Seen { stats: [before, after], .. } = endures(name, recycle, &device, entry);
    let (hits, asked) = (after.hits - before.hits, (HOT * TIMED) as u64);
    assert!(hits >= asked * 99 / 100, "{name}: {hits} hits of {asked} that came in each entry");
}

#[test]
fn hot_shapes_planned() {
    hot_shapes(Recycle::Auto, "hot shapes, planned");
}

#[test]
fn hot_shapes_from_the_range() {
    hot_shapes(Recycle::Range, "hot shapes, from the range");
}
