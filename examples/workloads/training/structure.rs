//! Trainings whose steps differ in their operations, or have unusual ones.

use fastrand::Rng;

use super::STEPS;
use crate::network::{Convolutions, Layers, NUMBER, Op, Transformer, forward, numbered, passing, saved};
use crate::tape::Tape;
use crate::trainer::{Temporaries, Trainer};

/// The forward pass keeps only the last result of each layer. The backward pass computes each layer again.
pub(super) fn checkpointing(tape: &Tape, random: &mut Rng) {
    let model = Transformer::draw(random);
    let layers = model.all(random.u64(2..=16), 64 * random.u64(2..=8));
    let mut trainer = Trainer::new(tape, &layers);
    for _ in 0..STEPS {
        tape.step("step", || {
            let mut results: Vec<_> = layers.iter().map(|layer| forward(tape, layer).pop()).collect();
            let mut gradient = tape.array(NUMBER);
            for layer in layers.iter().rev() {
                let waiting = forward(tape, layer);
                gradient = trainer.backward_from(layer, waiting, gradient);
                drop(results.pop());
            }
            drop(gradient);
            trainer.optimize(Temporaries::OneByOne);
        });
    }
}

/// Each layer between the first and the last one is left out in one of five steps, at random.
pub(super) fn stochastic_depth(tape: &Tape, random: &mut Rng) {
    let model = Transformer::draw(random);
    let layers = model.all(random.u64(1..=8), 64 * random.u64(1..=8));
    let mut trainer = Trainer::new(tape, &layers);
    for _ in 0..STEPS {
        let (first, last) = (&layers[..1], &layers[layers.len() - 1..]);
        let between = layers[1..layers.len() - 1].iter().filter(|_| random.u64(..5) > 0);
        let layers = first.iter().chain(between).chain(last).cloned().collect();
        tape.step("step", || trainer.step(&layers));
    }
}

/// Each batch leaves the network at a random layer.
pub(super) fn early_exit(tape: &Tape, random: &mut Rng) {
    let model = Transformer::draw(random);
    let layers = model.all(random.u64(1..=8), 64 * random.u64(1..=8));
    let mut trainer = Trainer::new(tape, &layers);
    for _ in 0..STEPS {
        let depth = random.usize(2..layers.len());
        let layers = [&layers[..depth], &layers[layers.len() - 1..]].concat();
        tape.step("step", || trainer.step(&layers));
    }
}

/// A layer in which each token goes to one of `experts` networks, at random.
fn routed(model: &Transformer, tokens: u64, experts: u64, random: &mut Rng) -> Vec<Op> {
    let row = model.width * NUMBER;
    let likings: Vec<f64> = (0..experts).map(|_| random.f64()).collect();
    let all: f64 = likings.iter().sum();
    let router = saved(tokens * experts * NUMBER).with_weight(experts * row);
    let mut ops = vec![router, saved(tokens * 8), saved(tokens * NUMBER)];
    for liking in likings {
        let rows = (liking / all * tokens as f64) as u64 * row;
        ops.extend([saved(rows / model.width), saved(rows), saved(4 * rows).with_weight(4 * model.width * row)]);
        ops.extend([saved(4 * rows), passing(rows).with_weight(4 * model.width * row)]);
    }
    ops.push(saved(tokens * row));
    ops
}

/// A mixture of experts: the sizes of most arrays are random in each step, and their order is the same.
pub(super) fn experts(tape: &Tape, random: &mut Rng) {
    let model = Transformer { layers: random.u64(2..=4), ..Transformer::draw(random) };
    let (batch, length, experts) = (random.u64(1..=8), 64 * random.u64(1..=8), random.u64(4..=8));
    let draw = |random: &mut Rng| -> Layers {
        let mut layers = vec![model.embedding(batch, length)];
        for _ in 0..model.layers {
            layers.extend([model.layer(batch, length, length), routed(&model, batch * length, experts, random)]);
        }
        layers.push(model.head(batch, length));
        numbered(layers)
    };
    let mut trainer = Trainer::new(tape, &draw(random));
    for _ in 0..STEPS {
        let layers = draw(random);
        tape.step("step", || trainer.step(&layers));
    }
}

/// A graph network on a sample of the graph: all sizes are random in each step, and their order is the same.
pub(super) fn sampled_graph(tape: &Tape, random: &mut Rng) {
    let (width, depth, targets) = (64 * random.u64(1..=8), random.u64(2..=4), 64 * random.u64(4..=32));
    let row = width * NUMBER;
    let draw = |random: &mut Rng| -> Layers {
        let mut nodes = targets;
        let mut layers = Vec::new();
        for _ in 0..depth {
            let edges = nodes * random.u64(5..=15);
            let sources = nodes + edges * random.u64(40..=80) / 100;
            let indices = [saved(edges * 8), saved(edges * 8), saved(sources * 8)];
            let message = [passing(edges * row), saved(nodes * row), saved(nodes * row).with_weight(width * row)];
            let source = saved(sources * row).with_weight(width * row);
            layers.push([&indices[..], &[source], &message, &[saved(nodes * row), saved(nodes)]].concat());
            nodes = sources.min(200_000); // more nodes than this graph has cannot be sampled
        }
        layers.reverse();
        numbered(layers)
    };
    let mut trainer = Trainer::new(tape, &draw(random));
    for _ in 0..STEPS {
        let layers = draw(random);
        tape.step("step", || trainer.step(&layers));
    }
}

/// A detector: the same convolutions in each step, and then small arrays for a random number of boxes.
pub(super) fn detection(tape: &Tape, random: &mut Rng) {
    let (model, batch, side) = (Convolutions::draw(random), random.u64(1..=4), 64 * random.u64(4..=10));
    let network = |boxes: u64| -> Layers {
        let features = 49 * model.channels * NUMBER; // of 7 by 7 points
        let head = vec![
            saved(boxes * features),
            saved(boxes * 1024 * NUMBER).with_weight(features * 1024),
            saved(boxes * 91 * NUMBER),
        ];
        numbered(model.all(batch, side).into_iter().chain([head]).collect())
    };
    let mut trainer = Trainer::new(tape, &network(1));
    for _ in 0..STEPS {
        let boxes: Vec<u64> = (0..batch).map(|_| random.u64(2..=40)).collect();
        let layers = network(boxes.iter().sum());
        tape.step("step", || {
            let waiting = forward(tape, &layers.concat());
            boxes.iter().for_each(|boxes| compare(tape, *boxes));
            trainer.backward(&layers.concat(), waiting);
            trainer.optimize(Temporaries::Together);
        });
    }
}

/// The boxes of an image are compared with the true ones, and each chosen one gets a small array.
fn compare(tape: &Tape, boxes: u64) {
    let overlaps = tape.array(boxes * 2000 * NUMBER);
    tape.temporary(boxes * 8);
    let mut chosen = Vec::new();
    for number in 0..boxes {
        tape.temporary(2000);
        chosen.push(tape.array(16 * (1 + number % 4)));
    }
    drop(overlaps);
    tape.temporary(boxes * 16);
}

/// A recurrent network: each step has a random number of time steps, which share their weights.
pub(super) fn recurrent(tape: &Tape, random: &mut Rng) {
    let (batch, width) = (8 * random.u64(1..=16), 128 * random.u64(1..=8));
    let row = batch * width * NUMBER;
    let cell = |number: usize| {
        let gates = saved(4 * row).with_weight(8 * width * width * NUMBER).with_temporary(4 * row);
        vec![Op { number, ..gates }, saved(row), saved(row), saved(row)]
    };
    let layers: Layers = (0..random.usize(1..=2)).map(cell).collect();
    let mut trainer = Trainer::new(tape, &layers);
    for _ in 0..STEPS {
        let time: Layers = (0..random.u64(10..=40)).flat_map(|_| layers.clone()).collect();
        tape.step("step", || trainer.step(&time));
    }
}
