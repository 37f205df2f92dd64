//! Random programs on two to four threads that allocate in the same scopes, invalidate them, and send arrays to each other.
//!
//! The machine decides how threads interleave, so the test checks only what holds in every order: every array contains exactly
//! what was written to it, every allocation is counted once, nothing stays in use, and the device gets everything back.
//! `PROPTEST_CASES` sets the number of programs.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};

use gpucache::device::Device;
use gpucache::prelude::Host;
use gpucache::{Recycle, Scope, ScopeGuard};
use gpucache::{invalidate, stats, stats::ScopeStats};
use gpucache_tests::model::{Key, SHAPES};
use gpucache_tests::{Faulty, Marked};
use proptest::prelude::*;

/// The number of scopes in a program.
const NAMES: usize = 2;

/// The operations of a thread. Their numbers select among the arrays or scopes that it has at that moment.
#[derive(Clone, Copy, Debug)]
enum Op {
    Enter { name: usize, keeps: bool },
    Uncached,
    Leave { guard: usize },
    Allocate { key: Key },
    Drop { array: usize },
    Clone { array: usize },
    Send { array: usize, to: usize },
    Receive,
    Invalidate { name: usize },
    Pause,
}

/// The state that the threads of a program share.
struct Program<'a, D: Device> {
    device: &'a D,
    names: [String; NAMES],
    start: Barrier,
    marks: AtomicU32,
    entries: [AtomicU64; NAMES],
    allocations: [AtomicU64; NAMES],
}

/// One thread of a program.
struct Worker<'a, D: Device> {
    program: &'a Program<'a, D>,
    senders: Vec<Sender<Marked<D>>>,
    inbox: Receiver<Marked<D>>,
    guards: Vec<(ScopeGuard, Option<usize>)>,
    arrays: Vec<Marked<D>>,
}

impl<D: Device> Worker<'_, D> {
    fn pick(&self, number: usize) -> Option<usize> {
        (!self.arrays.is_empty()).then(|| number % self.arrays.len())
    }

    fn count_allocation(&self) {
        if let Some((_, Some(name))) = self.guards.last() {
            self.program.allocations[*name].fetch_add(1, Relaxed);
        }
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Enter { name, keeps } => {
                let recycle = if keeps { Recycle::Keyed } else { Recycle::Off };
                self.guards.push((Scope::new(&self.program.names[name]).recycle(recycle).enter(), Some(name)));
                self.program.entries[name].fetch_add(1, Relaxed);
            }
            Op::Uncached => self.guards.push((ScopeGuard::outside(), None)),
            Op::Leave { guard } if !self.guards.is_empty() => drop(self.guards.remove(guard % self.guards.len())),
            Op::Leave { .. } => {}
            Op::Allocate { key } => {
                let mark = self.program.marks.fetch_add(1, Relaxed);
                self.arrays.push(Marked::new(self.program.device, key.kind, SHAPES[key.shape], mark).unwrap());
                self.count_allocation();
            }
            Op::Drop { array } => {
                if let Some(place) = self.pick(array) {
                    self.arrays.swap_remove(place).check();
                }
            }
            Op::Clone { array } => {
                if let Some(place) = self.pick(array) {
                    self.arrays.push(self.arrays[place].try_clone().unwrap());
                    self.count_allocation();
                }
            }
            Op::Send { array, to } => {
                if let Some(place) = self.pick(array) {
                    let to = to % self.senders.len();
                    // A thread that has ended receives nothing; the array is dropped here then.
                    drop(self.senders[to].send(self.arrays.swap_remove(place)));
                }
            }
            Op::Receive => self.arrays.extend(self.inbox.try_recv()),
            Op::Invalidate { name } => drop(invalidate(&self.program.names[name])),
            Op::Pause => std::thread::yield_now(),
        }
    }

    /// Runs the operations, leaves all scopes in the order of entry, and returns the remaining arrays.
    fn run(mut self, ops: &[Op]) -> Vec<Marked<D>> {
        self.program.start.wait();
        ops.iter().for_each(|op| self.step(*op));
        self.arrays.extend(self.inbox.try_iter());
        self.guards.drain(..).for_each(drop);
        self.arrays
    }
}

impl<'a, D: Device> Program<'a, D> {
    fn new(device: &'a D, threads: usize) -> Self {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let run = RUNS.fetch_add(1, Relaxed);
        let names = std::array::from_fn(|name| format!("threads {run}, {name}"));
        let (entries, allocations) = Default::default();
        Program { device, names, start: Barrier::new(threads), marks: AtomicU32::new(0), entries, allocations }
    }

    fn run(&self, ops: &[Vec<Op>]) {
        let (senders, inboxes): (Vec<_>, Vec<_>) = ops.iter().map(|_| channel()).unzip();
        let left: Vec<Marked<D>> = std::thread::scope(|threads| {
            let started = inboxes.into_iter().zip(ops).map(|(inbox, ops)| {
                let senders = Vec::clone(&senders);
                // Guards stay on their thread, so a worker is created there.
                let worker = || Worker { program: self, senders, inbox, guards: Vec::new(), arrays: Vec::new() };
                threads.spawn(move || worker().run(ops))
            });
            // All threads are started before the first one is joined.
            let started: Vec<_> = started.collect();
            started.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        self.check_numbers(left.len() as u64);
        left.iter().for_each(Marked::check);
        drop(left);
        self.check_numbers(0);
        for name in &self.names {
            let _ = invalidate(name);
            let found = stats(name).unwrap_or_default();
            assert_eq!((found.idle_blocks, found.idle_bytes), (0, 0), "what ended threads left can be had");
        }
    }

    /// Called when every thread has ended: only the `left` arrays are still in use.
    fn check_numbers(&self, left: u64) {
        let numbers: [ScopeStats; NAMES] = std::array::from_fn(|name| stats(&self.names[name]).unwrap_or_default());
        for (name, found) in numbers.iter().enumerate() {
            assert_eq!(found.entries, self.entries[name].load(Relaxed));
            assert_eq!(found.allocations(), self.allocations[name].load(Relaxed));
            assert!(left > 0 || (found.busy_blocks, found.busy_bytes) == (0, 0), "{found:?}");
        }
        assert!(numbers.iter().map(|found| found.busy_blocks).sum::<u64>() <= left);
    }
}

fn op() -> impl Strategy<Value = Op> {
    let key = (0..Key::ALL).prop_map(Key::number);
    prop_oneof![
        4 => (0..NAMES, prop::bool::weighted(0.85)).prop_map(|(name, keeps)| Op::Enter { name, keeps }),
        1 => Just(Op::Uncached),
        3 => any::<usize>().prop_map(|guard| Op::Leave { guard }),
        12 => key.prop_map(|key| Op::Allocate { key }),
        7 => any::<usize>().prop_map(|array| Op::Drop { array }),
        2 => any::<usize>().prop_map(|array| Op::Clone { array }),
        6 => any::<(usize, usize)>().prop_map(|(array, to)| Op::Send { array, to }),
        6 => Just(Op::Receive),
        1 => (0..NAMES).prop_map(|name| Op::Invalidate { name }),
        1 => Just(Op::Pause),
    ]
}

fn config(cases: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(cases), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(250))]

    #[test]
    fn on_a_device_that_checks(ops in prop::collection::vec(prop::collection::vec(op(), 1..150), 2..5)) {
        let device = Faulty::new();
        Program::new(&device, ops.len()).run(&ops);
        device.assert_clean();
    }

    #[test]
    fn on_the_host(ops in prop::collection::vec(prop::collection::vec(op(), 1..150), 2..5)) {
        Program::new(&Host::new(), ops.len()).run(&ops);
    }
}
