//! Programs with two threads.

use fastrand::Rng;

use crate::network::{Convolutions, Layers, Transformer, evaluate, forward};
use crate::tape::Tape;
use crate::trainer::{Temporaries, Trainer};
use crate::turn::{Turn, join, spawn};

/// Steps of the training. The server answers some 20 requests meanwhile.
const STEPS: u64 = 60;
/// Turns that a step of the training gives the server: behind each of its passes, and behind the optimizer.
const TURNS: u64 = 3;

/// Serves requests of one kind for so many turns. A turn is a layer.
fn serve(tape: &Tape, turn: &Turn, layers: &Layers, mut turns: u64) {
    while turns > 0 {
        tape.step("serve", || {
            let mut last = None;
            for layer in layers {
                drop(std::mem::replace(&mut last, evaluate(tape, layer)));
                if turns > 0 {
                    turns -= 1;
                    tape.pass(turn);
                }
            }
        });
    }
}

/// One thread trains, and the other one serves requests.
pub(super) fn two_threads(tape: &Tape, random: &mut Rng) {
    let training = Transformer::draw(random).all(random.u64(1..=8), 64 * random.u64(1..=8));
    let serving = Convolutions::draw(random).all(random.u64(1..=16), 32 * random.u64(2..=6));
    let ((turn, other), served) = (Turn::pair(), tape.clone());
    let thread = spawn(other, move |turn| serve(&served, turn, &serving, TURNS * STEPS));
    let (ops, mut trainer) = (training.concat(), Trainer::new(tape, &training));
    for _ in 0..STEPS {
        tape.step("train", || {
            let waiting = forward(tape, &ops);
            tape.pass(&turn);
            trainer.backward(&ops, waiting);
            tape.pass(&turn);
            trainer.optimize(Temporaries::Together);
            tape.pass(&turn);
        });
    }
    join(turn, thread);
}
