//! Programs that filter or draw images. A step is one image.

use fastrand::Rng;

use crate::network::NUMBER;
use crate::tape::Tape;

/// Images of a program: five times 20 steps with the same number of points.
const IMAGES: u64 = 100;
/// Numbers in each array of a point, as in 3D Gaussian splatting: place, scale, turn, opacity, colour, and its change with the view.
const POINT: [u64; 6] = [3, 3, 4, 1, 3, 45];

/// Applies sixteen filters in random order to images of three sizes. Each filter replaces the image.
pub(super) fn filters(tape: &Tape, random: &mut Rng) {
    let sizes = [0; 3].map(|_| random.u64(500_000..12_000_000));
    // For each filter: the temporary arrays, in thirds of the image's size.
    let filters: Vec<Vec<u64>> = (0..16).map(|_| (0..random.u64(0..=4)).map(|_| random.u64(1..=6)).collect()).collect();
    for _ in 0..IMAGES {
        let channel = sizes[random.usize(..3)] * NUMBER;
        let mut order: Vec<_> = filters.iter().collect();
        random.shuffle(&mut order);
        tape.step("image", || {
            let mut image = tape.array(3 * channel);
            for temporaries in order {
                let temporaries = tape.arrays(temporaries.iter().map(|thirds| thirds * channel));
                let histogram = tape.array(256 * 3 * 4);
                image = tape.array(3 * channel);
                drop((temporaries, histogram));
            }
            drop(image);
        });
    }
}

/// Learns points that look like a scene from all sides. Each step sees another part of them. There are more of them every 20 steps.
pub(super) fn splatting(tape: &Tape, random: &mut Rng) {
    let (mut points, pixels) = (random.u64(50_000..200_000), random.u64(200_000..2_000_000));
    let sizes = |points: u64| POINT.map(|numbers| points * numbers * NUMBER);
    // Values, and two moments of each.
    let mut state: Vec<_> = (0..3).map(|_| tape.arrays(sizes(points))).collect();
    for step in 1..=IMAGES {
        let seen = points * random.u64(500..=900) / 1000;
        let tiles = seen * random.u64(3..=8);
        let more = points * random.u64(5..=25) / 100;
        tape.step("step", || {
            let projected = tape.arrays([2, 3, 1, 3, 1].map(|numbers| seen * numbers * NUMBER));
            let keys = tape.arrays([tiles * 8, tiles * 4]);
            let sorted = tape.arrays([tiles * 8, tiles * 4, tiles / 4]);
            drop(keys);
            let image = tape.arrays([3, 1, 1].map(|numbers| pixels * numbers * NUMBER));
            let loss = tape.arrays([3 * pixels * NUMBER; 5]);
            let gradient = tape.array(3 * pixels * NUMBER);
            drop(loss);
            let screen = tape.arrays([2, 3, 1, 3].map(|numbers| seen * numbers * NUMBER));
            drop((gradient, sorted, image));
            let gradients = tape.arrays(sizes(points));
            drop((screen, projected));
            for bytes in sizes(points) {
                drop(tape.arrays([bytes; 2])); // of the optimizer
            }
            drop(gradients);
            if step % 20 == 0 {
                points += more;
                tape.temporary(points);
                let longer = |array: (usize, &mut _)| *array.1 = tape.array(sizes(points)[array.0]);
                state.iter_mut().for_each(|arrays| arrays.iter_mut().enumerate().for_each(longer));
            }
        });
    }
}
