//! The cost of arrays that outlive their entry and replace those of the entry before: nanoseconds for each array (allocated, and an
//! older one dropped), and memory.
//!
//! `cargo bench --bench carried -- --json`. Times are medians over rounds that alternate between the programs, on the plain host:
//! `ns` with arrays of 1 KiB that are zeroed, `bare_ns` with the same arrays left as they are. Memory, device calls and heap
//! allocations are those of the same programs on the virtual device, in 1,000 warm entries. `reserved` is the most reserved memory
//! in those entries ÷ the most live memory.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Instant;

use clap::Parser;
use gpucache::device::{Device, Host, Virtual};
use gpucache::{
    Array, Recycle, Result, Scope,
    stats::{PlanStats, ScopeStats},
};
use gpucache_tests::counting::{Counting, allocations};
use gpucache_tests::timing::{Options, median};

#[global_allocator]
static HEAP: Counting = Counting;

const ROUNDS: usize = 31;
/// The arrays of each program in a round.
const ARRAYS: usize = 64 * 1024;
/// Entries before the first round. By then the scope knows even what it learns late, such as arrays that live for several entries.
const WARM: usize = 400;
/// The entries whose memory and calls count.
const COUNTED: usize = 1000;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Recycles by key instead of by plan.
    #[arg(long)]
    keyed: bool,
}

/// The fate of an array after its birth.
#[derive(Clone, Copy)]
enum Fate {
    /// Dropped when the next array of its kind is born.
    Temporary,
    /// Replaces the array of the entry before.
    Replaces,
    /// Replaces the array of this place modulo a number: states that are stepped several times in an entry.
    Takes(usize),
    /// Replaces the array of the entry before, or is temporary, by chance.
    Perhaps,
    /// Dropped this many entries later.
    Queued(usize),
    /// Replaces the array of the entry before, together with all others, at the end of the entry.
    AtTheEnd,
}

/// A program: the bytes and fate of each array of an entry.
struct Program<D: Device> {
    scope: Scope<'static>,
    device: D,
    arrays: Vec<(usize, Fate)>,
    kept: Vec<Option<Array<u8, D>>>,
    queue: VecDeque<Array<u8, D>>,
    ending: Vec<Array<u8, D>>,
    before: Vec<Array<u8, D>>,
    random: fastrand::Rng,
    alive: usize,
    most_alive: usize,
    /// Whether each array is zeroed.
    zeroes: bool,
    nanoseconds: Vec<f64>,
}

impl<D: Device> Program<D> {
    fn new(name: &str, device: &D, arrays: Vec<(usize, Fate)>, recycle: Recycle, zeroes: bool) -> Program<D> {
        let owned: &'static str = format!("{name} {zeroes} {}", std::any::type_name::<D>()).leak();
        Program {
            scope: Scope::new(owned).recycle(recycle),
            device: device.clone(),
            kept: arrays.iter().map(|_| None).collect(),
            arrays,
            queue: VecDeque::new(),
            ending: Vec::new(),
            before: Vec::new(),
            random: fastrand::Rng::with_seed(7),
            alive: 0,
            most_alive: 0,
            zeroes,
            nanoseconds: Vec::new(),
        }
    }

    fn drop_array(&mut self, array: Option<Array<u8, D>>) {
        self.alive -= array.as_ref().map_or(0, |array| array.shape()[0]);
        drop(array);
    }

    fn entry(&mut self) -> Result<()> {
        let _inside = self.scope.enter();
        let mut temporary = None;
        for place in 0..self.arrays.len() {
            let (bytes, fate) = self.arrays[place];
            let new = match self.zeroes {
                true => Array::<u8, D>::zeros(&self.device, black_box(bytes)),
                // SAFETY: nobody reads the array.
                false => unsafe { Array::<u8, D>::uninit(&self.device, black_box(bytes)) },
            }?;
            self.alive += bytes;
            self.most_alive = self.most_alive.max(self.alive);
            let old = match fate {
                Fate::Replaces => self.kept[place].replace(new),
                Fate::Takes(states) => self.kept[place % states].replace(new),
                Fate::Perhaps if self.random.u8(0..3) == 0 => self.kept[place].replace(new),
                Fate::Temporary | Fate::Perhaps => temporary.replace(new),
                Fate::Queued(entries) => {
                    self.queue.push_back(new);
                    let is_full = self.queue.len() > entries * self.arrays.len();
                    if is_full { self.queue.pop_front() } else { None }
                }
                Fate::AtTheEnd => {
                    self.ending.push(new);
                    None
                }
            };
            self.drop_array(old);
        }
        self.drop_array(temporary);
        std::mem::swap(&mut self.ending, &mut self.before);
        while let Some(array) = self.ending.pop() {
            self.drop_array(Some(array));
        }
        Ok(())
    }

    fn entries(&mut self, entries: usize) -> Result<()> {
        (0..entries).try_for_each(|_| self.entry())
    }

    fn measure(&mut self) -> Result<()> {
        let entries = ARRAYS.div_ceil(self.arrays.len());
        let start = Instant::now();
        self.entries(entries)?;
        let arrays = (entries * self.arrays.len()) as f64;
        self.nanoseconds.push(start.elapsed().as_nanos() as f64 / arrays);
        Ok(())
    }

    fn median(&mut self) -> f64 {
        median(&mut self.nanoseconds)
    }
}

/// The cost of a program on the virtual device.
struct Taken {
    reserved: f64,
    heap: u64,
    calls: u64,
    misses: u64,
    carried: f64,
}

impl Program<Virtual> {
    fn stats(&self) -> ScopeStats {
        self.scope.stats().unwrap_or_default()
    }

    fn plans(&self) -> PlanStats {
        self.stats().plan
    }

    fn take(&mut self) -> Result<Taken> {
        self.entries(WARM)?;
        (self.most_alive, self.alive) = (self.alive, self.alive);
        let (before, plans, calls) = (self.stats(), self.plans(), self.device.memory().allocations);
        // Statistics take memory of the heap, so they are read outside of what is counted.
        let (heap, mut reserved) = (allocations(), 0);
        for _ in 0..COUNTED {
            self.entry()?;
            reserved = reserved.max(self.device.memory().bytes);
        }
        let heap = allocations() - heap;
        let (after, now) = (self.stats(), self.plans());
        Ok(Taken {
            reserved: reserved as f64 / self.most_alive as f64,
            heap,
            calls: self.device.memory().allocations - calls,
            misses: after.misses - before.misses,
            carried: (now.carried - plans.carried) as f64 / (COUNTED * self.arrays.len()) as f64,
        })
    }
}

const KIB: usize = 1024;
/// Arrays on the virtual device are this many times larger than those below, so that its pages of 2 MiB are a small share of them.
const LARGER: usize = 8;
/// Arrays on the host are this many times smaller, so that their time is not that of memory.
const SMALLER: usize = 512;

/// Sizes over three orders of magnitude.
fn unlike(count: usize) -> Vec<usize> {
    let mut random = fastrand::Rng::with_seed(11);
    (0..count).map(|_| (16_384.0 * 10f64.powf(3.0 * random.f64())) as usize).collect()
}

fn programs() -> Vec<(String, Vec<(usize, Fate)>)> {
    let all = |bytes: Vec<usize>, fate| bytes.into_iter().map(|bytes| (bytes, fate)).collect::<Vec<_>>();
    let mut programs = Vec::new();
    for leaving in [0, 4, 8, 12, 16, 32] {
        let fate = |place| if place % 32 < leaving { Fate::Replaces } else { Fate::Temporary };
        // Spread over the entry.
        let arrays = (0..32).map(|place| (512 * KIB, fate(place * 13))).collect();
        programs.push((format!("leave_{leaving}"), arrays));
    }
    let sizes: Vec<usize> = (1..=20).map(|size| size * 100 * KIB).collect();
    programs.push(("twenty_sizes".into(), all(sizes.clone(), Fate::Replaces)));
    programs.push(("twenty_sizes_at_the_end".into(), all(sizes, Fate::AtTheEnd)));
    programs.push(("unlike_20".into(), all(unlike(20), Fate::Replaces)));
    programs.push(("unlike_32".into(), all(unlike(32), Fate::Replaces)));
    programs.push(("ping_pong".into(), all(vec![512 * KIB; 32], Fate::Takes(2))));
    programs.push(("one".into(), all(vec![512 * KIB; 32], Fate::Takes(1))));
    programs.push(("one_an_entry".into(), all(vec![512 * KIB], Fate::Replaces)));
    programs.push(("queue_of_3".into(), all(vec![512 * KIB; 32], Fate::Queued(3))));
    programs.push(("a_third_by_chance".into(), all(vec![512 * KIB; 32], Fate::Perhaps)));
    programs
}

/// A cache of keys and values that is concatenated anew for each token: 24 layers, 10 prompts of random length and batch, 512
/// tokens each. Each token is an entry.
struct Growing {
    planned_share: f64,
    reserved: f64,
    calls_per_token: f64,
    ns: f64,
}

const LAYERS: usize = 24;
const TOKENS: usize = 512;
const PROMPTS: usize = 10;

fn growing<D: Device>(device: &D, name: &str, row_bytes: usize) -> Result<Growing> {
    let (mut random, scope) = (fastrand::Rng::with_seed(3), Scope::new(name));
    let (mut alive_most, mut reserved, mut nanoseconds) = (0, 0, Vec::new());
    for _ in 0..PROMPTS {
        let (length, row) = (random.usize(32..256), row_bytes * random.usize(1..5));
        let mut cache: Vec<Option<Array<u8, D>>> = (0..2 * LAYERS).map(|_| None).collect();
        for token in 0..TOKENS {
            let bytes = (length + token) * row;
            let start = Instant::now();
            scope.run(|| -> Result<()> {
                for place in &mut cache {
                    // SAFETY: nobody reads the array.
                    drop(place.replace(unsafe { Array::<u8, D>::uninit(device, bytes) }?));
                }
                Ok(())
            })?;
            nanoseconds.push(start.elapsed().as_nanos() as f64 / (2 * LAYERS) as f64);
            (alive_most, reserved) = (alive_most.max((2 * LAYERS + 1) * bytes), device.memory().bytes);
        }
    }
    let stats = scope.stats().unwrap_or_default();
    Ok(Growing {
        planned_share: stats.served.planned_share(),
        reserved: reserved as f64 / alive_most as f64,
        calls_per_token: stats.misses as f64 / (PROMPTS * TOKENS) as f64,
        ns: median(nanoseconds),
    })
}

fn main() -> Result<()> {
    let Arguments { options: Options { json, .. }, keyed } = Arguments::parse();
    let recycle = if keyed { Recycle::Keyed } else { Recycle::Auto };
    let host = Host::new();
    let program = |(name, arrays): (String, Vec<(usize, Fate)>), zeroes| {
        let arrays = arrays.into_iter().map(|(bytes, fate)| (bytes / SMALLER, fate)).collect();
        Program::new(&name, &host, arrays, recycle, zeroes)
    };
    let all = || programs().into_iter();
    let mut timed: Vec<_> = all().map(|found| [program(found.clone(), true), program(found, false)]).collect();
    timed.iter_mut().flatten().try_for_each(|program| program.entries(WARM))?;
    for _ in 0..ROUNDS {
        timed.iter_mut().flatten().try_for_each(Program::measure)?;
    }
    let mut parts = Vec::new();
    for ((name, arrays), [zeroed, bare]) in programs().into_iter().zip(&mut timed) {
        let device = Virtual::unchecked(1 << 40);
        let arrays = arrays.into_iter().map(|(bytes, fate)| (bytes * LARGER, fate)).collect();
        let Taken { reserved, heap, calls, misses, carried } =
            Program::new(&name, &device, arrays, recycle, false).take()?;
        let (ns, bare_ns) = (zeroed.median(), bare.median());
        parts.push(match json {
            true => format!(
                "\"{name}\": {{\"ns\": {ns:.1}, \"bare_ns\": {bare_ns:.1}, \"reserved_over_live\": {reserved:.4}, \"heap\": {heap}, \
                 \"device_calls\": {calls}, \"misses\": {misses}, \"carried_share\": {carried:.3}}}"
            ),
            false => format!(
                "{name:<24} {ns:6.1} ns, bare {bare_ns:6.1}   reserved over live {reserved:.3}   in 1,000 entries: heap {heap}, \
                 device calls {calls}, misses {misses}, carried {carried:.2}"
            ),
        });
    }
    let Growing { planned_share, reserved, calls_per_token, .. } =
        growing(&Virtual::unchecked(1 << 40), "growing, virtual", 16 * KIB)?;
    let Growing { ns, .. } = growing(&host, "growing, host", 64)?;
    parts.push(match json {
        true => format!(
            "\"growing_cache\": {{\"ns\": {ns:.1}, \"planned_share\": {planned_share:.4}, \
             \"reserved_over_live\": {reserved:.4}, \"misses_per_token\": {calls_per_token:.4}}}"
        ),
        false => format!(
            "growing cache: {ns:.1} ns an array, planned {planned_share:.3}, reserved over live {reserved:.3}, \
             {calls_per_token:.4} misses a token"
        ),
    });
    match json {
        true => println!("{{{}}}", parts.join(", ")),
        false => println!("{}", parts.join("\n")),
    }
    Ok(())
}
