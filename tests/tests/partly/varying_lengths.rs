//! Training steps whose sequences have another length each time, with and without activation checkpoints, and a mixture of experts. Their
//! order of allocations is known after some steps, and their sizes are not.

use std::cell::Cell;

use fastrand::Rng;
use gpucache::device::{Device, Virtual};
use gpucache::{Array, Scope, stats};
use gpucache_tests::turn;

type Bytes = Array<u8, Virtual>;

const LAYERS: usize = 8;
const WIDTH: usize = 512;
const WORDS: usize = 16_384;
const STEPS: usize = 60;
/// From this step on, plans have to serve.
const WARM: usize = 20;

/// The arrays of a step.
struct Step<'a> {
    device: &'a Virtual,
    length: usize,
}

impl Step<'_> {
    fn array(&self, bytes: usize) -> Bytes {
        Array::zeros(self.device, bytes).unwrap()
    }

    /// A row of `width` numbers for each token.
    fn rows(&self, width: usize) -> Bytes {
        self.array(4 * self.length * width)
    }

    /// A number for each pair of tokens.
    fn pairs(&self, heads: usize) -> Bytes {
        self.array(2 * heads * self.length * self.length)
    }

    /// The arrays that the backward pass of a layer needs. A long sequence takes a workspace more.
    fn layer(&self) -> Vec<Bytes> {
        let norm = self.rows(WIDTH);
        let qkv = self.rows(3 * WIDTH);
        let scores = self.pairs(8);
        let weights = self.pairs(8);
        drop(scores);
        let _workspace = (self.length > 200).then(|| self.array(1 << 20));
        let mixed = self.rows(WIDTH);
        let inner = self.rows(4 * WIDTH);
        let active = self.rows(4 * WIDTH);
        let sum = self.rows(WIDTH);
        vec![norm, qkv, weights, mixed, inner, active, sum]
    }

    /// The backward pass of a layer: gradients that live for a while, and those of the weights.
    fn learn(&self, saved: Vec<Bytes>, gradients: &mut Vec<Bytes>) {
        let mut gradient = self.rows(WIDTH);
        for saved in saved.into_iter().rev() {
            let next = self.array(saved.len());
            drop(saved);
            gradient = next;
        }
        drop(gradient);
        gradients.push(self.array(12 * WIDTH * WIDTH));
    }

    /// The loss, and the backward pass of all layers.
    fn learn_all(&self, saved: Vec<Vec<Bytes>>) {
        drop((self.rows(WORDS), self.rows(WORDS)));
        let mut gradients = Vec::new();
        saved.into_iter().rev().for_each(|layer| self.learn(layer, &mut gradients));
    }

    fn run(&self, is_checkpointed: bool) {
        let mut saved: Vec<Vec<Bytes>> = Vec::new();
        for _ in 0..LAYERS {
            let layer = self.layer();
            saved.push(if is_checkpointed { layer.into_iter().rev().take(1).collect() } else { layer });
        }
        let logits = self.rows(WORDS);
        drop(self.rows(WORDS));
        drop(logits);
        let mut gradients = Vec::new();
        while let Some(layer) = saved.pop() {
            let layer = if is_checkpointed { self.layer() } else { layer };
            self.learn(layer, &mut gradients);
        }
        drop(self.array(12 * WIDTH * WIDTH));
    }

    /// Experts that copy their weights for each product. So many of a hundred get no tokens, and only search for them.
    fn casting_experts(&self, rng: &mut Rng, without: usize) {
        let mut saved: Vec<Vec<Bytes>> = Vec::new();
        for _ in 0..LAYERS {
            let mut layer = vec![self.rows(WIDTH)];
            for _ in 0..8 {
                drop((self.array(8192), self.array(4), self.array(21_503)));
                if rng.usize(0..100) < without {
                    continue;
                }
                let tokens = rng.usize(1..self.length / 4);
                let expert = |width: usize| self.array(2 * tokens * width);
                layer.extend([expert(4), expert(WIDTH)]);
                for _ in 0..6 {
                    let weights = self.array(8 * WIDTH * WIDTH);
                    layer.extend([expert(WIDTH), expert(4 * WIDTH)]);
                    drop(weights);
                }
            }
            layer.push(self.rows(WIDTH));
            saved.push(layer);
        }
        self.learn_all(saved);
    }

    /// Experts get random shares of the tokens.
    fn experts(&self, rng: &mut Rng) {
        let mut saved: Vec<Vec<Bytes>> = Vec::new();
        for _ in 0..LAYERS {
            let norm = self.rows(WIDTH);
            let mut shares: Vec<usize> = (0..7).map(|_| rng.usize(0..=self.length)).collect();
            shares.extend([0, self.length]);
            shares.sort_unstable();
            let mut layer = vec![norm];
            for tokens in shares.windows(2).map(|pair| pair[1] - pair[0] + 1) {
                let expert = |width: usize| self.array(4 * tokens * width);
                let (gate, up) = (expert(4 * WIDTH), expert(4 * WIDTH));
                let product = expert(4 * WIDTH);
                drop(expert(WIDTH));
                layer.extend([gate, up, product]);
            }
            layer.push(self.rows(WIDTH));
            saved.push(layer);
        }
        self.learn_all(saved);
    }
}

/// The entries of a scope: each step, or all of them together.
#[derive(Clone, Copy)]
enum Entries {
    Steps,
    Whole,
}

/// The share of the allocations of warm steps that plans served, and the most memory reserved as a multiple of the most that was alive.
fn play(name: &str, seed: u64, entries: Entries, mut step: impl FnMut(&Virtual, &mut Rng)) -> (f64, f64) {
    let _turn = turn();
    let device = Virtual::unchecked(1 << 40);
    let weights: Vec<Bytes> = (0..LAYERS).map(|_| Array::zeros(&device, 48 * WIDTH * WIDTH).unwrap()).collect();
    let mut rng = Rng::with_seed(seed);
    let mut before = None;
    let whole = matches!(entries, Entries::Whole).then(|| Scope::new(name).enter());
    for number in 0..STEPS {
        if number == WARM {
            before = stats(name);
        }
        let _scope = whole.is_none().then(|| Scope::new(name).enter());
        step(&device, &mut rng);
    }
    drop(whole);
    let after = stats(name).unwrap();
    let share = after.since(&before.unwrap()).served.planned_share();
    let live = after.high_water_bytes + weights.iter().map(|weights| weights.len() as u64).sum::<u64>();
    let ratio = device.memory().peak_bytes as f64 / live as f64;
    println!("{name}: {share:.3} planned, {ratio:.3} of live");
    (share, ratio)
}

/// The least mean share of plans. Measured: 0.972 and 0.973. A machine that finds other layouts in its time may refuse an arena more.
const PLANNED: f64 = 0.955;

/// The means over some seeds.
fn mean(name: &str, entries: Entries, step: impl Fn(&Virtual, &mut Rng)) -> (f64, f64) {
    const SEEDS: u64 = 10;
    let runs = (0..SEEDS).map(|seed| play(&format!("{name} {seed}"), seed, entries, &step));
    let (share, ratio) = runs.fold((0.0, 0.0), |sum, run| (sum.0 + run.0, sum.1 + run.1));
    (share / SEEDS as f64, ratio / SEEDS as f64)
}

/// A step of any length. The workspaces of long sequences make a second order of it.
fn of_any_length(device: &Virtual, rng: &mut Rng, is_checkpointed: bool) {
    Step { device, length: rng.usize(16..=1024) }.run(is_checkpointed);
}

#[test]
fn steps_of_any_length_are_planned() {
    let (share, ratio) = mean("lengths", Entries::Steps, |device, rng| of_any_length(device, rng, false));
    assert!(share >= PLANNED && ratio <= 1.05, "{share:.3} planned, {ratio:.3} of live");
}

#[test]
fn layers_with_checkpoints_are_no_loop() {
    let (share, ratio) = mean("checkpoints", Entries::Steps, |device, rng| of_any_length(device, rng, true));
    assert!(share >= PLANNED && ratio <= 1.05, "{share:.3} planned, {ratio:.3} of live");
}

/// Their allocations come in one order, and most sizes differ from step to step.
#[test]
fn experts_are_served_from_a_room() {
    for (name, entries) in [("experts", Entries::Steps), ("experts of a loop", Entries::Whole)] {
        let (share, ratio) = mean(name, entries, |device, rng| Step { device, length: 1024 }.experts(rng));
        // Measured: 0.980 and 1.013. Without rooms for such orders, nothing was planned.
        assert!(share >= 0.97 && ratio <= 1.03, "{name}: {share:.3} planned, {ratio:.3} of live");
    }
}

/// As a router that learns to do without some experts.
#[test]
fn experts_without_tokens_are_left_out() {
    let step = Cell::new(0);
    let (share, ratio) = mean("experts without tokens", Entries::Steps, |device, rng| {
        let without = if step.get() % STEPS < WARM { 0 } else { 10 };
        step.set(step.get() + 1);
        Step { device, length: 1024 }.casting_experts(rng, without);
    });
    // Measured: 0.960 and 1.012. With a search through 16 positions, 0.627 and 1.022.
    assert!(share >= 0.93 && ratio <= 1.03, "{share:.3} planned, {ratio:.3} of live");
}

/// Nobody says where a step begins. The longest sequence is eight times as long as the shortest one, and takes 64 times the memory in places.
#[test]
fn steps_of_any_length_are_found() {
    // Measured: 0.977 and 0.953.
    const FOUND: f64 = 0.93;
    for (name, is_checkpointed) in [("found", false), ("found with checkpoints", true)] {
        let (share, ratio) = mean(name, Entries::Whole, |device, rng| {
            Step { device, length: rng.usize(16..=128) }.run(is_checkpointed);
        });
        assert!(share >= FOUND && ratio <= 1.05, "{share:.3} planned, {ratio:.3} of live");
    }
}

/// As a training loop on one thread: the tokens come first, and tell the sizes of all that follows. Longer ones than before come now and then.
#[test]
fn an_iteration_of_a_loop_is_enlarged_before_it_begins() {
    let (share, ratio) = mean("tokens first", Entries::Whole, |device, rng| {
        let step = Step { device, length: (600.0 * rng.f64().powi(2)) as usize + 300 };
        let _tokens = step.rows(64);
        step.run(false);
        step.run(true);
    });
    // Measured: 0.994 and 1.012; 0.958 and 1.026 if the arena is enlarged only once a size did not fit.
    assert!(share >= 0.98 && ratio <= 1.02, "{share:.3} planned, {ratio:.3} of live");
}

/// The first allocation told the sizes of the others, and then grows alone, faster or more slowly.
#[test]
fn an_arena_does_not_follow_the_first_allocation_alone() {
    for growth in [1.02, 1.1, 1.24] {
        let (mut number, mut first) = (0, 0.0);
        let (_, ratio) = play(&format!("first {growth}"), 1, Entries::Steps, |device, rng| {
            number += 1;
            let length = rng.usize(300..=600);
            first = if number < 30 { length as f64 } else { f64::max(first * growth, 600.0) };
            let step = Step { device, length };
            let _first = step.array(64 * first as usize);
            let _others: Vec<Bytes> = (0..4).map(|_| step.pairs(12)).collect();
        });
        assert!(ratio <= 1.1, "{growth}: {ratio:.3} of live");
    }
}
