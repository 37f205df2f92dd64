//! One allocation and its drop, in nanoseconds: a warm scope beside mimalloc, in turn in one run.
//!
//! `cargo bench --bench pair -- --json`. Each figure is the median over rounds that alternate between the subjects, so
//! that a machine whose speed drifts treats them alike.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;
use std::time::{Duration, Instant};

use clap::Parser;
use gpucache::prelude::*;
use mimalloc::MiMalloc;

const ROUNDS: usize = 101;
const PAIRS: usize = 64 * 1024;
const SHAPES: usize = 64;

#[derive(Parser)]
struct Options {
    /// Prints one JSON object.
    #[arg(long)]
    json: bool,
    /// What `cargo bench` passes to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

/// A pair of mimalloc's at 64 bytes.
fn mimalloc_pairs() {
    let layout = Layout::new::<[u64; 8]>();
    for _ in 0..PAIRS {
        // SAFETY: the layout's size is not zero, and the memory is freed once, as it was allocated.
        unsafe {
            let memory = black_box(MiMalloc.alloc(black_box(layout)));
            MiMalloc.dealloc(memory, layout);
        }
    }
}

/// A pair of a scope that keeps blocks by key, 64 shapes in turn.
#[cache_scope(keyed_pair, recycle = "keyed")]
fn keyed_pairs(host: &Host) {
    for pair in 0..PAIRS {
        // SAFETY: nobody reads the array.
        let array = unsafe { Array::<f32, Host>::uninit(host, black_box([1 + pair % SHAPES, 16])) };
        drop(black_box(array));
    }
}

fn nanoseconds_per_pair(subject: impl FnOnce()) -> f64 {
    let start = Instant::now();
    subject();
    let elapsed: Duration = start.elapsed();
    elapsed.as_nanos() as f64 / PAIRS as f64
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() {
    let options = Options::parse();
    let host = Host::new();
    let (mut keyed, mut mimalloc) = (Vec::new(), Vec::new());
    keyed_pairs(&host);
    for _ in 0..ROUNDS {
        keyed.push(nanoseconds_per_pair(|| keyed_pairs(&host)));
        mimalloc.push(nanoseconds_per_pair(mimalloc_pairs));
    }
    let (keyed, mimalloc) = (median(keyed), median(mimalloc));
    match options.json {
        true => println!(
            "{}",
            serde_json::json!({
                "keyed_pair_ns": keyed,
                "mimalloc_64b_pair_ns": mimalloc,
                "keyed_over_mimalloc": keyed / mimalloc,
            })
        ),
        false => println!("keyed {keyed:.1} ns, mimalloc {mimalloc:.1} ns, ratio {:.2}", keyed / mimalloc),
    }
}
