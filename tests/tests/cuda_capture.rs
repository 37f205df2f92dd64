//! Scopes while a stream is captured into a CUDA graph. Without a GPU the tests pass, and say that they did nothing.
#![cfg(feature = "cuda")]
#![allow(clippy::panic, clippy::unwrap_used, unsafe_code)]

use gpucache::cudarc::driver::CudaGraph;
use gpucache::cudarc::driver::sys::CUgraphInstantiate_flags;
use gpucache::cudarc::driver::sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL as THREAD_LOCAL;
use gpucache::prelude::*;
use gpucache::{Error, cache_scope as scope};
use gpucache_tests::conformance::{pattern, patterned};
use gpucache_tests::gpu::{Gpu, Kernels};

const LEN: usize = 4096;
/// Entries from which a scope learns what it plans.
const WARM: usize = 8;

/// `out = input + 3`, by arrays that live for two kernels each.
fn step(kernels: &Kernels, stream: &Cuda, input: &Array<u32, Cuda>, out: &mut Array<u32, Cuda>) {
    // SAFETY: each array is written whole by a kernel before another one reads it.
    let new = || unsafe { Array::<u32, _>::uninit(stream, LEN).unwrap() };
    let mut first = new();
    kernels.add_on(stream, &mut first, input, 1, 0);
    let mut second = new();
    kernels.add_on(stream, &mut second, &first, 1, 0);
    drop(first);
    kernels.add_on(stream, out, &second, 1, 0);
}

fn captured(stream: &Cuda, work: impl FnOnce()) -> CudaGraph {
    stream.stream().begin_capture(THREAD_LOCAL).unwrap();
    work();
    stream.stream().end_capture(CUgraphInstantiate_flags(0)).unwrap().unwrap()
}

/// A stream, and a scope that it is warm in; `recycle` by each policy.
fn warm_scope_is_captured(enter: impl Fn(&mut dyn FnMut())) {
    let Some(gpu) = Gpu::get() else { return };
    let Some(kernels) = gpu.kernels() else { return };
    let stream = gpu.new_stream();
    let mut input = patterned(&stream, LEN, 1).unwrap();
    let mut out = Array::zeros(&stream, LEN).unwrap();
    for _ in 0..WARM {
        enter(&mut || step(&kernels, &stream, &input, &mut out));
    }
    stream.synchronize().unwrap();
    let before = (stream.memory(), stream.ordering());
    let graph = captured(&stream, || enter(&mut || step(&kernels, &stream, &input, &mut out)));
    assert_eq!((stream.memory(), stream.ordering()), before, "calls during the capture");
    for seed in [5, 6] {
        input.copy_from_slice(&pattern(seed, LEN)).unwrap();
        graph.launch().unwrap();
        let expected: Vec<u32> = pattern(seed, LEN).iter().map(|x| x.wrapping_add(3)).collect();
        assert_eq!(out.to_vec().unwrap(), expected);
    }
}

#[test]
fn a_planned_scope_is_captured() {
    warm_scope_is_captured(|act| scope!("captured, planned", { act() }));
    let _ = invalidate("captured, planned");
}

#[test]
fn a_listed_scope_is_captured() {
    warm_scope_is_captured(|act| scope!("captured, listed", recycle = "keyed", { act() }));
    let _ = invalidate("captured, listed");
}

#[test]
fn a_ranged_scope_is_captured() {
    warm_scope_is_captured(|act| scope!("captured, ranged", recycle = "range", { act() }));
    let _ = invalidate("captured, ranged");
}

/// What is missing is said, the capture goes on, and after it there is memory again.
#[test]
fn a_miss_in_a_capture_names_the_array() {
    let Some(gpu) = Gpu::get() else { return };
    let Some(kernels) = gpu.kernels() else { return };
    let stream = gpu.new_stream();
    let (input, mut out) = (patterned(&stream, LEN, 1).unwrap(), Array::zeros(&stream, LEN).unwrap());
    let large = || scope!("missed", { Array::<u32, _>::zeros(&stream, [3, 1 << 24]) });
    (0..WARM).for_each(|_| scope!("missed", { step(&kernels, &stream, &input, &mut out) }));
    let graph = captured(&stream, || {
        let error = large().unwrap_err();
        assert!(error.is_unavailable() && error.to_string().contains("[3, 16777216]"), "{error}");
        scope!("missed", { step(&kernels, &stream, &input, &mut out) });
    });
    graph.launch().unwrap();
    let expected: Vec<u32> = pattern(1, LEN).iter().map(|x| x.wrapping_add(3)).collect();
    assert_eq!(out.to_vec().unwrap(), expected);
    drop(large().unwrap());
    let _ = invalidate("missed");
}

/// While a capture lasts no other stream gets what it has seen.
#[test]
fn what_a_capture_has_seen_is_not_used_outside() {
    let Some(gpu) = Gpu::get() else { return };
    let (a, b) = (gpu.new_stream(), gpu.new_stream());
    let new = |stream: &Cuda| scope!("seen", recycle = "range", { Array::<u32, _>::zeros(stream, 1 << 20) });
    let place = new(&a).unwrap().address();
    let mut seen = 0;
    drop(captured(&a, || {
        seen = new(&a).unwrap().address();
        let outside = new(&b);
        assert!(outside.as_ref().map_or_else(Error::is_unavailable, |array| array.address() != seen), "{outside:?}");
    }));
    assert_eq!(seen, place, "the capture recycles");
    assert_eq!(new(&b).unwrap().address(), place, "after the capture");
    let _ = invalidate("seen");
}
