//! Entries that grow: one for each token of a text. Each time, their arrays are longer by a step, and some are kept until the text
//! ends. The next text begins small again, and the plans of the last text serve it.
#![allow(clippy::unwrap_used)]

use std::ops::{AddAssign, Range};

use gpucache::device::{Device, Virtual};
use gpucache::{Array, Scope, invalidate, stats::ScopeStats};
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
    /// Until its successor in the next token is born, or its text ends.
    Replaced,
}

/// An array of each token: its size is `bytes`, and `step` more for each token of the text so far.
#[derive(Clone, Copy)]
struct Born {
    bytes: usize,
    step: usize,
    life: Life,
    /// Whether the first token of a text has this array too. The first token has no earlier array to extend.
    is_in_first: bool,
}

fn born(bytes: usize, step: usize, life: Life) -> Born {
    Born { bytes, step, life, is_in_first: true }
}

/// A decoder of `layers` layers, with rows of `row` bytes, that keeps the inputs of its cache of keys and values, as a framework
/// does that keeps the graph.
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

/// A decoder that keeps only its cache. Each half of a layer's cache is an array that each token replaces by a longer one.
fn lean_decoder(layers: usize, row: usize) -> Vec<Born> {
    let mut arrays = vec![born(4, 0, Life::Entry)];
    for _ in 0..layers {
        arrays.extend([born(4 * row, 0, Life::Short); 6]);
        arrays.extend([born(0, row, Life::Replaced); 2]);
        arrays.extend([born(0, row / 4, Life::Short), born(0, row, Life::Short), born(0, row / 4, Life::Entry)]);
        arrays.extend([born(row, 0, Life::Entry); 4]);
    }
    arrays
}

/// The observations about a text.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// The arrays that died in their entry, and below, all arrays.
    within: u64,
    all: u64,
    /// The allocations that arenas served.
    planned: u64,
    /// The tokens with a deviation.
    odd_tokens: u64,
    /// The calls of the device.
    calls: u64,
    /// The allocations on the heap.
    heap: u64,
    /// The layouts that needed another arena.
    arenas: u64,
    /// The most reserved and, below, the most live bytes.
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
}

type Kept = Vec<Array<u8, Virtual>>;

/// The arrays that a text keeps.
struct Text {
    graph: Kept,
    cache: Vec<Option<Array<u8, Virtual>>>,
    bytes: u64,
}

impl Texts {
    fn new(name: &'static str, arrays: Vec<Born>) -> Texts {
        Texts { scope: Scope::new(name), device: Virtual::unchecked(1 << 40), arrays }
    }

    fn stats(&self) -> ScopeStats {
        self.scope.stats().unwrap_or_default()
    }

    /// Allocates the arrays of a token after `before` others, and drops all except those that the text keeps. Returns how many
    /// arrays there were, how many it dropped, and the most bytes that were alive.
    fn allocate(&self, before: usize, is_first: bool, batch: usize, in_entry: &mut Kept, text: &mut Text) -> Seen {
        let (mut seen, mut short, mut alive) = (Seen::default(), None, 0);
        let arrays = self.arrays.iter().enumerate().filter(|(_, array)| array.is_in_first || !is_first);
        for (place, array) in arrays {
            let bytes = batch * (array.bytes + array.step * (before + 1));
            let new = Array::<u8, Virtual>::zeros(&self.device, bytes).unwrap();
            drop(short.take());
            let dies_within = matches!(array.life, Life::Short | Life::Entry);
            (seen.all, seen.within) = (seen.all + 1, seen.within + u64::from(dies_within));
            *(if array.life == Life::Entry { &mut alive } else { &mut text.bytes }) += bytes as u64;
            seen.live = seen.live.max(text.bytes + alive);
            match array.life {
                Life::Short => {
                    text.bytes -= bytes as u64;
                    short = Some(new);
                }
                Life::Entry => in_entry.push(new),
                Life::Text => text.graph.push(new),
                Life::Replaced => {
                    let old = text.cache[place].replace(new);
                    text.bytes -= old.map_or(0, |old| old.shape()[0] as u64);
                }
            }
        }
        in_entry.clear();
        seen
    }

    fn token(&self, before: usize, is_first: bool, batch: usize, text: &mut Text) -> Seen {
        let (earlier, calls) = (self.stats(), self.device.memory().times_taken());
        let mut in_entry = Kept::with_capacity(self.arrays.len());
        let heap = allocations();
        let mut seen = self.scope.run(|| self.allocate(before, is_first, batch, &mut in_entry, text));
        seen.heap = allocations() - heap;
        let (now, memory) = (self.stats(), self.device.memory());
        let since = now.since(&earlier);
        seen.planned = since.served.planned.allocations - since.plan.carried;
        seen.odd_tokens = u64::from(since.plan.deviations.total() > 0);
        (seen.calls, seen.reserved) = (memory.times_taken() - calls, memory.bytes);
        seen.arenas = u64::from(now.plan.arena_bytes != earlier.plan.arena_bytes);
        seen
    }

    /// Plays `batch` texts at once. `lengths` has the number of tokens before each token.
    fn texts(&self, batch: usize, lengths: impl IntoIterator<Item = usize>) -> Seen {
        let mut text = Text { graph: Vec::with_capacity(1 << 16), cache: Vec::new(), bytes: 0 };
        text.cache.resize_with(self.arrays.len(), || None);
        let mut seen = Seen::default();
        for (number, before) in lengths.into_iter().enumerate() {
            seen += self.token(before, number == 0, batch, &mut text);
        }
        println!("planned {:.4}, reserved {:.3}, {seen:?}, {}", seen.share(), seen.waste(), self.stats().plan);
        seen
    }

    /// Plays texts of one length, one after the other. Plans serve all but the first two, from which the scope learns. The reserved
    /// memory is at most `most` × the live memory.
    fn repeat(&self, lengths: Range<usize>, most: f64) {
        let [first, _, third, fourth] = [(); 4].map(|()| self.texts(1, lengths.clone()));
        assert!(first.share() > 0.7 && first.arenas <= 15, "as many layouts as the logarithm of its length: {first:?}");
        for warm in [third, fourth] {
            assert!(warm.share() >= 0.999 && warm.odd_tokens <= 1, "{warm:?}");
            assert_eq!((warm.calls, warm.heap, warm.arenas), (0, 0, 0), "{warm:?}");
            assert!(warm.waste() <= most, "{} {warm:?}", warm.waste());
        }
    }
}

#[test]
fn texts_that_keep_their_graph() {
    let _turn = turn();
    Texts::new("keeps its graph", decoder(6, 1152)).repeat(0..200, 1.03);
}

#[test]
fn texts_of_large_rows_that_keep_their_graph() {
    let _turn = turn();
    Texts::new("large rows", decoder(6, 256 << 10)).repeat(0..100, 1.03);
}

#[test]
fn texts_that_keep_their_cache() {
    let _turn = turn();
    Texts::new("keeps its cache", lean_decoder(12, 64 << 10)).repeat(30..300, 1.12);
}

#[test]
fn texts_of_any_length_and_batch() {
    let _turn = turn();
    let (texts, mut random) = (Texts::new("any length", decoder(6, 16 << 10)), fastrand::Rng::with_seed(7));
    let (mut all, mut tokens) = (Seen::default(), 0);
    for number in 0..30 {
        let (begin, length) = (random.usize(0..100), random.usize(10..150));
        let batch = if number < 15 { 1 } else { random.usize(1..5) };
        all += texts.texts(batch, begin..begin + length);
        tokens += length as u64;
    }
    println!("all: {} {} {tokens} {all:?}", all.share(), all.waste());
    assert!(all.share() >= 0.95 && all.odd_tokens * 20 <= tokens, "{} {all:?}", all.share());
    assert!(all.waste() <= 1.03, "{} {all:?}", all.waste());
}

/// An entry of a decoder. The first one of a text reads its whole prompt.
fn decode(device: &Virtual, caches: &mut [Array<u8, Virtual>], length: usize, is_first: bool) {
    let (row, tokens) = (1024, if is_first { length } else { 1 });
    let zeros = |bytes: usize| Array::<u8, Virtual>::zeros(device, bytes).unwrap();
    if is_first {
        caches.iter_mut().for_each(|cache| *cache = zeros(0));
    }
    let mut states = zeros(4 * row * tokens);
    for layer in caches.chunks_mut(2) {
        let _queries = zeros(4 * row * tokens);
        layer.iter_mut().for_each(|cache| *cache = zeros(row * length));
        let _wide = zeros(16 * row * tokens);
        states = zeros(4 * row * tokens);
    }
    drop(states);
}

/// Reserved ÷ live memory at most, in texts with prompts of any length. A prompt begins in the memory of the text before.
fn prompts(seed: u64) -> f64 {
    let name = format!("prompts {seed}");
    let (device, scope) = (Virtual::unchecked(1 << 40), Scope::new(&name));
    let (mut random, mut reserved, mut longest) = (fastrand::Rng::with_seed(seed), 0, 0);
    let mut caches: Vec<_> = (0..40).map(|_| Array::zeros(&device, 0).unwrap()).collect();
    for _ in 0..12 {
        let (prompt, tokens) = (random.usize(100..8000), random.usize(5..40));
        longest = longest.max(prompt + tokens);
        for length in prompt..prompt + tokens {
            scope.run(|| decode(&device, &mut caches, length, length == prompt));
            reserved = reserved.max(device.memory().bytes);
        }
    }
    // All caches, and what a prompt needs beside them in a layer.
    reserved as f64 / ((40 + 28) * 1024 * longest) as f64
}

#[test]
fn texts_with_prompts_of_any_length() {
    let _turn = turn();
    let found: Vec<f64> = (1..=8).map(prompts).collect();
    // 1.41 if the memory that carried the last text waits for another one.
    let mean = found.iter().sum::<f64>() / found.len() as f64;
    assert!(mean <= 1.15, "{found:?}");
}

/// One entry with many texts keeps the memory of the prompts, although its loop over tokens needs less. Giving it back and taking it again
/// took 511 calls for each text, and those for the caches alone take 268.
#[test]
fn texts_in_one_entry_take_the_memory_of_their_prompts_once() {
    let _turn = turn();
    let (device, mut random) = (Virtual::unchecked(1 << 40), fastrand::Rng::with_seed(5));
    let mut caches: Vec<_> = (0..40).map(|_| Array::zeros(&device, 0).unwrap()).collect();
    let calls = || device.memory().times_taken() + device.memory().times_given_back();
    Scope::new("texts in one entry").run(|| {
        let mut before = 0;
        for text in 0..60 {
            if text == 30 {
                before = calls();
            }
            let (prompt, tokens) = (random.usize(4000..8000), random.usize(20..40));
            (prompt..prompt + tokens).for_each(|length| decode(&device, &mut caches, length, length == prompt));
        }
        let for_each = (calls() - before) / 30;
        assert!(for_each < 340, "{for_each} calls for each text");
        // What was needed before an invalidation is not kept after it.
        invalidate("texts in one entry");
        (0..4).for_each(|_| (200..230).for_each(|length| decode(&device, &mut caches, length, length == 200)));
        assert!(device.memory().bytes < 64 << 20, "{}", device.memory().bytes);
    });
}

/// Reserved ÷ live memory at most, in texts whose prompt takes about as much memory as all caches do later.
fn wide_prompts(seed: u64) -> f64 {
    let name = format!("wide prompts {seed}");
    let (device, scope, row) = (Virtual::unchecked(1 << 40), Scope::new(&name), 48 << 10);
    let zeros = |bytes: usize| Array::<u8, Virtual>::zeros(&device, bytes).unwrap();
    let (mut random, mut reserved) = (fastrand::Rng::with_seed(seed), 0);
    let weights = zeros(384 << 20);
    let mut caches: Vec<_> = (0..24).map(|_| zeros(0)).collect();
    for _ in 0..12 {
        let (prompt, tokens) = (random.usize(20..400), random.usize(20..200));
        for length in prompt..prompt + tokens {
            let (is_prompt, is_last) = (length == prompt, length + 1 == prompt + tokens);
            let read = if is_prompt { prompt } else { 1 };
            scope.run(|| {
                let mut states = zeros(row * read);
                for layer in caches.chunks_mut(2) {
                    let norm = zeros(row * read);
                    let queries = zeros(3 * row * read);
                    drop(norm);
                    if !is_prompt {
                        layer.iter_mut().for_each(|cache| *cache = zeros(row * length));
                    }
                    let scores = zeros(768 * read * length);
                    let weights = zeros(768 * read * length);
                    drop(scores);
                    let mixed = zeros(row * read);
                    drop((weights, queries));
                    let wide = zeros(4 * row * read);
                    states = zeros(row * read);
                    drop((wide, mixed));
                }
                drop((zeros((1 << 20) * read), states));
                if is_prompt {
                    caches.iter_mut().for_each(|cache| *cache = zeros(row * length));
                }
                if is_last {
                    caches.iter_mut().for_each(|cache| *cache = zeros(0));
                }
            });
            reserved = reserved.max(device.memory().bytes);
        }
    }
    reserved as f64 / (weights.len() as u64 + scope.stats().unwrap().high_water_bytes) as f64
}

/// The memory that carried the last text goes before an arena makes the range grow.
#[test]
fn texts_with_wide_prompts() {
    let _turn = turn();
    let found: Vec<f64> = (1..=8).map(wide_prompts).collect();
    // One of them was 1.31. The most was 1.125 since; a machine that finds other layouts in its time may have some more.
    assert!(found.iter().all(|&ratio| ratio <= 1.2), "{found:?}");
}

/// Sizes that grow by chance are no reason to lay anything out ahead.
#[test]
fn sizes_that_vary_at_random_take_no_more_than_they_need() {
    let _turn = turn();
    let (texts, mut random) = (Texts::new("random", decoder(6, 16 << 10)), fastrand::Rng::with_seed(7));
    let mut all = Seen::default();
    for _ in 0..20 {
        all += texts.texts(1, (0..50).map(|_| random.usize(10..150)));
    }
    // The bytes of the largest entry.
    let most = decoder(6, 16 << 10).into_iter().filter(|array| array.life == Life::Entry);
    let most: usize = most.map(|array| (array.bytes + array.step * 150).next_multiple_of(256)).sum();
    let arena = texts.stats().plan.arena_bytes;
    assert!(arena <= most as u64 + (1 << 20), "{arena} bytes for {most}");
    assert!(all.waste() <= 1.03, "{} {all:?}", all.waste());
}
