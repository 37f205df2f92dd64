//! The time of one allocation and its drop, in nanoseconds: warm scopes beside mimalloc, and beside themselves while a trace is on,
//! in turn in one run.
//!
//! `cargo bench -p gpucache-tests --bench pair -- --json`. Each figure is the median over rounds that alternate between the subjects, so that a
//! machine whose speed drifts treats them alike.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;
use std::time::{Duration, Instant};

use gpucache::{prelude::*, trace};
use gpucache_tests::timing::{Options, median};
use mimalloc::MiMalloc;

const ROUNDS: usize = 101;
/// The pairs of each subject in a round.
const PAIRS: usize = 64 * 1024;
/// The pairs in an entry of the scope that plans: as many as a training step allocates, so that its slots stay in the cache.
const ENTRY: usize = 1024;
/// The entries from which the scope that plans learns its order.
const WARM: usize = 16;
const SHAPES: usize = 64;
/// The events that a trace keeps.
const TRACED: usize = 4096;

/// A pair of mimalloc at 64 bytes.
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

/// Pairs of a scope that keeps blocks by key, with 64 shapes in turn.
#[cache_scope(keyed_pair, recycle = "keyed")]
fn keyed_pairs(host: &Host) {
    (0..PAIRS).for_each(|index| pair(host, index));
}

/// The pairs of an entry of a scope that plans, with 64 shapes in turn.
#[cache_scope(planned_pair)]
fn planned_entry(host: &Host) {
    (0..ENTRY).for_each(|index| pair(host, index));
}

/// Pairs of a scope that plans, including the time to enter it.
fn planned_pairs(host: &Host) {
    (0..PAIRS / ENTRY).for_each(|_| planned_entry(host));
}

#[inline(always)]
fn pair(host: &Host, index: usize) {
    // SAFETY: nobody reads the array.
    let array = unsafe { Array::<f32, Host>::uninit(host, black_box([1 + index % SHAPES, 16])) };
    drop(black_box(array));
}

/// The time of [`planned_pairs`] while a trace is on. The end of the trace is not timed.
fn traced_nanoseconds_per_pair(host: &Host) -> f64 {
    trace::start(TRACED);
    let figure = nanoseconds_per_pair(|| planned_pairs(host));
    black_box(trace::stop());
    figure
}

/// How many allocations of the scope a plan has served so far.
fn planned_so_far() -> u64 {
    gpucache::stats("planned_pair").unwrap_or_default().served.planned.allocations
}

fn nanoseconds_per_pair(subject: impl FnOnce()) -> f64 {
    let start = Instant::now();
    subject();
    let elapsed: Duration = start.elapsed();
    elapsed.as_nanos() as f64 / PAIRS as f64
}

/// Warns on stderr that `planned_pair_ns` is not what its name promises, if less than 99 % of its pairs were planned.
fn warn_unless_planned(share: f64) {
    if share < 0.99 {
        eprintln!("warning: only {:.1} % of the pairs behind planned_pair_ns were planned", 100.0 * share);
    }
}

fn main() {
    let wants_json = Options::wants_json();
    let host = Host::new();
    keyed_pairs(&host);
    (0..WARM).for_each(|_| planned_entry(&host));
    let planned_before = planned_so_far();
    let [mut keyed, mut planned, mut traced, mut mimalloc] = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        keyed.push(nanoseconds_per_pair(|| keyed_pairs(&host)));
        planned.push(nanoseconds_per_pair(|| planned_pairs(&host)));
        traced.push(traced_nanoseconds_per_pair(&host));
        mimalloc.push(nanoseconds_per_pair(mimalloc_pairs));
    }
    warn_unless_planned((planned_so_far() - planned_before) as f64 / (2 * ROUNDS * PAIRS) as f64);
    let [keyed, planned, traced, mimalloc] = [keyed, planned, traced, mimalloc].map(median);
    match wants_json {
        true => println!(
            "{}",
            serde_json::json!({
                "keyed_pair_ns": keyed,
                "planned_pair_ns": planned,
                "traced_pair_ns": traced,
                "mimalloc_64b_pair_ns": mimalloc,
                "keyed_over_mimalloc": keyed / mimalloc,
                "planned_over_mimalloc": planned / mimalloc,
            })
        ),
        false => println!(
            "keyed {keyed:.1} ns, planned {planned:.1} ns, traced {traced:.1} ns, mimalloc {mimalloc:.1} ns, ratios {:.2} and {:.2}",
            keyed / mimalloc,
            planned / mimalloc
        ),
    }
}
