//! What a run of a captured scope costs once its graph exists: no allocation on the host's heap, and one launch.
#![cfg(feature = "cuda")]
#![allow(clippy::unwrap_used)]

use gpucache::Result;
use gpucache::graph::CapturedScope;
use gpucache::prelude::*;
use gpucache_tests::captured::Adds;
use gpucache_tests::counting::{Counting, allocations_of};
use gpucache_tests::gpu::Gpu;

#[global_allocator]
static COUNTING: Counting = Counting;

const LEN: usize = 4096;
const RUNS: usize = 1000;

/// `x + 2`, by way of an array of the plan.
fn sum(x: &Array<u32, Cuda>) -> Result<Array<u32, Cuda>> {
    let gpu = x.device().clone();
    let mut first = gpu.zeros(x.len())?;
    gpu.add(&mut first, x, 1)?;
    let mut second = gpu.zeros(x.len())?;
    gpu.add(&mut second, &first, 1)?;
    Ok(second)
}

#[test]
fn a_launch_allocates_nothing_on_the_host() {
    let Some(gpu) = Gpu::get() else { return };
    let stream = gpu.new_stream();
    let inputs = [1u32, 2].map(|value| Array::full(&stream, LEN, value).unwrap());
    let mut scope = CapturedScope::new(&stream, "captured costs: allocations");
    let mut held = None;
    let mut runs = |holds: bool, moves: usize| {
        for number in 0..RUNS {
            let output = scope.run(1u32, &inputs[(number % 2) * moves], sum).unwrap();
            held = holds.then_some(output);
        }
        scope.stats().launches
    };
    for (holds, moves) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
        runs(holds, moves);
        let made = allocations_of(|| {
            runs(holds, moves);
        });
        assert_eq!(made, 0, "outputs held: {holds}, inputs that move: {moves}");
    }
    assert!(runs(false, 0) > 9 * RUNS as u64 - 10);
}

/// One array is passed twice. It is captured anew only until the places are known.
#[test]
fn an_array_that_is_passed_twice_may_move() {
    let Some(gpu) = Gpu::get() else { return };
    let stream = gpu.new_stream();
    let inputs = [1u32, 2].map(|value| Array::full(&stream, LEN, value).unwrap());
    let mut scope = CapturedScope::new(&stream, "captured costs: twice");
    for number in 0..100 {
        let input = &inputs[number % 2];
        let output = scope
            .run((), (input, input), |(one, two)| {
                let mut twice = sum(one)?;
                stream.add(&mut twice, two, 7)?;
                Ok::<_, gpucache::Error>(twice)
            })
            .unwrap();
        assert_eq!(output.to_vec().unwrap(), vec![8 + (number % 2) as u32; LEN], "{}", scope.stats());
    }
    assert!(scope.stats().launches > 90, "{}", scope.stats());
}
