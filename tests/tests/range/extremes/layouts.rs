//! Layouts of buffers with extreme numbers.

use std::time::Duration;

use fastrand::Rng;
use gpucache::plan::{Buffer, Layout, Solver, check, improve, layout, lower_bound};
use gpucache_tests::{seeds, turn};

use super::programs::extreme;

fn time(rng: &mut Rng) -> u32 {
    match rng.u8(0..4) {
        0 => u32::MAX - rng.u32(0..3),
        1 => rng.u32(..),
        _ => rng.u32(0..20),
    }
}

fn buffers(rng: &mut Rng) -> Vec<Buffer> {
    let most = 63 - rng.u32(0..6);
    let size = |rng: &mut Rng| if rng.bool() { extreme(rng) >> rng.u32(0..8) } else { extreme(rng) % (1 << most) };
    (0..rng.usize(0..12)).map(|_| Buffer { lower: time(rng), upper: time(rng), size: size(rng) }).collect()
}

#[test]
fn any_buffers_are_laid_out_or_refused() {
    let _turn = turn();
    let mut laid_out = 0;
    seeds::each(3000, 1, |seed| {
        let rng = &mut Rng::with_seed(seed);
        let buffers = buffers(rng);
        let bound = lower_bound(&buffers);
        let occupying = buffers.iter().filter(|buffer| buffer.lower < buffer.upper);
        let sum: u128 = occupying.map(|buffer| u128::from(buffer.size)).sum();
        match layout(&buffers) {
            Ok(found) => {
                laid_out += 1;
                assert_eq!(check(&buffers, &found), Ok(()));
                assert!(found.height >= bound && sum <= 1 << 62);
                let better = improve(&buffers, &found, extreme(rng), Duration::from_micros(200)).unwrap();
                assert!(better.height <= found.height && check(&buffers, &better) == Ok(()));
                let mut solver = Solver::new(&buffers).unwrap();
                let mut steps = 0;
                solver.improve(extreme(rng), &mut || {
                    steps += 1;
                    steps > 20
                });
                assert!(solver.bound() <= solver.height());
            }
            Err(error) => assert!(sum > 1 << 62, "{error}"),
        }
        // Arbitrary layouts.
        let offsets = (0..buffers.len() + usize::from(rng.u8(0..8) == 0)).map(|_| extreme(rng)).collect();
        let wild = Layout { offsets, height: extreme(rng) };
        let _ = check(&buffers, &wild).map_err(|error| error.to_string());
        let _ = improve(&buffers, &wild, extreme(rng), Duration::ZERO).map(|layout| layout.height);
    });
    assert!(laid_out > 100, "{laid_out}");
}
