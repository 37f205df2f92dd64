//! Work that is captured into CUDA graphs.
#![cfg(feature = "cuda")]
#![allow(clippy::panic, clippy::unwrap_used, unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use gpucache::cudarc::driver::CudaSlice;
use gpucache::cudarc::driver::sys::CUgraphInstantiate_flags;
use gpucache::cudarc::driver::sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL as THREAD_LOCAL;
use gpucache::prelude::*;
use gpucache::{Result, cache_scope as scope, graph::Graph, offload::Placed};
use gpucache_tests::conformance::{pattern, patterned};
use gpucache_tests::gpu::{Gpu, Kernels};

const LEN: usize = 4096;
/// The number of entries from which a scope learns its plan.
const WARM: usize = 8;

/// An array that a kernel is about to write.
fn new(stream: &Cuda) -> Result<Array<u32, Cuda>> {
    // SAFETY: a kernel writes each whole array before another kernel reads it.
    unsafe { Array::uninit(stream, LEN) }
}

/// `input + 3`, with arrays that live for two kernels each.
fn step(kernels: &Kernels, stream: &Cuda, input: &Array<u32, Cuda>) -> Result<Array<u32, Cuda>> {
    let mut first = new(stream)?;
    kernels.add_on(stream, &mut first, input, 1, 0);
    let mut second = new(stream)?;
    kernels.add_on(stream, &mut second, &first, 1, 0);
    drop(first);
    let mut out = new(stream)?;
    kernels.add_on(stream, &mut out, &second, 1, 0);
    Ok(out)
}

fn expected(seed: u32) -> Vec<u32> {
    pattern(seed, LEN).iter().map(|x| x.wrapping_add(3)).collect()
}

/// A step in a scope is captured, warm or not. Launches have the effects of the step, and touch nothing else.
fn is_captured(enter: impl Fn(&mut dyn FnMut())) {
    let Some(gpu) = Gpu::get() else { return };
    let Some(kernels) = gpu.kernels() else { return };
    for warm in [0, 1, WARM] {
        let (stream, other) = (gpu.new_stream(), gpu.new_stream());
        let mut input = patterned(&stream, LEN, 1).unwrap();
        let in_scope = |input: &Array<u32, Cuda>| {
            let mut out = None;
            enter(&mut || out = Some(step(&kernels, &stream, input)));
            out.unwrap()
        };
        (0..warm).for_each(|_| drop(in_scope(&input).unwrap()));
        let (graph, out) = stream.capture(|| in_scope(&input)).unwrap();
        let others: Vec<Array<u32, Cuda>> = {
            let mut others = Vec::new();
            enter(&mut || others.extend((0..40).map(|i| Array::full(&stream, LEN - i, 7).unwrap())));
            others
        };
        for seed in [5, 6, 7] {
            input.copy_from_slice(&pattern(seed, LEN)).unwrap();
            graph.launch().unwrap();
            assert_eq!(out.to_vec().unwrap(), expected(seed), "{warm} entries before");
            let mut elsewhere = Array::<u32, _>::zeros(&other, LEN).unwrap();
            other.stream().memcpy_dtod(&out, &mut elsewhere).unwrap();
            assert_eq!(elsewhere.to_vec().unwrap(), expected(seed), "read on another stream");
            assert_eq!(in_scope(&input).unwrap().to_vec().unwrap(), expected(seed), "done at once");
        }
        assert!(others.iter().all(|array| array.to_vec().unwrap().iter().all(|&value| value == 7)));
    }
}

#[test]
fn a_planned_scope_is_captured() {
    is_captured(|act| scope!("captured, planned", { act() }));
    let _ = invalidate("captured, planned");
}

#[test]
fn a_listed_scope_is_captured() {
    is_captured(|act| scope!("captured, listed", recycle = "keyed", { act() }));
    let _ = invalidate("captured, listed");
}

#[test]
fn a_ranged_scope_is_captured() {
    is_captured(|act| scope!("captured, ranged", recycle = "range", { act() }));
    let _ = invalidate("captured, ranged");
}

#[test]
fn work_of_no_scope_is_captured() {
    is_captured(|act| act());
}

/// While a graph lives, nobody else gets its memory, even if its arrays are gone. Afterwards everybody can get it.
#[test]
fn a_graph_keeps_its_memory() {
    let Some(gpu) = Gpu::get() else { return };
    let Some(kernels) = gpu.kernels() else { return };
    let (stream, other) = (gpu.new_stream(), gpu.new_stream());
    let before = stream.memory().bytes;
    for planned in [false, true] {
        let in_scope = |act: &mut dyn FnMut()| match planned {
            true => scope!("kept, planned", { act() }),
            false => scope!("kept, ranged", recycle = "range", { act() }),
        };
        let mut input = None;
        for _ in 0..WARM {
            in_scope(&mut || input = Some(patterned(&stream, LEN, 1).unwrap()));
        }
        let input = input.unwrap();
        // The array that the graph reads is dropped, and so is its result. Only the address of the result is left.
        let mut result = patterned(&stream, LEN, 9).unwrap();
        let (graph, ()): (Graph, ()) = stream
            .capture(|| {
                let out = step(&kernels, &stream, &input)?;
                kernels.add_on(&stream, &mut result, &out, 10, 0);
                Ok::<_, gpucache::Error>(())
            })
            .unwrap();
        drop(input);
        let _ = (invalidate("kept, planned"), invalidate("kept, ranged"));
        stream.trim();
        for on in [&stream, &other, &gpu.cuda] {
            let mut others = Vec::new();
            in_scope(&mut || others.extend((0..20).map(|i| Array::full(on, LEN - i, 7u32).unwrap())));
            graph.launch().unwrap();
            let sum: Vec<u32> = pattern(1, LEN).iter().map(|x| x.wrapping_add(13)).collect();
            assert_eq!(result.to_vec().unwrap(), sum);
            assert!(others.iter().all(|array| array.to_vec().unwrap().iter().all(|&value| value == 7)), "{on:?}");
        }
        graph.launch().unwrap();
        drop((graph, result));
        let _ = (invalidate("kept, planned"), invalidate("kept, ranged"));
    }
    gpu.cuda.stream().context().synchronize().unwrap();
    stream.trim();
    assert_eq!(stream.memory().bytes, before, "all of it is back");
}

/// An operation that a graph cannot contain is a typed error, and the capture goes on or ends. The stream is as before.
#[test]
fn what_no_graph_holds_is_an_error() {
    let Some(gpu) = Gpu::get() else { return };
    let stream = gpu.new_stream();
    let array = patterned(&stream, LEN, 1).unwrap();
    let refused = stream.capture(|| Array::from_slice(&stream, LEN, &pattern(1, LEN)));
    assert!(refused.is_err_and(|error| error.is_unavailable()));
    let refused = stream.capture(|| array.to_vec());
    assert!(refused.is_err_and(|error| error.is_unavailable()));
    let refused = stream.capture(|| stream.synchronize());
    assert!(refused.is_err_and(|error| error.is_unavailable()));
    let refused = stream.capture(|| stream.capture(|| Ok::<_, gpucache::Error>(())).map(drop));
    assert!(refused.is_err_and(|error| error.is_unavailable()), "one within another");
    let empty = stream.capture(|| Ok::<_, gpucache::Error>(()));
    let _ = empty.map(|(graph, ())| graph.launch().unwrap());
    let (graph, copy) = stream
        .capture(|| {
            assert!(Array::from_slice(&stream, LEN, &pattern(1, LEN)).is_err());
            array.try_clone()
        })
        .unwrap();
    graph.launch().unwrap();
    assert_eq!(copy.to_vec().unwrap(), array.to_vec().unwrap());
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        stream.capture(|| -> Result<()> {
            let _array = array.try_clone()?;
            panic!("as it should")
        })
    }));
    assert!(panicked.is_err());
    drop(array.try_clone().unwrap());
    stream.synchronize().unwrap();
    assert_eq!(array.to_vec().unwrap(), pattern(1, LEN));
}

/// A capture that was not announced to this crate gets an error, before anything is put into the graph.
#[test]
fn an_unannounced_capture_is_refused() {
    let Some(gpu) = Gpu::get() else { return };
    let stream = gpu.new_stream();
    for policy in ["auto", "keyed", "range"] {
        let entry = || match policy {
            "auto" => scope!("unannounced, planned", { new(&stream).map(drop) }),
            "keyed" => scope!("unannounced, listed", recycle = "keyed", { new(&stream).map(drop) }),
            _ => scope!("unannounced, ranged", recycle = "range", { new(&stream).map(drop) }),
        };
        for warm in [0, WARM] {
            (0..warm).for_each(|_| entry().unwrap());
            stream.stream().begin_capture(THREAD_LOCAL).unwrap();
            let refused = entry();
            let graph = stream.stream().end_capture(CUgraphInstantiate_flags(0));
            assert!(graph.is_ok(), "{policy}, {warm}: the capture is lost");
            let error = refused.expect_err(policy);
            assert!(error.is_unavailable() && error.to_string().contains("Cuda::capture"), "{error}");
            entry().unwrap();
        }
    }
    let names = ["unannounced, planned", "unannounced, listed", "unannounced, ranged"];
    names.iter().for_each(|name| _ = invalidate(name));
}

/// Graphs that come and go leave nothing behind.
#[test]
fn many_graphs_come_and_go() {
    let Some(gpu) = Gpu::get() else { return };
    let Some(kernels) = gpu.kernels() else { return };
    let stream = gpu.new_stream();
    let input = patterned(&stream, LEN, 1).unwrap();
    let mut held = 0;
    for i in 0..300 {
        let (graph, out) = stream.capture(|| step(&kernels, &stream, &input)).unwrap();
        graph.launch().unwrap();
        if i % 50 == 0 {
            assert_eq!(out.to_vec().unwrap(), expected(1));
        }
        // An array may outlive its graph.
        drop(graph);
        drop(out);
        if i == 20 {
            held = stream.memory().bytes;
        }
    }
    assert_eq!(stream.memory().bytes, held);
}

/// An array that a graph reads becomes a slice of cudarc, which gets a copy: the graph keeps the memory.
#[test]
fn a_slice_leaves_a_graph_its_memory() {
    let Some(gpu) = Gpu::get() else { return };
    let stream = gpu.new_stream();
    let input = patterned(&stream, LEN, 1).unwrap();
    let (graph, copy) = stream.capture(|| input.try_clone()).unwrap();
    drop(CudaSlice::try_from(input).unwrap());
    stream.synchronize().unwrap();
    let others: Vec<_> = (0..20).map(|_| Array::full(&stream, LEN, 7u32).unwrap()).collect();
    graph.launch().unwrap();
    assert_eq!(copy.to_vec().unwrap(), pattern(1, LEN));
    drop(others);
}

/// Arrays from before a capture, which another stream was lent or whose memory is a slice of cudarc, are dropped in the capture.
#[test]
fn drops_in_a_capture_do_not_disturb_it() {
    let Some(gpu) = Gpu::get() else { return };
    let (stream, other) = (gpu.new_stream(), gpu.new_stream());
    let input = patterned(&stream, LEN, 1).unwrap();
    let lent = || {
        let array = patterned(&stream, LEN, 2).unwrap();
        let mut elsewhere = other.stream().alloc_zeros::<u32>(LEN).unwrap();
        other.stream().memcpy_dtod(&*array, &mut elsewhere).unwrap();
        array
    };
    let adopted = || Array::try_from(stream.stream().clone_htod(&pattern(3, LEN)).unwrap()).unwrap();
    let in_scope = || scope!("lent, then dropped in a capture", { lent() });
    (0..WARM).for_each(|_| drop(in_scope()));
    let (earlier, of_earlier) = stream.capture(|| input.try_clone()).unwrap();
    let mut elsewhere = other.stream().alloc_zeros::<u32>(LEN).unwrap();
    earlier.launch().unwrap();
    other.stream().memcpy_dtod(&*of_earlier, &mut elsewhere).unwrap();
    let arrays = [lent(), adopted(), in_scope(), of_earlier];
    let (graph, copy) = stream
        .capture(|| {
            drop(arrays);
            input.try_clone()
        })
        .unwrap();
    graph.launch().unwrap();
    assert_eq!(copy.to_vec().unwrap(), pattern(1, LEN));
    stream.synchronize().unwrap();
    let _ = invalidate("lent, then dropped in a capture");
}

/// The device of an array that a graph owns is the stream of the capture.
#[test]
fn the_device_of_a_captured_array_is_the_stream() {
    let Some(gpu) = Gpu::get() else { return };
    let stream = gpu.new_stream();
    let input = patterned(&stream, LEN, 1).unwrap();
    let (first, out) = stream.capture(|| input.try_clone()).unwrap();
    let device = out.device().clone();
    let (second, copy) = device.capture(|| out.try_clone()).unwrap();
    first.launch().unwrap();
    second.launch().unwrap();
    assert_eq!(copy.to_vec().unwrap(), pattern(1, LEN));
    drop((first, out));
    assert_eq!(device.zeros::<u32>(LEN).unwrap().to_vec().unwrap(), [0; LEN]);
}

/// Arrays that could leave without a copy stay too, since the capture may contain their memory.
#[test]
fn no_array_leaves_during_a_capture() {
    let Some(gpu) = Gpu::get() else { return };
    const PAGE: usize = 2 << 20;
    let device = gpu.new_stream();
    device.trim();
    device.set_limit(device.memory().bytes + 8 * PAGE as u64).unwrap();
    let arrays: Vec<_> = (0..12).map(|_| Placed::<u8, _>::zeros(&device, PAGE).unwrap()).collect();
    let fetch_all = || arrays.iter().for_each(|array| drop(array.fetch().unwrap()));
    (0..3).for_each(|_| fetch_all());
    let before = device.stats().offload;
    for array in &arrays {
        let captured = device.capture(|| array.fetch().map(drop));
        assert!(captured.is_ok() || captured.unwrap_err().is_unavailable());
    }
    let moves = device.stats().offload.since(&before);
    assert_eq!((moves.evictions, moves.bytes_in, moves.bytes_out), (0, 0, 0));
    fetch_all();
    device.set_limit(u64::MAX).unwrap();
}
