//! How programs that are regular in part are served, and how much memory is reserved for them, under any policy.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use gpucache::device::{Device, Virtual};
use gpucache::{Allocate, Array, Recycle, Scope, invalidate};

use crate::play::Op;
use crate::play::partly::{Entry, Program};

/// Arrays of 256 bytes and multiples of it are what the range hands out.
const UNIT: u64 = 256;
/// How often a run is timed. The shortest time counts.
const TIMES: usize = 3;

/// The figures of a run, of the second half of its entries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Allocations, and how many of them are regular.
    pub allocations: u64,
    /// Regular allocations.
    pub regular: u64,
    /// Allocations that a plan served.
    pub planned: u64,
    /// Regular allocations that a plan served.
    pub regular_planned: u64,
    /// Allocations that a plan served in the first half.
    pub planned_before: u64,
    /// The most bytes that were reserved.
    pub reserved: u64,
    /// The most bytes that were reserved in any entry.
    pub reserved_ever: u64,
    /// Calls of the device for memory.
    pub calls: u64,
    /// Nanoseconds for each allocation, and for each drop.
    pub nanoseconds: f64,
    /// Time for planning, in the whole run.
    pub planning: Duration,
}

/// A number of entries, and how much memory their arrays need.
#[derive(Clone, Debug)]
pub struct Run {
    entries: Vec<Entry>,
    /// The most bytes that are ever alive.
    pub live: u64,
}

type Bytes = Array<u8, Virtual>;

impl Run {
    /// The first entries of a program.
    pub fn of(program: &mut Program, entries: usize) -> Run {
        Run::new((0..entries).map(|_| program.entry()).collect())
    }

    fn new(entries: Vec<Entry>) -> Run {
        let live = live(&entries);
        Run { entries, live }
    }

    /// Runs the entries several times, in scopes of their own and on devices of their own: to look at each allocation, and for the time.
    ///
    /// # Panics
    /// If an allocation fails.
    pub fn measure(&self, recycle: Recycle) -> Figures {
        let mut watched = Playing::new(recycle);
        let mut figures = Figures::default();
        for (number, entry) in self.entries.iter().enumerate() {
            watched.watch(entry, number >= self.entries.len() / 2, &mut figures);
        }
        figures.planning = watched.scope().stats().map_or(Duration::ZERO, |stats| stats.plan.planning_time);
        drop(watched);
        // Other programs may take the processor from one run.
        figures.nanoseconds = (0..TIMES).map(|_| self.time(recycle)).fold(f64::INFINITY, f64::min);
        figures
    }

    fn time(&self, recycle: Recycle) -> f64 {
        let mut playing = Playing::new(recycle);
        let (first, second) = self.entries.split_at(self.entries.len() / 2);
        first.iter().for_each(|entry| playing.play(entry));
        let start = Instant::now();
        second.iter().for_each(|entry| playing.play(entry));
        let time = start.elapsed();
        let operations: usize = second.iter().map(|entry| entry.ops.len()).sum();
        time.as_nanos() as f64 / operations.max(1) as f64
    }
}

/// A run in one scope.
struct Playing {
    device: Virtual,
    name: String,
    recycle: Recycle,
    slots: Vec<Option<Bytes>>,
    old: Vec<Option<Bytes>>,
}

impl Playing {
    fn new(recycle: Recycle) -> Playing {
        // Two runs with one name would share their plans.
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let name = format!("partly {}", RUNS.fetch_add(1, Relaxed));
        Playing { device: Virtual::unchecked(1 << 46), name, recycle, slots: Vec::new(), old: Vec::new() }
    }

    fn scope(&self) -> Scope<'_> {
        Scope::new(&self.name).recycle(self.recycle)
    }

    /// Plays an entry.
    fn play(&mut self, entry: &Entry) {
        self.play_with(entry, |_, _| ());
    }

    /// As `play`. Calls `allocated` after each allocation, with its slot.
    fn play_with(&mut self, entry: &Entry, mut allocated: impl FnMut(&Playing, u32)) {
        // The slots are made outside of the scope, so that their vector is not timed with each allocation.
        self.slots.resize_with(entry.is_regular.len(), || None);
        let guard = self.scope().enter();
        for op in &entry.ops {
            match *op {
                Op::Allocate { slot, bytes } => {
                    let array = self.device.zeros::<u8>(bytes).expect("memory without end");
                    self.slots[slot as usize] = Some(array);
                    allocated(self, slot);
                }
                Op::Drop(slot) => self.slots[slot as usize] = None,
                Op::DropOld(slot) => self.old[slot as usize] = None,
                _ => {}
            }
        }
        drop(guard);
        std::mem::swap(&mut self.slots, &mut self.old);
        self.slots.clear();
    }

    /// Plays an entry, and notes what served each allocation.
    fn watch(&mut self, entry: &Entry, counts: bool, figures: &mut Figures) {
        let planned = |playing: &Playing| playing.scope().stats().map_or(0, |stats| stats.served.planned.allocations);
        let calls = |device: &Virtual| device.memory().mapped_pieces + device.memory().unmapped_pieces;
        let (mut before, calls_before) = (planned(self), calls(&self.device));
        let mut own = Figures::default();
        self.play_with(entry, |playing, slot| {
            let now = planned(playing);
            let (is_planned, is_regular) = (u64::from(now > before), u64::from(entry.is_regular[slot as usize]));
            before = now;
            own.allocations += 1;
            own.regular += is_regular;
            own.planned += is_planned;
            own.regular_planned += is_regular * is_planned;
            own.reserved = own.reserved.max(playing.device.memory().bytes);
        });
        figures.reserved_ever = figures.reserved_ever.max(own.reserved);
        if counts {
            figures.add(&own);
            figures.calls += calls(&self.device) - calls_before;
        } else {
            figures.planned_before += own.planned;
        }
    }
}

impl Drop for Playing {
    fn drop(&mut self) {
        self.old.clear();
        self.slots.clear();
        _ = invalidate(&self.name);
    }
}

impl Figures {
    fn add(&mut self, entry: &Figures) {
        self.allocations += entry.allocations;
        self.regular += entry.regular;
        self.planned += entry.planned;
        self.regular_planned += entry.regular_planned;
        self.reserved = self.reserved.max(entry.reserved);
    }
}

/// The most bytes that are ever alive.
fn live(entries: &[Entry]) -> u64 {
    let (mut live, mut most, mut old) = (0, 0, HashMap::new());
    for entry in entries {
        let mut own = HashMap::new();
        for op in &entry.ops {
            match *op {
                Op::Allocate { slot, bytes } => {
                    let bytes = (bytes as u64).next_multiple_of(UNIT);
                    own.insert(slot, bytes);
                    live += bytes;
                }
                Op::Drop(slot) => live -= own.remove(&slot).unwrap_or(0),
                Op::DropOld(slot) => live -= old.remove(&slot).unwrap_or(0),
                _ => {}
            }
            most = most.max(live);
        }
        live -= std::mem::replace(&mut old, own).into_values().sum::<u64>();
    }
    most
}
