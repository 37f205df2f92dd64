//! Simulations. A step is a step of time. The state lives from step to step, and each step replaces it.

use fastrand::Rng;

use super::DOUBLE;
use crate::network::NUMBER;
use crate::tape::Tape;

/// Steps of a simulation: 24 changes of the mesh.
const STEPS: u64 = 120;

/// A mesh whose cells change by up to 1% every five steps. Each step has three stages.
pub(super) fn adaptive_mesh(tape: &Tape, random: &mut Rng) {
    let (mut cells, fields) = (random.u64(200_000..2_000_000), random.usize(5..=9));
    let mut state = tape.arrays(vec![cells * DOUBLE; fields]);
    for step in 0..STEPS {
        if step % 5 == 0 {
            cells = cells * random.u64(990..=1012) / 1000;
        }
        tape.step("step", || {
            if step % 5 == 0 {
                let (marks, map) = (tape.array(cells), tape.array(cells * 4));
                state.iter_mut().for_each(|field| *field = tape.array(cells * DOUBLE));
                drop((marks, map));
            }
            for _ in 0..3 {
                let slopes = tape.arrays(vec![3 * cells * DOUBLE; fields]);
                let fluxes = tape.arrays(vec![3 * cells * DOUBLE; fields]);
                drop(slopes);
                state.iter_mut().for_each(|field| *field = tape.array(cells * DOUBLE));
                drop(fluxes);
            }
            drop(tape.arrays([cells.div_ceil(1024) * DOUBLE, DOUBLE])); // the next step of time
        });
    }
}

/// Particles whose neighbours differ in each step, by up to a tenth. Particles enter and leave too.
pub(super) fn particles(tape: &Tape, random: &mut Rng) {
    let (typical, species) = (random.u64(100_000..600_000), random.usize(4..=8));
    let about = |typical: u64, random: &mut Rng| typical * random.u64(900..=1100) / 1000;
    let mut state: Vec<_> = (0..species).map(|_| tape.arrays([3 * typical * NUMBER; 2])).collect();
    for _ in 0..STEPS {
        let numbers: Vec<_> = (0..species).map(|_| (about(typical, random), about(40 * typical, random))).collect();
        tape.step("step", || {
            for (particles, (number, neighbours)) in state.iter_mut().zip(&numbers) {
                let cells = tape.arrays([number * 4, number * 8]);
                let order = tape.array(number * 4);
                let pairs = tape.arrays([neighbours * 4, number * 8]);
                drop(cells);
                let forces = tape.arrays([3 * number * NUMBER, number * NUMBER]);
                tape.temporary(neighbours * NUMBER);
                drop((pairs, order));
                particles.iter_mut().for_each(|array| *array = tape.array(3 * number * NUMBER));
                drop(forces);
            }
            tape.temporary(DOUBLE);
        });
    }
}
