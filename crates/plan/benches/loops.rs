//! Measures what the search for loops costs per allocation and drop: in a program without loops, and in one whose loop is never accepted.
//!
//! ```text
//! cargo bench --package gpucache-plan --bench loops
//! ```

use std::time::Instant;

use gpucache_plan::entries::Log;
use gpucache_plan::loops::Search;

/// An allocation: its bytes, and the numbers of the arrays that were dropped before it.
type Program = Vec<(u64, Vec<u32>)>;

/// Random sizes and lifetimes.
fn irregular(allocations: u32, sizes: &[u64]) -> Program {
    let (mut random, mut live) = (fastrand::Rng::with_seed(7), Vec::new());
    let allocation = |number| {
        let mut drops = Vec::new();
        while random.bool() && !live.is_empty() {
            drops.push(live.swap_remove(random.usize(..live.len())));
        }
        live.push(number);
        let bytes = if sizes.is_empty() { random.u64(1..1 << 24) } else { sizes[random.usize(..sizes.len())] };
        (bytes, drops)
    };
    (0..allocations).map(allocation).collect()
}

/// The least nanoseconds per allocation of some runs, with the search and without.
fn nanoseconds(program: &Program) -> [f64; 2] {
    [true, false].map(|searches| {
        let (mut log, mut search) = (Log::default(), Search::default());
        let mut run = || {
            log.begin_entry(None);
            log.begin(1);
            search.begin(std::iter::empty(), 0);
            let start = Instant::now();
            for (bytes, drops) in program {
                for &number in drops {
                    log.dropped(number);
                    if searches {
                        search.dropped(log.len() - number);
                    }
                }
                log.allocated(1, *bytes);
                if searches {
                    std::hint::black_box(search.allocated(&log));
                }
            }
            start.elapsed().as_nanos() as f64 / program.len() as f64
        };
        (0..21).map(|_| run()).fold(f64::INFINITY, f64::min)
    })
}

fn main() {
    let few = [256, 512, 1024, 2048, 4096, 8192, 16384, 32768];
    let programs = [("any sizes", irregular(100_000, &[])), ("eight sizes", irregular(100_000, &few))];
    for (name, program) in programs {
        let [with, without] = nanoseconds(&program);
        println!(
            "{name}: {:.1} ns per allocation and its drops: {with:.1} with the search, {without:.1} without",
            with - without
        );
    }
}
