//! Promises of captured scopes that are not kept yet.
#![allow(clippy::unwrap_used)]

use gpucache::graph::CapturedScope;
use gpucache::prelude::*;
use gpucache_tests::captured::Adds;

const LEN: usize = 4096;

/// `x + 1 + count`
fn sum<D: Adds>(x: &Array<u32, D>, count: usize) -> gpucache::Result<Array<u32, D>> {
    let gpu = x.device().clone();
    let mut last = gpu.zeros(x.len())?;
    gpu.add(&mut last, x, 1)?;
    for _ in 0..count {
        let mut next = gpu.zeros(x.len())?;
        gpu.add(&mut next, &last, 1)?;
        last = next;
    }
    Ok(last)
}

/// The share of `runs` runs that launch a graph, with `keys` keys, at random or in turn. `lens` says whether the keys differ in the sizes of
/// their arrays, or in the number of them.
fn launched(name: &str, keys: usize, lens: bool, is_random: bool) -> f64 {
    const RUNS: usize = 4000;
    let host = Host::new_stream().unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    let mut scope = CapturedScope::new(&host, name);
    let inputs: Vec<_> = (0..keys).map(|key| Array::full(&host, LEN + 64 * key, 1u32).unwrap()).collect();
    for number in 0..RUNS {
        let key = if is_random { random.usize(..keys) } else { number % keys };
        let (input, count) = if lens { (&inputs[key], 8) } else { (&inputs[0], key) };
        drop(scope.run(key, input, |x| sum(x, count)).unwrap());
    }
    println!("{name}: {}", scope.stats());
    scope.stats().launches as f64 / RUNS as f64
}

/// Four keys with different numbers of arrays: the learner compares three orders.
#[test]
fn four_keys_in_turn() {
    assert!(launched("open: four keys", 4, false, false) > 0.9);
}

/// Seventeen sizes of one step.
#[test]
fn seventeen_sizes_in_turn() {
    assert!(launched("open: seventeen sizes", 17, true, false) > 0.9);
}

/// The allocation of an output takes the idle arena of the captured scope itself, which then moves.
#[test]
fn sixteen_sizes_at_random() {
    assert!(launched("open: sixteen sizes", 16, true, true) > 0.9);
}

/// Two handles of one name on two streams: the plans are of one stream.
#[test]
fn two_streams_of_one_name() {
    let streams = [Host::new_stream().unwrap(), Host::new_stream().unwrap()];
    let mut scopes = streams.each_ref().map(|stream| CapturedScope::new(stream, "open: two streams"));
    let inputs = streams.each_ref().map(|stream| Array::full(stream, LEN, 1u32).unwrap());
    for _ in 0..300 {
        scopes.iter_mut().zip(&inputs).for_each(|(scope, input)| drop(scope.run((), input, |x| sum(x, 3)).unwrap()));
    }
    assert!(scopes.iter().all(|scope| scope.stats().launches > 250), "{scopes:?}");
}

/// Work of the block on another stream than the scope's is in no graph, and nothing says so.
#[test]
fn work_on_another_stream_is_not_forgotten() {
    let (host, other) = (Host::new_stream().unwrap(), Host::new_stream().unwrap());
    let mut scope = CapturedScope::new(&host, "open: other stream");
    let mut count = Array::full(&other, LEN, 0u32).unwrap();
    for _ in 0..12 {
        let output = scope.run((), (), |()| {
            other.launch_kernel(&mut count, |count| count.iter_mut().for_each(|x| *x += 1))?;
            Array::full(&host, LEN, 3u32)
        });
        drop(output.unwrap());
    }
    assert_eq!(count.to_vec().unwrap(), [12; LEN], "{}", scope.stats());
}

/// The executables of a captured scope give way to an array under a limit.
#[cfg(feature = "cuda")]
#[test]
fn graphs_give_way_to_arrays() {
    let Some(gpu) = gpucache_tests::gpu::Gpu::get() else { return };
    let stream = gpu.new_stream();
    let mut scope = CapturedScope::new(&stream, "open: give way");
    let input = Array::full(&stream, LEN, 1u32).unwrap();
    for number in 0..300 {
        drop(scope.run(number / 5, &input, |input| sum(input, 1)).unwrap());
    }
    let held = scope.stats().executable_bytes as usize;
    stream.set_limit(gpucache::Limit::hard(stream.memory().bytes + (1 << 20))).unwrap();
    let large = stream.zeros::<u8>(held / 2 + (2 << 20));
    stream.set_limit(gpucache::Limit::NONE).unwrap();
    assert!(large.is_ok(), "{}: {large:?}", scope.stats());
}
