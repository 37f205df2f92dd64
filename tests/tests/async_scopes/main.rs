//! `#[cache_scope]` on futures, on tokio's runtimes: a thread is inside the scope during each poll, and outside at each suspension,
//! whichever thread polls.
//!
//! The allocations that a scope served are counted. So the test fails if there is one too many (a thread that is still inside while
//! it runs another task) or too few (a poll outside). Every array has contents of its own, so the test also fails if an array is
//! recycled while it lives. At the end the device must have everything back; `Faulty` checks that.
#![allow(clippy::unwrap_used)]

mod cancelled;
mod forms;
mod migrating;
mod suspended;

use gpucache::device::Device;
use gpucache::{Array, Result, invalidate};
use gpucache_tests::Faulty;
use gpucache_tests::conformance::{assert_pattern, patterned, stats_of, touch};
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

type Words = Array<u32, Faulty>;

/// A runtime of the calling thread. Its clock stands still until all tasks wait for it.
fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

fn threads(workers: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(workers).build().unwrap()
}

/// How many allocations the scope has served.
fn served(name: &str) -> u64 {
    let stats = stats_of(name);
    stats.allocations()
}

/// Fails if the calling thread is inside the scope.
fn assert_outside(device: &Faulty, name: &str) {
    let before = served(name);
    touch::<u32, _>(device, 40).unwrap();
    assert_eq!(served(name), before, "a thread that polls nobody is inside `{name}`");
}

/// Gives back the memory of the scopes. Fails if anything is left, or still counted as in use.
fn assert_all_back(device: &Faulty, names: &[&str]) {
    for name in names {
        assert_eq!(invalidate(name).busy_blocks, 0, "arrays of `{name}` are in use");
        assert_eq!((stats_of(name).busy_blocks, stats_of(name).busy_bytes), (0, 0), "{name}");
    }
    device.assert_clean();
    assert_eq!(device.memory().bytes, 0);
}

/// The body of most scopes here: one array for its whole life, and another one between any two polls. It makes `rounds + 1` arrays
/// in `2 * rounds + 1` polls.
async fn work(device: &Faulty, seed: u32, rounds: u32) -> Result<Words> {
    let kept = patterned(device, 40, seed)?;
    for round in 1..=rounds {
        yield_now().await;
        let between = patterned(device, 40, seed + round)?;
        yield_now().await;
        assert_pattern(&between, seed + round);
        assert_pattern(&kept, seed);
    }
    Ok(kept)
}
