//! Programs that iterate until a result is exact enough. A step is one result.

use fastrand::Rng;

use super::DOUBLE;
use crate::network::NUMBER;
use crate::tape::{Held, Tape};

/// Results of a program: each of five meshes comes twelve times.
const RESULTS: u64 = 60;

/// Solves linear systems on five meshes by conjugate gradients. Each iteration replaces its three vectors.
pub(super) fn conjugate_gradient(tape: &Tape, random: &mut Rng) {
    let meshes = [0; 5].map(|_| random.u64(100_000..4_000_000));
    let _matrices = tape.arrays(meshes.iter().map(|points| 7 * points * (DOUBLE + 4)));
    for _ in 0..RESULTS {
        let (points, iterations) = (meshes[random.usize(..5)], random.u64(10..=60));
        let vector = points * DOUBLE;
        // One number for each block of 1,024 threads.
        let product = |tape: &Tape| drop(tape.arrays([points.div_ceil(1024) * DOUBLE, DOUBLE]));
        tape.step("solve", || {
            let mut vectors = tape.arrays([vector; 3]);
            for _ in 0..iterations {
                let image = tape.array(vector);
                product(tape);
                vectors[..2].iter_mut().for_each(|old| *old = tape.array(vector));
                drop(image);
                product(tape);
                vectors[2] = tape.array(vector);
            }
        });
    }
}

/// One cycle from the finest grid to the coarsest one and back.
fn cycle(tape: &Tape, points: u64) {
    let mut kept = Vec::new();
    let mut level = points;
    while level > 100 {
        tape.temporary(level * DOUBLE); // the smoother
        let residual = tape.array(level * DOUBLE);
        kept.push(tape.arrays([level / 8 * DOUBLE; 2])); // the right side and the solution of the next grid
        drop(residual);
        level /= 8;
    }
    while let Some(coarse) = kept.pop() {
        level *= 8;
        let correction = tape.array(level * DOUBLE);
        drop(coarse);
        drop(correction);
        tape.temporary(level * DOUBLE);
    }
}

/// Solves on three grids by a random number of multigrid cycles.
pub(super) fn multigrid(tape: &Tape, random: &mut Rng) {
    let grids = [0; 3].map(|_| random.u64(100_000..8_000_000));
    for _ in 0..RESULTS {
        let (points, cycles) = (grids[random.usize(..3)], random.u64(4..=12));
        tape.step("solve", || {
            let fields = tape.arrays([points * DOUBLE; 2]);
            for _ in 0..cycles {
                cycle(tape, points);
                drop(tape.arrays([points * DOUBLE, DOUBLE]));
            }
            drop(fields);
        });
    }
}

/// Finds 8 to 64 centers among the points of a data set, by a random number of iterations.
pub(super) fn k_means(tape: &Tape, random: &mut Rng) {
    let (points, width) = (random.u64(50_000..500_000), random.u64(8..=64));
    let _points = tape.array(points * width * NUMBER);
    for _ in 0..RESULTS {
        let (centers, iterations) = (random.u64(8..=64), random.u64(5..=40));
        tape.step("fit", || {
            let mut current: Held = tape.array(centers * width * NUMBER);
            for _ in 0..iterations {
                let distances = tape.array(points * centers * NUMBER);
                let labels = tape.array(points * 4);
                drop(distances);
                let sums = tape.arrays([centers * width * NUMBER, centers * 4]);
                current = tape.array(centers * width * NUMBER);
                drop((labels, sums));
                tape.temporary(NUMBER);
            }
            drop(current);
        });
    }
}
