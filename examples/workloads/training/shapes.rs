//! Trainings whose batches differ in size.

use fastrand::Rng;

use super::STEPS;
use crate::network::{Convolutions, Transformer};
use crate::tape::Tape;
use crate::trainer::Trainer;

/// Trains a transformer. `shape` gives the batch and the length of each step.
fn train(tape: &Tape, random: &mut Rng, mut shape: impl FnMut(u64, &mut Rng) -> (u64, u64)) {
    let model = Transformer::draw(random);
    let mut trainer = Trainer::new(tape, &model.all(1, 1));
    for step in 0..STEPS {
        let (batch, length) = shape(step, random);
        tape.step("step", || trainer.step(&model.all(batch, length)));
    }
}

/// All batches are alike.
pub(super) fn fixed(tape: &Tape, random: &mut Rng) {
    let (batch, length) = (random.u64(1..=16), 64 * random.u64(1..=8));
    train(tape, random, |_, _| (batch, length));
}

/// Each batch is as long as its longest text.
pub(super) fn random_length(tape: &Tape, random: &mut Rng) {
    let batch = random.u64(1..=8);
    train(tape, random, |_, random| (batch, random.u64(32..=512)));
}

/// Lengths are rounded up to multiples of 64.
pub(super) fn bucketed_length(tape: &Tape, random: &mut Rng) {
    let batch = random.u64(1..=8);
    train(tape, random, |_, random| (batch, random.u64(32..=512).next_multiple_of(64)));
}

/// The length doubles four times.
pub(super) fn curriculum_stepwise(tape: &Tape, random: &mut Rng) {
    let (batch, length) = (random.u64(2..=8), random.u64(24..=40));
    train(tape, random, |step, _| (batch, length << (step * 5 / STEPS)));
}

/// The length grows with each step.
pub(super) fn curriculum_continuous(tape: &Tape, random: &mut Rng) {
    let (batch, first, more) = (random.u64(2..=8), random.u64(32..=128), random.u64(2..=6));
    train(tape, random, |step, _| (batch, first + more * step));
}

/// The batch doubles once, somewhere in the middle of the run.
pub(super) fn batch_doubles(tape: &Tape, random: &mut Rng) {
    let (batch, length) = (random.u64(1..=8), 64 * random.u64(1..=8));
    let doubles = random.u64(STEPS / 4..STEPS / 2);
    train(tape, random, |step, _| (batch << u64::from(step >= doubles), length));
}

/// The last batch of each epoch is smaller than the others.
pub(super) fn last_batch_smaller(tape: &Tape, random: &mut Rng) {
    let (batch, length) = (random.u64(4..=16), 64 * random.u64(1..=8));
    let (epoch, last) = (random.u64(10..=20), random.u64(1..batch));
    train(tape, random, |step, _| (if (step + 1) % epoch == 0 { last } else { batch }, length));
}

/// The images grow every 20 steps.
pub(super) fn progressive_resizing(tape: &Tape, random: &mut Rng) {
    let (model, batch, side) = (Convolutions::draw(random), random.u64(4..=16), 32 * random.u64(2..=4));
    let mut trainer = Trainer::new(tape, &model.all(1, 32));
    for step in 0..STEPS {
        let side = side + 32 * (step / 20);
        tape.step("step", || trainer.step(&model.all(batch, side)));
    }
}
