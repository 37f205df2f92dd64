//! Captured scopes on CUDA: a GPU, or the made-up driver.
#![cfg(feature = "cuda")]
#![allow(clippy::panic, clippy::unwrap_used)]

use gpucache::graph::CapturedScope;
use gpucache::prelude::*;
use gpucache_tests::captured::{Adds, Program};
use gpucache_tests::gpu::Gpu;

const LEN: usize = 4096;

/// `x + 3`, by way of arrays that live for two kernels each.
fn step(x: &Array<u32, Cuda>) -> gpucache::Result<Array<u32, Cuda>> {
    let gpu = x.device().clone();
    let mut first = gpu.zeros(x.len())?;
    gpu.add(&mut first, x, 1)?;
    let mut second = gpu.zeros(x.len())?;
    gpu.add(&mut second, &first, 1)?;
    drop(first);
    let mut third = gpu.zeros(x.len())?;
    gpu.add(&mut third, &second, 1)?;
    Ok(third)
}

#[test]
fn a_step_is_captured_and_launched() {
    let Some(gpu) = Gpu::get_for_captures() else { return };
    if gpu.kernels().is_none() {
        return;
    }
    let stream = gpu.new_stream();
    let mut scope = CapturedScope::new(&stream, "cuda captured: step");
    let mut held = Vec::new();
    for number in 0..40 {
        let input = Array::full(&stream, LEN, number).unwrap();
        held.push((number, scope.run((), &input, step).unwrap()));
        if number % 3 == 0 {
            held.remove(0);
        }
        for (number, output) in &held {
            assert_eq!(output.to_vec().unwrap(), vec![number + 3; LEN], "{}", scope.stats());
        }
    }
    let stats = scope.stats();
    assert!(stats.launches >= 25, "{stats}");
    assert!(stats.executable_bytes > 0, "{stats}");
}

/// `PROGRAMS`, `SEED` and `STEPS` say which programs run, and how long.
#[test]
fn random_programs_agree_with_the_model() {
    let Some(gpu) = Gpu::get_for_captures() else { return };
    if gpu.kernels().is_none() {
        return;
    }
    let steps = gpucache_tests::process::number("STEPS").unwrap_or(200) as usize;
    let mut launches = 0;
    gpucache_tests::seeds::each(40, 1, |seed| {
        launches += Program::new(&gpu.new_stream(), "cuda captured: programs", seed).run(steps);
    });
    assert!(launches > 0);
}
