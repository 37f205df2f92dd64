//! Captured scopes with many keys, and with work on several streams.

use gpucache::graph::CapturedScope;
use gpucache::prelude::*;
use gpucache_tests::captured::Adds;
use gpucache_tests::turn;

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

/// Four keys with different numbers of arrays.
#[test]
fn four_keys_in_turn() {
    let _turn = turn();
    assert!(launched("open: four keys", 4, false, false) > 0.9);
}

/// Seventeen sizes of one step.
#[test]
fn seventeen_sizes_in_turn() {
    let _turn = turn();
    assert!(launched("open: seventeen sizes", 17, true, false) > 0.9);
}

/// Outputs leave the arena of their captured scope where it is.
#[test]
fn sixteen_sizes_at_random() {
    let _turn = turn();
    assert!(launched("open: sixteen sizes", 16, true, true) > 0.9);
}

/// A block with work on another stream has no graph, which would lack that work.
#[test]
fn work_on_another_stream_is_not_forgotten() {
    let _turn = turn();
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

/// A key whose inputs vary is captured again. The statistics say why.
#[test]
fn other_inputs_under_one_key_have_a_reason() {
    let _turn = turn();
    let host = Host::new_stream().unwrap();
    let mut scope = CapturedScope::new(&host, "open: other inputs");
    let inputs = [1, 2].map(|value| Array::full(&host, LEN, value).unwrap());
    for number in 0..40 {
        drop(scope.run((), &inputs[..1], |x| sum(&x[0], 4)).unwrap());
        assert_eq!(scope.stats().last_refusal, None, "run {number}");
    }
    assert!(scope.stats().launches > 30);
    drop(scope.run((), &inputs[..], |x| sum(&x[0], 4)).unwrap());
    let why = scope.stats().last_refusal.unwrap();
    assert!(why.contains("differ from those of this run in number, type or size): use another key"), "{why}");
}

/// More keys than a captured scope remembers get no graph, and the statistics say why.
#[test]
fn too_many_keys_are_named_as_the_reason() {
    let _turn = turn();
    let host = Host::new_stream().unwrap();
    let mut scope = CapturedScope::new(&host, "keys: too many").max_graphs(usize::MAX);
    let input = Array::full(&host, 8, 1u32).unwrap();
    for key in 0..5000 {
        scope.run(key, &input, |input| input.try_clone()).unwrap();
    }
    let why = scope.stats().last_refusal.unwrap_or_default();
    assert!(why.contains("4096 keys"), "{why}");
}
