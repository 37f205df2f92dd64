//! Trainings that keep more beside a step: a buffer that grows, or batches that another thread loads.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use fastrand::Rng;

use super::STEPS;
use crate::network::{Convolutions, Dense, NUMBER, evaluate, forward};
use crate::tape::{Held, Tape};
use crate::trainer::{Temporaries, Trainer};
use crate::turn::{Turn, join, spawn};

/// Batches that are ready before the step that uses them: the default of PyTorch's loaders.
const AHEAD: u64 = 2;

/// Each step plays an episode of random length, keeps it, and learns from a batch of all episodes.
pub(super) fn replay_buffer(tape: &Tape, random: &mut Rng) {
    let model = Dense { layers: random.u64(3..=5), ..Dense::draw(random) };
    let (play, learn) = (model.all(1).concat(), model.all(64 * random.u64(1..=16)));
    let mut trainer = Trainer::new(tape, &learn);
    let mut episodes = Vec::new();
    for _ in 0..STEPS {
        let length = random.u64(5..=30);
        tape.step("step", || {
            let moves: Vec<_> = (0..length).map(|_| evaluate(tape, &play)).collect();
            let row = length * NUMBER;
            episodes.push(tape.arrays([row * model.width, row, row, row * model.width]));
            drop(moves);
            trainer.step(&learn);
        });
    }
}

/// Batches on their way between two threads.
type Queue = Arc<Mutex<VecDeque<Held>>>;

fn put(queue: &Queue, batch: Held) {
    queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(batch);
}

fn take(queue: &Queue) -> Option<Held> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
}

/// Trains on batches that a thread loads during the forward pass. `used` gets the batches after their step.
fn load(tape: &Tape, random: &mut Rng, used: Option<Queue>) {
    let (batch, side) = (random.u64(4..=16), 32 * random.u64(2..=6));
    let layers = Convolutions::draw(random).all(batch, side);
    let (ops, mut trainer) = (layers.concat(), Trainer::new(tape, &layers));
    let (turn, other) = Turn::pair();
    let (ready, dropped) = (Queue::default(), used.clone());
    let (loading, output) = (tape.clone(), ready.clone());
    let thread = spawn(other, move |turn| {
        // As many turns as the training passes, so that the thread ends after it.
        for _ in 0..STEPS + AHEAD {
            loading.scope("load", || {
                dropped.iter().for_each(|queue| drop(take(queue)));
                let bytes = batch * 3 * side * side;
                let raw = loading.array(bytes);
                put(&output, loading.array(bytes * NUMBER));
                drop(raw);
            });
            loading.pass(turn);
        }
    });
    (0..AHEAD).for_each(|_| tape.pass(&turn));
    for _ in 0..STEPS {
        tape.step("step", || {
            let batch = take(&ready);
            let waiting = forward(tape, &ops);
            tape.pass(&turn);
            trainer.backward(&ops, waiting);
            trainer.optimize(Temporaries::Together);
            batch.into_iter().for_each(|batch| used.as_ref().map_or((), |queue| put(queue, batch)));
        });
    }
    join(turn, thread);
}

/// The step drops its batch.
pub(super) fn loader(tape: &Tape, random: &mut Rng) {
    load(tape, random, None);
}

/// The thread that loads the batches also drops them, one step later.
pub(super) fn loader_drops(tape: &Tape, random: &mut Rng) {
    load(tape, random, Some(Queue::default()));
}
