//! Time and height of layouts of large generated problems: `cargo bench`.

mod generate;

use std::time::{Duration, Instant};

use gpucache_plan::{Buffer, Solver, check, layout, lower_bound};

const RUNS: usize = 5;

fn main() {
    let count = 100_000;
    println!("{:34} {:>8} {:>11} {:>9} {:>11}", "problem", "buffers", "layout ms", "ratio", "ratio, 2 s");
    for (seed, stretch) in [(1, 20), (2, 400), (3, 5_000), (4, 100_000)] {
        report(&format!("training, stretches to {stretch}"), &generate::training(count, stretch, seed));
    }
    for (seed, span, duration) in [(5, 100_000, 100), (6, 100_000, 1_000), (7, 100_000, 50_000), (8, 1_000, 1_000)] {
        report(&format!("uniform, {duration} of {span}"), &generate::uniform(count, span, duration, seed));
    }
    report("uniform, 600 of 60000", &generate::uniform(30_000, 60_000, 600, 9));
}

/// A closure that returns whether `budget` is over. The time starts now.
fn within(budget: Duration) -> impl FnMut() -> bool {
    let start = Instant::now();
    move || start.elapsed() >= budget
}

/// Prints the least time of a few runs of `layout`, its ratio, and the ratio after two more seconds of [`Solver::improve`].
fn report(name: &str, buffers: &[Buffer]) {
    let bound = lower_bound(buffers) as f64;
    let mut least = Duration::MAX;
    let mut heights = (0, 0);
    for _ in 0..RUNS {
        let start = Instant::now();
        let Ok(found) = layout(buffers) else { return };
        least = least.min(start.elapsed());
        heights.0 = found.height;
        assert_eq!(check(buffers, &found), Ok(()));
    }
    let mut is_over = within(Duration::from_secs(2));
    if let Ok(mut solver) = Solver::new(buffers) {
        solver.improve(0, &mut is_over);
        let better = solver.layout();
        assert_eq!(check(buffers, &better), Ok(()));
        heights.1 = better.height;
    }
    let ratio = |height: u64| height as f64 / bound;
    let milliseconds = least.as_secs_f64() * 1e3;
    println!("{name:34} {:8} {milliseconds:11.1} {:9.5} {:11.5}", buffers.len(), ratio(heights.0), ratio(heights.1));
}
