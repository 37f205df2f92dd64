//! Checks that out-of-memory errors are true: random programs near a device's capacity, in all kinds of scopes, beside a naive
//! model that counts pages.
//!
//! Live arrays cannot be moved, so the pages that they touch are taken. All other pages are available, wherever they are mapped and
//! whoever keeps them. If enough of them are left and a request fails all the same, this is a false shortage. Plain allocations
//! take their bytes and no pages.
//!
//! Half of the programs run on a device that is large enough, under a limit that changes now and then. The reserved memory never
//! exceeds the limit, except for arrays that were already alive when the limit was set.
//!
//! `PROGRAMS` sets how many programs run, 3,000 by default; a release build plays 100,000 in a minute. `SEED=n` runs only the n-th.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use fastrand::Rng;
use gpucache::device::{Device, Virtual};
use gpucache::{Array, invalidate};
use gpucache::{Recycle, Scope, ScopeGuard};
use gpucache_tests::seeds;

const PROGRAMS: u64 = 3_000;
const PAGE: u64 = 2 << 20;
/// The addresses of the range begin here. Those of plain allocations lie below.
const RANGE: u64 = 1 << 48;
/// The size of a full batch. Others are smaller by tenths.
const FULL: usize = 10;
const NAMES: usize = 3;

/// A step of an entry. Sizes are for a tenth of a batch.
#[derive(Clone, Copy)]
enum Step {
    Allocate {
        tenth: usize,
        /// Whether its size is the same for all batches.
        is_fixed: bool,
        /// Whether the array goes to the pool.
        leaves: bool,
    },
    /// Drops the array that the entry allocated at this place.
    Drop(usize),
    DropPooled,
    Enter(usize),
    Uncached,
    Leave,
}

/// The properties of all entries of a program.
struct Program {
    capacity: u64,
    /// Whether the capacity is a limit on a larger device.
    is_limited: bool,
    /// The steps of each name. At times, one is nested in another.
    entries: Vec<Vec<Step>>,
    /// The policy of all scopes, if they have the same.
    recycle: Option<Recycle>,
    /// One of this many entries deviates.
    deviates: usize,
    /// How many arrays the pool holds.
    pool: usize,
}

impl Program {
    fn new(rng: &mut Rng) -> Program {
        let capacity = rng.u64(16..=256) * PAGE;
        let names = rng.usize(1..=NAMES);
        let mut entries: Vec<Vec<Step>> = Vec::new();
        for name in (0..names).rev() {
            let mut steps = entry(rng, capacity);
            if let Some(inner) = entries.last().filter(|_| rng.bool()) {
                nest(rng, &mut steps, name + 1, inner);
            }
            entries.push(steps);
        }
        entries.reverse();
        let policies = [Recycle::Auto, Recycle::Auto, Recycle::Range, Recycle::Keyed, Recycle::Off];
        let recycle = (rng.usize(0..3) > 0).then(|| policies[rng.usize(0..policies.len())]);
        let (deviates, pool, is_limited) = (rng.usize(2..20), rng.usize(0..6), rng.bool());
        Program { capacity, is_limited, entries, recycle, deviates, pool }
    }

    fn recycle(&self, rng: &mut Rng) -> Recycle {
        let any = [Recycle::Auto, Recycle::Auto, Recycle::Range, Recycle::Keyed, Recycle::Off];
        self.recycle.unwrap_or_else(|| any[rng.usize(0..any.len())])
    }
}

/// A tenth of a size: a few bytes, some pages, or a good part of the capacity.
fn tenth(rng: &mut Rng, capacity: u64) -> usize {
    let most = capacity as f64 / FULL as f64;
    let part = match rng.usize(0..4) {
        0 => return 256 * rng.usize(1..=4),
        1 => 0.02 * rng.f64(),
        2 => 0.2 * rng.f64(),
        _ => 0.1 + 0.5 * rng.f64(),
    };
    (most * part) as usize + 1
}

fn allocate(rng: &mut Rng, capacity: u64) -> Step {
    let leaves = rng.usize(0..6) == 0;
    let tenth = tenth(rng, capacity) / if leaves { 8 } else { 1 } + 1;
    Step::Allocate { tenth, is_fixed: rng.usize(0..4) == 0, leaves }
}

fn entry(rng: &mut Rng, capacity: u64) -> Vec<Step> {
    let (mut steps, mut held) = (Vec::new(), Vec::new());
    let most = rng.usize(1..=6);
    for place in 0..rng.usize(2..=10) {
        steps.push(allocate(rng, capacity));
        held.push(place);
        while held.len() > most || !held.is_empty() && rng.usize(0..4) == 0 {
            steps.push(Step::Drop(held.swap_remove(rng.usize(0..held.len()))));
        }
        match rng.usize(0..30) {
            0 => steps.extend([Step::Uncached, allocate(rng, capacity), Step::Leave]),
            1..4 => steps.push(Step::DropPooled),
            _ => {}
        }
    }
    steps
}

/// Puts an entry of another name into an entry.
fn nest(rng: &mut Rng, steps: &mut Vec<Step>, name: usize, inner: &[Step]) {
    let at = rng.usize(0..=steps.len());
    let inner = [Step::Enter(name)].into_iter().chain(inner.iter().copied()).chain([Step::Leave]);
    steps.splice(at..at, inner.collect::<Vec<_>>());
}

/// How many requests there were, and how many of them failed as they had to.
#[derive(Debug, Default)]
struct Counts {
    requests: u64,
    shortages: u64,
}

/// A running program.
struct Run<'a> {
    program: &'a Program,
    device: Virtual,
    slots: Vec<Option<Array<u8, Virtual>>>,
    pool: Vec<Array<u8, Virtual>>,
    guards: Vec<(ScopeGuard, Recycle)>,
    /// How much memory may be reserved now.
    capacity: u64,
    counts: &'a mut Counts,
}

impl Run<'_> {
    fn entry(&mut self, rng: &mut Rng, name: usize, scale: usize) {
        let program = self.program;
        self.enter(rng, name);
        let deviates = rng.usize(0..program.deviates) == 0;
        let goes_on = rng.bool();
        for &step in &program.entries[name] {
            if deviates && rng.usize(0..8) == 0 {
                match rng.usize(0..3) {
                    0 => {
                        let extra = allocate(rng, program.capacity);
                        self.step(rng, extra, scale);
                    }
                    1 if matches!(step, Step::Allocate { .. }) => {
                        self.slots.push(None);
                        continue;
                    }
                    _ => break,
                }
            }
            if !self.step(rng, step, scale) && !goes_on {
                break;
            }
        }
        rng.shuffle(&mut self.slots);
        self.slots.clear();
        while self.guards.pop().is_some() {}
    }

    fn enter(&mut self, rng: &mut Rng, name: usize) {
        let recycle = self.program.recycle(rng);
        self.guards.push((Scope::new(&format!("false shortage, {name}")).recycle(recycle).enter(), recycle));
    }

    /// Returns whether a request got its memory; true for other steps.
    fn step(&mut self, rng: &mut Rng, step: Step, scale: usize) -> bool {
        match step {
            Step::Allocate { tenth, is_fixed, leaves } => {
                let array = self.allocate(tenth * if is_fixed { FULL } else { scale });
                let had = array.is_some();
                match leaves && self.program.pool > 0 {
                    true => {
                        self.pool.extend(array);
                        self.slots.push(None);
                    }
                    false => self.slots.push(array),
                }
                while self.pool.len() > self.program.pool {
                    self.pool.swap_remove(rng.usize(0..self.pool.len()));
                }
                return had;
            }
            Step::Drop(place) => drop(self.slots.get_mut(place).and_then(Option::take)),
            Step::DropPooled if !self.pool.is_empty() => drop(self.pool.swap_remove(rng.usize(0..self.pool.len()))),
            Step::DropPooled => {}
            Step::Enter(name) => self.enter(rng, name),
            Step::Uncached => self.guards.push((ScopeGuard::outside(), Recycle::Off)),
            Step::Leave => drop(self.guards.pop()),
        }
        true
    }

    /// Sets another limit of at most the capacity. If it is lower, idle memory goes back at once.
    fn limit(&mut self, rng: &mut Rng) {
        let all = self.program.capacity;
        self.capacity = if rng.bool() { all } else { all / PAGE * rng.u64(50..=100) / 100 * PAGE };
        self.device.set_limit(self.capacity).unwrap();
        let (held, taken) = (self.device.memory().bytes, self.taken());
        assert!(held <= self.capacity.max(taken), "{held} are held, {taken} taken, {} allowed", self.capacity);
    }

    fn allocate(&mut self, bytes: usize) -> Option<Array<u8, Virtual>> {
        self.counts.requests += 1;
        let before = self.device.memory().bytes;
        let answer = Array::zeros(&self.device, bytes);
        let held = self.device.memory().bytes;
        assert!(held <= self.capacity.max(before), "{held} are held, {} allowed", self.capacity);
        match answer {
            Ok(array) => Some(array),
            Err(error) => {
                assert!(error.is_out_of_memory() && error.shortage().is_some(), "{error}");
                self.counts.shortages += 1;
                let is_plain = self.guards.last().is_none_or(|(_, recycle)| *recycle == Recycle::Off);
                let taken = self.taken();
                let needed = if is_plain { bytes as u64 } else { (bytes as u64).next_multiple_of(PAGE) };
                let capacity = self.capacity;
                assert!(
                    taken + needed > capacity,
                    "a false shortage: {bytes} bytes would do with {needed}, of {capacity} {taken} are taken: {error}"
                );
                None
            }
        }
    }

    /// The bytes of the pages that live arrays touch, and of plain allocations.
    fn taken(&self) -> u64 {
        let (mut pages, mut plain) = (BTreeSet::new(), 0);
        for array in self.slots.iter().flatten().chain(&self.pool) {
            let (start, bytes) = (array.address(), array.byte_len() as u64);
            match start >= RANGE {
                true => pages.extend(start / PAGE..=(start + bytes - 1) / PAGE),
                false => plain += bytes,
            }
        }
        pages.len() as u64 * PAGE + plain
    }
}

/// Plays a program on its own device, in scopes that later programs use as well.
fn play(seed: u64, counts: &mut Counts) {
    let rng = &mut Rng::with_seed(seed);
    let program = Program::new(rng);
    let device = Virtual::new(program.capacity as usize * if program.is_limited { 4 } else { 1 });
    let (slots, pool, guards, capacity) = (Vec::new(), Vec::new(), Vec::new(), program.capacity);
    if program.is_limited {
        device.set_limit(capacity).unwrap();
    }
    let mut run = Run { program: &program, device: device.clone(), slots, pool, guards, capacity, counts };
    let varies = rng.usize(0..3) > 0;
    for _ in 0..rng.usize(5..=30) {
        let name = rng.usize(0..program.entries.len()).min(rng.usize(0..program.entries.len()));
        let scale = if varies && rng.bool() { rng.usize(1..=FULL) } else { FULL };
        run.entry(rng, name, scale);
        if program.is_limited && rng.usize(0..5) == 0 {
            run.limit(rng);
        }
    }
    drop(run);
    (0..NAMES).for_each(|name| _ = invalidate(format!("false shortage, {name}")));
    device.trim();
    device.synchronize().unwrap();
    assert_eq!(device.memory().bytes, 0, "everything was given back");
}

#[test]
fn no_shortage_is_false() {
    let _turn = gpucache_tests::turn();
    let mut counts = Counts::default();
    seeds::each(PROGRAMS, 1, |seed| play(seed, &mut counts));
    println!("{counts:?}");
    let Counts { requests, shortages } = counts;
    let is_telling = shortages > requests / 100 && shortages < requests / 2;
    assert!(is_telling || requests < 10_000, "{counts:?}");
}
