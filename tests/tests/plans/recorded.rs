//! How much memory is reserved for recorded programs, once they are warm.

use std::num::NonZeroUsize;
use std::path::Path;

use gpucache_report::replay::{History, Policy, dry_run};

/// The first eight steps of candle 0.11.1's llama2.c, which learns with AdamW from 8 times 256 tokens: `candle-clients train` in
/// the mode `scope`, over a driver without kernels. Its mask of 64 KiB stays from the first step on. Its loss is dropped after each
/// step.
fn steady(name: &str, passes: usize) -> f64 {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("data/candle_llama2c_{name}.csv.gz"));
    let history = History::read(&path).unwrap();
    let figures = dry_run(&history, Policy::Auto, None, NonZeroUsize::new(passes).unwrap()).unwrap();
    assert_eq!(figures.out_of_memory, 0);
    figures.steady_reserved_bytes as f64 / figures.peak_live_bytes as f64
}

#[test]
fn candle_trains_in_hardly_more_than_is_alive() {
    for (name, passes) in [("15m", 1), ("15m", 4), ("110m", 1), ("110m", 4)] {
        let share = steady(name, passes);
        println!("{name}, {passes} passes: {share:.4}");
        assert!(share <= 1.003, "{name}, {passes} passes: {share}");
    }
}
