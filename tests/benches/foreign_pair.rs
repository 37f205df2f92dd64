//! The time of an allocation and a drop of a cudarc slice on a GPU, in nanoseconds: inside a scope that plans, and without
//! gpucache.
//!
//! `cargo bench --features foreign --bench foreign_pair -- --json`. Event tracking is first off, as candle sets it for its own
//! allocations, and then on. Each figure is the median over rounds that alternate between the subjects.
#![allow(unsafe_code, clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::CudaStream;
use gpucache::prelude::*;
use gpucache_tests::timing::{Options, median};

const ROUNDS: usize = 31;
/// The pairs in an entry.
const PAIRS: usize = 64;
const ENTRIES: usize = 100;

fn pairs(stream: &Arc<CudaStream>) {
    for pair in 0..PAIRS {
        // SAFETY: nobody reads the slice.
        drop(black_box(unsafe { stream.alloc::<f32>(black_box(256 * (1 + pair % 8))) }.unwrap()));
    }
}

/// The nanoseconds of a pair.
fn time(entry: impl Fn()) -> f64 {
    let start = Instant::now();
    (0..ENTRIES).for_each(|_| entry());
    start.elapsed().as_nanos() as f64 / (ENTRIES * PAIRS) as f64
}

fn main() {
    let wants_json = Options::wants_json();
    let Ok(gpu) = Cuda::new(0) else {
        println!("{}", if wants_json { "{}" } else { "no GPU" });
        return;
    };
    gpucache::foreign::status().unwrap();
    let context = gpu.stream().context().clone();
    let streams = [
        ("default", context.default_stream()),
        ("own", context.per_thread_stream()),
        ("new", context.new_stream().unwrap()),
    ];
    let mut parts = Vec::new();
    for tracked in [false, true] {
        // SAFETY: no slice of this program is used on two streams.
        unsafe { if tracked { context.enable_event_tracking() } else { context.disable_event_tracking() } };
        for (name, stream) in &streams {
            let (mut scoped, mut plain) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                scoped.push(time(|| gpucache::cache_scope!(pair, { pairs(stream) })));
                plain.push(time(|| pairs(stream)));
                stream.synchronize().unwrap();
            }
            let tracking = if tracked { "tracked" } else { "untracked" };
            let (scoped, plain) = (median(&mut scoped), median(&mut plain));
            parts.push(match wants_json {
                true => format!("\"{name}_{tracking}_ns\": {scoped:.1}, \"{name}_{tracking}_plain_ns\": {plain:.1}"),
                false => format!("{name}, {tracking}: {scoped:.1} ns, plain {plain:.1} ns"),
            });
            let _ = invalidate("pair");
        }
    }
    println!("{}", if wants_json { format!("{{{}}}", parts.join(", ")) } else { parts.join("\n") });
}
