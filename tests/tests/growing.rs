//! Entries that grow: one for each token of a text, whose arrays are longer by a step each time, and a part of which is kept until the
//! text ends. The next text begins small again, and is served by the plans of the last one.
#![allow(clippy::unwrap_used)]

use std::ops::AddAssign;

use gpucache::device::{Device, Virtual};
use gpucache::{Array, PlanStats, Scope, ScopeStats};
use gpucache_tests::counting::{Counting, allocations};
use gpucache_tests::turn;

#[global_allocator]
static COUNTING: Counting = Counting;

/// How long an array lives.
#[derive(Clone, Copy, PartialEq)]
enum Life {
    /// Until the next array is born.
    Short,
    /// Until its entry ends.
    Entry,
    /// Until its text ends.
    Text,
}

/// An array of each token: `bytes`, and `step` more for each token of the text.
#[derive(Clone, Copy)]
struct Born {
    bytes: usize,
    step: usize,
    life: Life,
    /// Whether the first token of a text has it too, which has no other one to be joined to.
    is_in_first: bool,
}

fn born(bytes: usize, step: usize, life: Life) -> Born {
    Born { bytes, step, life, is_in_first: true }
}

/// A decoder that keeps what its cache of keys and values was computed from, as a framework does that keeps the graph: of so many
/// layers, with rows of so many bytes.
fn decoder(layers: usize, row: usize) -> Vec<Born> {
    let mut arrays = vec![born(4, 0, Life::Entry), born(16, 0, Life::Short)];
    for _ in 0..layers {
        for place in 0..15 {
            arrays.push(born(120, 0, Life::Short));
            let life = if place < 10 { Life::Text } else { Life::Entry };
            arrays.push(born(row >> (place % 2), 0, life));
        }
        arrays.extend([Born { is_in_first: false, ..born(0, row, Life::Text) }; 2]);
        for place in 0..6 {
            let (step, is_in_first) = if place < 2 { (row, true) } else { (row / 48, place < 4) };
            arrays.push(Born { is_in_first, ..born(0, step, Life::Entry) });
            arrays.push(Born { is_in_first, ..born(64, 0, Life::Short) });
        }
        arrays.extend((0..12).map(|place| born(row * (1 + place % 3), 0, Life::Entry)));
    }
    arrays
}

/// What was seen of a text.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Arrays that died in their entry, and all.
    within: u64,
    all: u64,
    /// What arenas served.
    planned: u64,
    /// Tokens with a deviation.
    odd_tokens: u64,
    /// Calls of the device.
    calls: u64,
    /// Allocations of the heap.
    heap: u64,
    /// Layouts that another arena was needed for.
    arenas: u64,
    /// The most that was reserved and alive.
    reserved: u64,
    live: u64,
}

impl Seen {
    fn share(&self) -> f64 {
        self.planned as f64 / self.within as f64
    }

    fn waste(&self) -> f64 {
        self.reserved as f64 / self.live as f64
    }
}

impl AddAssign for Seen {
    fn add_assign(&mut self, other: Seen) {
        self.within += other.within;
        self.all += other.all;
        self.planned += other.planned;
        self.odd_tokens += other.odd_tokens;
        self.calls += other.calls;
        self.heap += other.heap;
        self.arenas += other.arenas;
        (self.reserved, self.live) = (self.reserved.max(other.reserved), self.live.max(other.live));
    }
}

/// Plays texts in a scope.
struct Texts {
    scope: Scope<'static>,
    device: Virtual,
    arrays: Vec<Born>,
    live: u64,
}

type Kept = Vec<Array<u8, Virtual>>;

impl Texts {
    fn new(name: &'static str, arrays: Vec<Born>) -> Texts {
        Texts { scope: Scope::new(name), device: Virtual::unchecked(1 << 40), arrays, live: 0 }
    }

    fn stats(&self) -> (ScopeStats, PlanStats) {
        (self.scope.stats().unwrap_or_default(), self.scope.plan_stats().unwrap_or_default())
    }

    /// The token of this number in its text, beginning at 1, after a prompt of so many.
    fn token(&mut self, number: usize, prompt: usize, kept: &mut Kept) -> Seen {
        let (before, calls) = (self.stats().1, self.device.memory().times_taken());
        let (mut seen, mut temporary, mut entry) = (Seen::default(), None, 0);
        let mut in_entry = Kept::with_capacity(self.arrays.len());
        let heap = allocations();
        self.scope.run(|| {
            for array in self.arrays.iter().filter(|array| array.is_in_first || number > 1) {
                let bytes = array.bytes + array.step * (number + prompt);
                // SAFETY: nobody reads the array.
                let new = Array::<u8, Virtual>::zeros(&self.device, bytes).unwrap();
                drop(temporary.take());
                (seen.all, seen.within) = (seen.all + 1, seen.within + u64::from(array.life != Life::Text));
                match array.life {
                    Life::Short => temporary = Some(new),
                    Life::Entry => in_entry.push(new),
                    Life::Text => kept.push(new),
                }
                self.live += if array.life == Life::Text { bytes as u64 } else { 0 };
                entry += if array.life == Life::Entry { bytes as u64 } else { 0 };
                seen.live = self.live + entry;
            }
            in_entry.clear();
            temporary = None;
        });
        seen.heap = allocations() - heap;
        let (after, memory) = (self.stats().1, self.device.memory());
        seen.planned = (after.planned - after.carried) - (before.planned - before.carried);
        seen.odd_tokens = u64::from(after.deviations != before.deviations);
        (seen.calls, seen.reserved) = (memory.times_taken() - calls, memory.bytes);
        seen.arenas = u64::from(after.arena_bytes != before.arena_bytes);
        seen
    }

    fn text(&mut self, tokens: usize, prompt: usize) -> Seen {
        let (mut seen, mut kept) = (Seen::default(), Kept::with_capacity(tokens * self.arrays.len()));
        (1..=tokens).for_each(|number| {
            let token = self.token(number, prompt, &mut kept);
            if std::env::var("SHOW").is_ok() {
                println!("{number:4} {:.3} {token:?} {:?}", token.share(), self.stats().1.unplanned);
            }
            seen += token
        });
        self.live = 0;
        let (stats, plans) = self.stats();
        println!(
            "{tokens} tokens: planned {:.4}, reserved {:.3}, {seen:?}, {}, live {}",
            seen.share(),
            seen.waste(),
            plans,
            stats.busy_blocks
        );
        seen
    }
}

#[test]
fn texts_that_keep_their_graph() {
    let _turn = turn();
    let mut texts = Texts::new("keeps its graph", decoder(6, 1152));
    for _ in 0..4 {
        texts.text(200, 0);
    }
}
