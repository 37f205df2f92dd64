//! Random programs whose arrays outlive their entries by chance, and the memory that a scope reserves for them.
//!
//! A program has an order of allocations that each entry repeats. It is random which arrays are kept, for how long, and in which
//! order they are dropped. Two runs of one program differ only in the policy of their scope.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fastrand::Rng;
use gpucache::device::{Device, Virtual};
use gpucache::{Allocate, Array, Recycle, Scope, invalidate, stats::PlanStats};

const MIB: f64 = (1 << 20) as f64;

/// An order of allocations, and the fates of the arrays.
#[derive(Clone, Debug)]
pub struct Program {
    seed: u64,
    entries: usize,
    sizes: Vec<Size>,
    phases: Vec<Phase>,
}

/// The bytes of an array.
#[derive(Clone, Copy, Debug)]
struct Size {
    bytes: f64,
    /// The bytes by which it grows from entry to entry, until it begins anew after `text` entries.
    step: f64,
    text: usize,
    /// In each entry, the size is smaller by up to this share.
    varies: f64,
}

/// How a program behaves from an entry on.
#[derive(Clone, Debug)]
struct Phase {
    from: usize,
    /// The probability that an array is kept, for each array.
    chances: Vec<f64>,
    keeps: Keeps,
    drops: Drops,
    /// Temporary arrays are dropped with the next one, or at the end of the entry in a random order, this many at once.
    temporaries: usize,
}

/// When a kept array is dropped.
#[derive(Clone, Copy, Debug)]
enum Keeps {
    /// When the next array of its place is kept.
    Replaced,
    /// After this many entries.
    For(usize),
    /// When more than this many are kept, a random one of them is dropped.
    AtMost(usize),
}

/// When arrays that are due are dropped.
#[derive(Clone, Copy, Debug)]
enum Drops {
    AtOnce,
    /// At the end of the entry, in a random order.
    AtTheEnd,
    /// Before the next entry, in a random order.
    Between,
}

/// The memory that a run reserved.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The mean of the reserved memory after the entries of the second half.
    pub mean: f64,
    /// The most memory that was ever reserved.
    pub peak: u64,
    /// The most bytes that were ever alive.
    pub alive: u64,
    /// The statistics of its plans.
    pub plans: Option<PlanStats>,
}

impl Program {
    /// The program of this number.
    pub fn random(seed: u64) -> Program {
        let rng = &mut Rng::with_seed(seed);
        let arrays = rng.usize(4..=64);
        let entries = match rng.u8(..100) {
            0 => 20_000 / (arrays / 16 + 1),
            1..10 => rng.usize(1500..4000),
            _ => rng.usize(300..1500),
        };
        let sizes = Size::random(rng, arrays);
        let mut phases = vec![Phase::random(rng, 0, arrays)];
        while rng.u8(..4) == 0 && phases.len() < 4 {
            phases.push(Phase::random(rng, rng.clone().usize(..entries), arrays));
            rng.u8(..);
        }
        phases.sort_by_key(|phase| phase.from);
        Program { seed, entries, sizes, phases }
    }

    /// Twenty-four arrays of different sizes. Each entry replaces a random quarter of them.
    pub fn random_quarter(seed: u64, entries: usize) -> Program {
        let rng = &mut Rng::with_seed(seed);
        let size = |rng: &mut Rng| (rng.usize(1..8) * 16) as f64 * MIB / [1.0, 2.0, 16.0][rng.usize(..3)];
        let sizes = (0..24).map(|_| Size { bytes: size(rng), step: 0.0, text: 1, varies: 0.0 }).collect();
        let (keeps, drops) = (Keeps::Replaced, Drops::AtOnce);
        let phase = Phase { from: 0, chances: vec![0.25; 24], keeps, drops, temporaries: 0 };
        Program { seed, entries, sizes, phases: vec![phase] }
    }

    /// How many entries it has.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Runs the program in a scope of its own, on a device of its own.
    ///
    /// # Panics
    /// If an allocation fails.
    pub fn run(&self, recycle: Recycle) -> Outcome {
        self.run_with(recycle, |_, _, _, _| ())
    }

    /// As [`run`](Program::run). Calls `look` after each entry, with its number and the bytes that are alive.
    ///
    /// # Panics
    /// If an allocation fails.
    pub fn run_with(&self, recycle: Recycle, mut look: impl FnMut(usize, &Virtual, &Scope<'_>, u64)) -> Outcome {
        // Two programs with one name would share their plans.
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let (device, name) = (Virtual::unchecked(1 << 46), format!("survivors {}", RUNS.fetch_add(1, Relaxed)));
        let scope = Scope::new(&name).recycle(recycle);
        let mut run = Run::new(self.seed, &device, self.sizes.len());
        let mut reserved = 0.0;
        let mut phases = self.phases.iter().peekable();
        let mut phase = &self.phases[0];
        for entry in 0..self.entries {
            while let Some(next) = phases.next_if(|next| next.from <= entry) {
                phase = next;
            }
            scope.run(|| run.entry(entry, &self.sizes, phase));
            run.drop_due();
            look(entry, &device, &scope, run.alive);
            if entry >= self.entries / 2 {
                reserved += device.memory().bytes as f64;
            }
        }
        let mean = reserved / (self.entries - self.entries / 2) as f64;
        let outcome = Outcome {
            mean,
            peak: device.memory().peak_bytes,
            alive: run.most_alive,
            plans: scope.stats().map(|stats| stats.plan),
        };
        drop(run);
        let _ = invalidate(&name);
        outcome
    }
}

impl Size {
    /// The sizes of `arrays` arrays, together from 32 MiB to 16 GiB.
    fn random(rng: &mut Rng, arrays: usize) -> Vec<Size> {
        let kinds = rng.usize(1..6);
        let decades = 0.5 + 3.5 * rng.f64();
        let way = rng.u8(..5);
        let mut draw: Vec<f64> = (0..arrays)
            .map(|_| match way {
                0 | 1 => 0.02 + rng.f64(),
                2 => 10f64.powf(decades * rng.f64()),
                3 => rng.usize(1..8) as f64 / [1.0, 2.0, 16.0][rng.usize(..3)],
                _ => 1.0 + rng.f64(),
            })
            .collect();
        if way == 4 {
            (kinds.min(arrays)..arrays).for_each(|place| draw[place] = draw[rng.usize(..kinds.min(arrays))]);
        }
        let total = 32.0 * MIB * 2f64.powf(9.0 * rng.f64());
        let unit = total / draw.iter().sum::<f64>();
        let (grows, varies) = (rng.u8(..6) == 0, rng.u8(..6) == 0);
        let (text, share) = (rng.usize(20..400), rng.f64() * 2.0);
        draw.into_iter()
            .map(|part| {
                let bytes = (part * unit).max(256.0);
                let step = if grows && rng.bool() { bytes * share / text as f64 } else { 0.0 };
                Size { bytes, step, text, varies: if varies && rng.bool() { 0.6 * rng.f64() } else { 0.0 } }
            })
            .collect()
    }

    fn at(&self, entry: usize, rng: &mut Rng) -> usize {
        let grown = self.bytes + self.step * (entry % self.text) as f64;
        (if self.varies > 0.0 { grown * (1.0 - self.varies * rng.f64()) } else { grown }) as usize
    }
}

impl Phase {
    fn random(rng: &mut Rng, from: usize, arrays: usize) -> Phase {
        let (way, all) = (rng.u8(..6), rng.f64());
        let mut chance = || match way {
            0 | 1 => all,
            2 => rng.f64(),
            3 => [0.0, 1.0, all][rng.usize(..3)],
            4 => f64::from(u8::from(rng.u8(..8) == 0)) * all,
            _ => {
                if rng.u8(..8) == 0 {
                    all
                } else {
                    1.0
                }
            }
        };
        let chances = (0..arrays).map(|_| chance()).collect();
        let keeps = match rng.u8(..4) {
            0 | 1 => Keeps::Replaced,
            2 => Keeps::For(rng.usize(1..6)),
            _ => Keeps::AtMost(rng.usize(1..=2 * arrays)),
        };
        let drops = [Drops::AtOnce, Drops::AtOnce, Drops::AtTheEnd, Drops::Between][rng.usize(..4)];
        Phase { from, chances, keeps, drops, temporaries: [1, 1, 2, 4, usize::MAX][rng.usize(..5)] }
    }
}

type Bytes = Array<u8, Virtual>;

/// The arrays of a run at one moment.
struct Run {
    rng: Rng,
    device: Virtual,
    replaced: Vec<Option<Bytes>>,
    /// The kept arrays, with the entry in which each is dropped, if that is known.
    kept: Vec<(usize, Bytes)>,
    temporary: Vec<Bytes>,
    due: Vec<Bytes>,
    alive: u64,
    most_alive: u64,
}

impl Run {
    fn new(seed: u64, device: &Virtual, arrays: usize) -> Run {
        let (kept, temporary, due) = (Vec::new(), Vec::new(), Vec::new());
        let replaced = (0..arrays).map(|_| None).collect();
        let rng = Rng::with_seed(seed ^ 0x5EED);
        Run { rng, device: device.clone(), replaced, kept, temporary, due, alive: 0, most_alive: 0 }
    }

    fn entry(&mut self, entry: usize, sizes: &[Size], phase: &Phase) {
        for (place, size) in sizes.iter().enumerate() {
            let bytes = size.at(entry, &mut self.rng);
            let new: Bytes = self.device.zeros::<u8>(bytes).unwrap();
            self.alive += bytes as u64;
            self.most_alive = self.most_alive.max(self.alive);
            if self.rng.f64() < phase.chances[place] {
                self.keep(entry, place, new, phase);
            } else {
                self.temporary.push(new);
                self.drop_temporaries(phase.temporaries);
            }
        }
        self.drop_temporaries(0);
        if !matches!(phase.drops, Drops::Between) {
            self.drop_due();
        }
    }

    fn keep(&mut self, entry: usize, place: usize, new: Bytes, phase: &Phase) {
        // Arrays that are due from other phases go too.
        self.due.extend(self.kept.extract_if(.., |(until, _)| *until <= entry).map(|(_, old)| old));
        match phase.keeps {
            Keeps::Replaced => self.due.extend(self.replaced[place].replace(new)),
            Keeps::For(entries) => self.kept.push((entry + entries, new)),
            Keeps::AtMost(most) => {
                self.kept.push((usize::MAX, new));
                if self.kept.len() > most {
                    let any = self.rng.usize(..self.kept.len());
                    self.due.push(self.kept.swap_remove(any).1);
                }
            }
        }
        if matches!(phase.drops, Drops::AtOnce) {
            self.drop_due();
        }
    }

    fn drop_temporaries(&mut self, left: usize) {
        while self.temporary.len() > left {
            let any = self.rng.usize(..self.temporary.len());
            let array = self.temporary.swap_remove(any);
            self.free(array);
        }
    }

    fn drop_due(&mut self) {
        while !self.due.is_empty() {
            let any = self.rng.usize(..self.due.len());
            let array = self.due.swap_remove(any);
            self.free(array);
        }
    }

    fn free(&mut self, array: Bytes) {
        self.alive -= array.shape()[0] as u64;
        drop(array);
    }
}
