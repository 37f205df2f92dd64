//! The time of a drop, in nanoseconds, on threads outside the scope that allocated, and the time of the owner's own pairs
//! meanwhile.
//!
//! `cargo bench --bench foreign_drop -- --json`. The owner allocates arrays in batches inside its scope, and hands a batch to each
//! other thread at once. Those threads time their drops. In between, the owner allocates and drops its own arrays.
#![allow(unsafe_code, clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use gpucache::prelude::*;
use gpucache_tests::timing::{Options, median};

/// The arrays that one thread drops at a time.
const BATCH: usize = 1024;
const ROUNDS: usize = 201;

type Batch = Vec<Array<f32, Host>>;

/// Drops the arrays of each batch, and reports the nanoseconds of a drop.
fn dropper(batches: &Receiver<Batch>, times: &Sender<f64>) {
    for batch in batches {
        let start = Instant::now();
        batch.into_iter().for_each(|array| drop(black_box(array)));
        times.send(start.elapsed().as_nanos() as f64 / BATCH as f64).unwrap();
    }
}

#[cache_scope(foreign_drop)]
fn entry(host: &Host, droppers: &[(Sender<Batch>, Receiver<f64>)], times: &mut Vec<f64>) {
    // SAFETY: nobody reads the arrays.
    let batch = |_: &_| (0..BATCH).map(|_| unsafe { Array::uninit(host, black_box([64])).unwrap() }).collect();
    let batches: Vec<Batch> = droppers.iter().map(batch).collect();
    droppers.iter().zip(batches).for_each(|((sender, _), batch)| sender.send(batch).unwrap());
    times.extend(droppers.iter().map(|(_, receiver)| receiver.recv().unwrap()));
}

/// The median nanoseconds of a drop while this many threads drop at once.
fn foreign_drop(host: &Host, threads: usize) -> f64 {
    let mut times = Vec::new();
    std::thread::scope(|scope| {
        let start = |_| {
            let ((sender, batches), (time, times)) = (channel(), channel());
            scope.spawn(move || dropper(&batches, &time));
            (sender, times)
        };
        let droppers: Vec<_> = (0..threads).map(start).collect();
        (0..ROUNDS).for_each(|_| entry(host, &droppers, &mut times));
    });
    let _ = invalidate("foreign_drop");
    median(times)
}

fn main() {
    let wants_json = Options::wants_json();
    let host = Host::new();
    let [one, two, eight] = [1, 2, 8].map(|threads| foreign_drop(&host, threads));
    match wants_json {
        true => println!(
            "{}",
            serde_json::json!({ "one_thread_ns": one, "two_threads_ns": two, "eight_threads_ns": eight })
        ),
        false => println!("a drop on 1, 2 and 8 foreign threads: {one:.1}, {two:.1} and {eight:.1} ns"),
    }
}
