//! The executables of graphs take memory of the device. In a shortage they give way: the blocks run directly, and are captured again later.
#![cfg(feature = "cuda")]
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpucache::graph::CapturedScope;
use gpucache::prelude::*;
use gpucache::stats::ReclaimStep;
use gpucache::{Limit, Result};
use gpucache_tests::captured::Adds;
use gpucache_tests::gpu::{Gpu, is_made_up};
use gpucache_tests::meanwhile::End;

const LEN: usize = 4096;
const KEYS: u32 = 40;
const MIB: usize = 1 << 20;

/// The tests set the limit of one device, so only one of them runs at a time.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stream of the made-up driver. A real driver may keep small executables in memory that it holds already, so nothing gives way there.
fn stream() -> Option<Cuda> {
    let gpu = Gpu::get()?;
    is_made_up().then(|| gpu.new_stream())
}

/// `x + 2 + key`, by way of an array of the plan.
fn step(x: &Array<u32, Cuda>, key: u32) -> Result<Array<u32, Cuda>> {
    let gpu = x.device().clone();
    let mut first = gpu.zeros(x.len())?;
    gpu.add(&mut first, x, 2)?;
    let mut second = gpu.zeros(x.len())?;
    gpu.add(&mut second, &first, key)?;
    Ok(second)
}

/// Runs the block of each key, and checks the result.
fn run_all(scope: &mut CapturedScope<u32, Cuda>, input: &Array<u32, Cuda>) {
    for key in 0..KEYS {
        let output = scope.run(key, input, |input| step(input, key)).unwrap();
        assert_eq!(output.to_vec().unwrap(), vec![3 + key; LEN], "key {key}: {}", scope.stats());
    }
}

/// Arrays outside of scopes, until the limit refuses one.
fn fill(stream: &Cuda) -> Vec<Array<u8, Cuda>> {
    std::iter::from_fn(|| stream.zeros(MIB).ok()).collect()
}

#[test]
fn executables_give_way_and_come_back() {
    let _turn = turn();
    let Some(stream) = stream() else { return };
    let input = Array::full(&stream, LEN, 1u32).unwrap();
    let mut scope = CapturedScope::new(&stream, "captured shortage");
    (0..8).for_each(|_| run_all(&mut scope, &input));
    let before = scope.stats();
    assert_eq!(before.graphs, KEYS as usize, "{before}");
    assert!(before.executable_bytes > 4 * MIB as u64, "{before}");
    stream.set_limit(Limit::hard(stream.memory().bytes + 8 * MIB as u64)).unwrap();

    let arrays = fill(&stream);
    let short = scope.stats();
    assert!(short.executable_bytes < 2 * MIB as u64, "all but a page are arrays now: {short}");
    assert!(stream.memory().bytes <= stream.memory().limit.unwrap(), "{}", stream.memory());
    let used = stream.stats().reclaim.step(ReclaimStep::Graphs);
    assert!(used.served > 0 && used.freed_bytes > 2 * MIB as u64, "{used:?}");
    drop(arrays);

    // Each key lost its graph once, so it is captured again soon.
    (0..4).for_each(|_| run_all(&mut scope, &input));
    let after = scope.stats();
    assert_eq!(after.graphs, KEYS as usize, "{after}");
    let launches = after.launches;
    run_all(&mut scope, &input);
    assert_eq!(scope.stats().launches, launches + u64::from(KEYS), "{}", scope.stats());
    stream.set_limit(Limit::NONE).unwrap();
}

#[test]
fn graphs_that_are_too_small_to_help_stay() {
    let _turn = turn();
    let Some(stream) = stream() else { return };
    let input = Array::full(&stream, LEN, 1u32).unwrap();
    let mut scope = CapturedScope::new(&stream, "captured shortage: small");
    (0..8).for_each(|_| run_all(&mut scope, &input));
    let before = scope.stats();
    stream.set_limit(Limit::hard(stream.memory().bytes + 8 * MIB as u64)).unwrap();
    assert!(stream.zeros::<u8>(64 * MIB).is_err());
    assert!(stream.zeros::<u8>(20 * MIB).is_err());
    assert_eq!(scope.stats().executable_bytes, before.executable_bytes, "{}", scope.stats());
    stream.set_limit(Limit::NONE).unwrap();
}

/// One thread launches graphs. Another one takes all memory again and again, so executables go at any moment.
#[test]
fn executables_go_while_another_thread_launches() {
    let _turn = turn();
    let Some(stream) = stream() else { return };
    let input = Array::full(&stream, LEN, 1u32).unwrap();
    let mut scope = CapturedScope::new(&stream, "captured shortage: meanwhile");
    (0..8).for_each(|_| run_all(&mut scope, &input));
    stream.set_limit(Limit::hard(stream.memory().bytes + 12 * MIB as u64)).unwrap();
    let (is_over, other) = (AtomicBool::new(false), Gpu::get().unwrap().new_stream());
    std::thread::scope(|threads| {
        let _end = End(&is_over);
        threads.spawn(|| {
            while !is_over.load(Relaxed) {
                drop(fill(&other));
                std::thread::yield_now();
            }
        });
        for _ in 0..12 {
            for key in 0..KEYS {
                // The other thread may have all memory now.
                match scope.run(key, &input, |input| step(input, key)).and_then(|output| output.to_vec()) {
                    Ok(values) => assert_eq!(values, vec![3 + key; LEN], "key {key}: {}", scope.stats()),
                    Err(error) => assert!(error.is_out_of_memory(), "{error}"),
                }
            }
        }
    });
    stream.set_limit(Limit::NONE).unwrap();
    run_all(&mut scope, &input);
}
