//! Trainings with other work between the batches.

use fastrand::Rng;

use super::STEPS;
use crate::network::{Convolutions, Dense, Layers, Transformer, evaluate};
use crate::tape::Tape;
use crate::trainer::{Temporaries, Trainer};

/// Trains images, and evaluates `batches` larger batches every `period` steps.
fn train_and_evaluate(tape: &Tape, random: &mut Rng, period: u64, batches: u64) {
    let (model, side) = (Convolutions::draw(random), 32 * random.u64(2..=7));
    let (training, evaluation) = (random.u64(2..=16), random.u64(17..=32));
    let (training, evaluation) = (model.all(training, side), model.all(evaluation, side));
    let mut trainer = Trainer::new(tape, &training);
    for step in 1..=STEPS {
        tape.step("train", || trainer.step(&training));
        if step % period == 0 {
            (0..batches).for_each(|_| tape.step("evaluate", || drop(evaluate(tape, &evaluation.concat()))));
        }
    }
}

/// A batch is evaluated after ten steps.
pub(super) fn evaluation_often(tape: &Tape, random: &mut Rng) {
    train_and_evaluate(tape, random, 10, 1);
}

/// A set of batches is evaluated after an epoch of 30 steps.
pub(super) fn evaluation_per_epoch(tape: &Tape, random: &mut Rng) {
    let batches = random.u64(4..=12);
    train_and_evaluate(tape, random, 30, batches);
}

/// Adds up the gradients of four batches, and then changes the weights. All that is one step.
fn accumulate(tape: &Tape, layers: &Layers, temporaries: Temporaries) {
    let mut trainer = Trainer::new(tape, layers);
    for _ in 0..STEPS / 2 {
        tape.step("step", || {
            (0..4).for_each(|_| trainer.learn(&layers.concat()));
            trainer.optimize(temporaries);
        });
    }
}

/// The optimizer's arrays have other sizes than those of a batch.
pub(super) fn accumulation(tape: &Tape, random: &mut Rng) {
    let model = Transformer::draw(random);
    accumulate(tape, &model.all(random.u64(1..=8), 64 * random.u64(1..=6)), Temporaries::Together);
}

/// The optimizer's arrays have the sizes of those of a batch: a batch has as many rows as the weights.
pub(super) fn accumulation_alike(tape: &Tape, random: &mut Rng) {
    let model = Dense::draw(random);
    accumulate(tape, &model.all(model.width), Temporaries::OneByOne);
}

/// Every 25 steps, a copy of all weights is made, and dropped when it has been saved.
pub(super) fn copies_of_weights(tape: &Tape, random: &mut Rng) {
    let model = Transformer::draw(random);
    let layers = model.all(random.u64(1..=8), 64 * random.u64(1..=8));
    let mut trainer = Trainer::new(tape, &layers);
    for step in 1..=STEPS {
        tape.step("step", || {
            trainer.step(&layers);
            if step % 25 == 0 {
                drop(tape.arrays(trainer.weights.values().map(|weight| weight.bytes())));
            }
        });
    }
}

/// The optimizer is left out if a gradient is infinite: in one of eight steps, at random.
pub(super) fn loss_scaling(tape: &Tape, random: &mut Rng) {
    let model = Transformer::draw(random);
    let layers = model.all(random.u64(1..=8), 64 * random.u64(1..=8));
    let mut trainer = Trainer::new(tape, &layers);
    for _ in 0..STEPS {
        let is_finite = random.u64(..8) > 0;
        tape.step("step", || {
            trainer.learn(&layers.concat());
            tape.temporary(4); // whether all gradients are finite
            if is_finite { trainer.optimize(Temporaries::Together) } else { trainer.skip() }
        });
    }
}
