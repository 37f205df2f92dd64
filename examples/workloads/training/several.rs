//! Trainings with several networks, or several passes, by turns.

use fastrand::Rng;

use super::STEPS;
use crate::network::{Convolutions, Dense, Layers, NUMBER, Transformer, evaluate, forward};
use crate::tape::Tape;
use crate::trainer::{Temporaries, Trainer};

/// Two networks against each other: several steps of the critic, and then one of the generator.
pub(super) fn adversarial(tape: &Tape, random: &mut Rng) {
    let (batch, side, turns) = (random.u64(4..=16), 32 * random.u64(2..=4), random.u64(1..=5));
    let [generator, critic] = [0; 2].map(|_| Convolutions::draw(random).all(batch, side));
    let mut trainers = [&generator, &critic].map(|layers| Trainer::new(tape, layers));
    for _ in 0..STEPS / 2 {
        for _ in 0..turns {
            tape.step("critic", || {
                let images = evaluate(tape, &generator.concat());
                (0..2).for_each(|_| trainers[1].learn(&critic.concat())); // true and made-up images
                drop(images);
                trainers[1].optimize(Temporaries::Together);
            });
        }
        tape.step("generator", || {
            let waiting = forward(tape, &generator.concat());
            trainers[1].learn(&critic.concat());
            trainers[0].backward(&generator.concat(), waiting);
            trainers[0].optimize(Temporaries::Together);
            trainers[1].skip();
        });
    }
}

/// Each step trains one of these networks, at random.
fn one_of(tape: &Tape, random: &mut Rng, networks: &[Layers]) {
    let mut trainers: Vec<_> = networks.iter().map(|layers| Trainer::new(tape, layers)).collect();
    for _ in 0..STEPS {
        let chosen = random.usize(..networks.len());
        tape.step("step", || trainers[chosen].step(&networks[chosen]));
    }
}

/// Two tasks of one transformer, which differ in batch and length.
pub(super) fn two_tasks(tape: &Tape, random: &mut Rng) {
    let model = Transformer::draw(random);
    let networks = [0; 2].map(|_| model.all(random.u64(1..=8), 64 * random.u64(1..=8)));
    one_of(tape, random, &networks);
}

/// Three networks of other kinds.
pub(super) fn three_kinds(tape: &Tape, random: &mut Rng) {
    let text = Transformer::draw(random).all(random.u64(1..=8), 64 * random.u64(1..=8));
    let images = Convolutions::draw(random).all(random.u64(2..=16), 32 * random.u64(2..=6));
    let rows = Dense::draw(random).all(64 * random.u64(1..=64));
    one_of(tape, random, &[text, images, rows]);
}

/// Two views of each image pass forward before both pass backward.
pub(super) fn contrastive(tape: &Tape, random: &mut Rng) {
    let (batch, side) = (random.u64(4..=32), 32 * random.u64(2..=5));
    let layers = Convolutions::draw(random).all(batch, side);
    let (ops, mut trainer) = (layers.concat(), Trainer::new(tape, &layers));
    for _ in 0..STEPS {
        tape.step("step", || {
            let views = [0; 2].map(|_| forward(tape, &ops));
            let alike = tape.arrays([4 * batch * batch * NUMBER; 3]);
            let gradients = tape.arrays([batch * 1000 * NUMBER; 2]);
            drop(alike);
            views.into_iter().rev().for_each(|waiting| trainer.backward(&ops, waiting));
            drop(gradients);
            trainer.optimize(Temporaries::Together);
        });
    }
}
