//! Captures that a program begins itself by cudarc, inside scopes that serve its allocations. The graph has no allocation nodes, and its
//! memory belongs to it alone until it is gone.
//!
//! Each test runs in a process of its own, which has its driver from the start.
#![cfg(all(feature = "foreign", target_os = "linux"))]
#![allow(clippy::panic, clippy::unwrap_used, unsafe_code)]

use std::sync::Arc;
use std::sync::mpsc::channel;

use cudarc::driver::sys::{self, CUgraphInstantiate_flags, CUstreamCaptureMode as Mode};
use cudarc::driver::{CudaContext, CudaGraph, CudaSlice, CudaStream, DevicePtr, result};
use gpucache::prelude::*;
use gpucache::{cache_scope as scope, foreign};
use gpucache_tests::alone::alone;
use gpucache_tests::gpu::{Gpu, Kernels, is_made_up};
use gpucache_tests::madeup::fail;

const LEN: usize = 1 << 16;
const MODES: [Mode; 3] = [
    Mode::CU_STREAM_CAPTURE_MODE_GLOBAL,
    Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
    Mode::CU_STREAM_CAPTURE_MODE_RELAXED,
];

fn gpu() -> Option<(Gpu, Kernels, Arc<CudaContext>, Arc<CudaStream>)> {
    let gpu = Gpu::get()?;
    let kernels = gpu.kernels()?;
    foreign::status().unwrap();
    let context = gpu.cuda.stream().context().clone();
    // SAFETY: the tests order their streams themselves. Events of cudarc cannot be captured.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream().unwrap();
    Some((gpu, kernels, context, stream))
}

fn alloc(stream: &Arc<CudaStream>) -> CudaSlice<u32> {
    // SAFETY: a kernel writes all elements before a test reads them.
    unsafe { stream.alloc(LEN) }.unwrap()
}

fn filled(kernels: &Kernels, stream: &Arc<CudaStream>, value: u32) -> CudaSlice<u32> {
    let mut slice = alloc(stream);
    kernels.fill_slice(stream, &mut slice, value, 0);
    slice
}

fn place(slice: &CudaSlice<u32>) -> u64 {
    slice.device_ptr(slice.stream()).0
}

fn copy(stream: &Arc<CudaStream>, from: &CudaSlice<u32>) -> CudaSlice<u32> {
    let mut to = alloc(stream);
    stream.memcpy_dtod(from, &mut to).unwrap();
    to
}

fn assert_all(slice: &CudaSlice<u32>, value: u32) {
    let found = slice.stream().clone_dtoh(slice).unwrap();
    slice.stream().synchronize().unwrap();
    let wrong = found.iter().find(|element| **element != value);
    assert!(wrong.is_none(), "{wrong:?} instead of {value}");
}

/// A step on the input: each intermediate is dropped, and the last one is returned.
fn step(stream: &Arc<CudaStream>, input: &CudaSlice<u32>) -> CudaSlice<u32> {
    let mut last = copy(stream, input);
    for _ in 0..4 {
        let spare = alloc(stream);
        last = copy(stream, &last);
        drop(spare);
    }
    last
}

fn captured<R>(stream: &Arc<CudaStream>, mode: Mode, work: impl FnOnce() -> R) -> (CudaGraph, R) {
    stream.begin_capture(mode).unwrap();
    let result = work();
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    (stream.end_capture(flags).unwrap().unwrap(), result)
}

/// Whether the graph allocates or frees memory by the driver.
fn allocates(graph: &CudaGraph) -> bool {
    let mut count = 0;
    // SAFETY: the graph is alive. First the number of its nodes is written, then as many handles. Each node has a kind.
    unsafe {
        sys::cuGraphGetNodes(graph.cu_graph(), std::ptr::null_mut(), &mut count).result().unwrap();
        let mut nodes = vec![std::ptr::null_mut(); count];
        sys::cuGraphGetNodes(graph.cu_graph(), nodes.as_mut_ptr(), &mut count).result().unwrap();
        assert!(count > 0);
        nodes.into_iter().any(|node| {
            let mut kind = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
            sys::cuGraphNodeGetType(node, &mut kind).result().unwrap();
            matches!(
                kind,
                sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_ALLOC | sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_FREE
            )
        })
    }
}

/// Work beside the graph, which writes all free memory that it gets.
fn eager(kernels: &Kernels, stream: &Arc<CudaStream>, name: &'static str) -> Vec<u64> {
    scope!(name = name, {
        let slices: Vec<_> = (0..20).map(|n| filled(kernels, stream, 0xEE00 + n)).collect();
        slices.iter().zip(0..).for_each(|(slice, n)| assert_all(slice, 0xEE00 + n));
        slices.iter().map(place).collect()
    })
}

#[test]
fn launches_between_eager_work_read_right_values() {
    alone(120, || {
        let Some((gpu, kernels, _, stream)) = gpu() else { return };
        for (mode, name) in MODES.into_iter().zip(["global", "thread_local", "relaxed"]) {
            let mut input = filled(&kernels, &stream, 1);
            // The scope is warm, so its plan would serve the first allocations of the capture.
            for _ in 0..20 {
                scope!(name = name, { assert_all(&step(&stream, &input), 1) });
            }
            let (graph, output) = scope!(name = name, { captured(&stream, mode, || step(&stream, &input)) });
            assert!(!allocates(&graph), "{name}");
            for launch in 0..10 {
                kernels.fill_slice(&stream, &mut input, 100 + launch, 0);
                graph.launch().unwrap();
                let others = eager(&kernels, &stream, name);
                assert!(!others.contains(&place(&output)));
                assert_all(&output, 100 + launch);
                let _ = invalidate(name);
                gpu.cuda.trim();
            }
            let stats = gpucache::stats(name).unwrap().foreign;
            assert_eq!((stats.passed_on, stats.captured), (0, 9), "{name}: {stats}");
        }
    });
}

#[test]
fn the_memory_comes_back_with_the_end_of_the_graph() {
    alone(120, || {
        let Some((gpu, kernels, _, stream)) = gpu() else { return };
        let input = filled(&kernels, &stream, 1);
        scope!(name = "warm", { drop(step(&stream, &input)) });
        let _ = invalidate("warm");
        stream.synchronize().unwrap();
        gpu.cuda.trim();
        let before = gpu.cuda.memory().bytes;
        let (graph, output) = scope!(name = "ends", { captured(&stream, MODES[1], || step(&stream, &input)) });
        drop(output);
        graph.launch().unwrap();
        stream.synchronize().unwrap();
        let _ = invalidate("ends");
        gpu.cuda.trim();
        assert!(gpu.cuda.memory().bytes > before, "the graph keeps its memory");
        graph.launch().unwrap();
        drop(graph);
        stream.synchronize().unwrap();
        // The driver may tell the end a moment later.
        let is_back = || {
            let _ = invalidate("ends");
            gpu.cuda.trim();
            gpu.cuda.memory().bytes == before
        };
        let is_in_time = (0..200).any(|_| {
            is_back() || {
                std::thread::sleep(std::time::Duration::from_millis(10));
                false
            }
        });
        assert!(is_in_time, "{} bytes, {before} before", gpu.cuda.memory().bytes);
    });
}

#[test]
fn memory_freed_in_a_capture_stays_with_the_graph() {
    alone(120, || {
        let Some((gpu, kernels, _, stream)) = gpu() else { return };
        for _ in 0..20 {
            scope!(name = "kept", { assert_all(&copy(&stream, &filled(&kernels, &stream, 7)), 7) });
        }
        let (graph, (output, old)) = scope!(name = "kept", {
            // Served by the plan before the capture, and freed in it.
            let early = filled(&kernels, &stream, 7);
            let old = place(&early);
            captured(&stream, MODES[1], || {
                let output = copy(&stream, &early);
                drop(early);
                (output, old)
            })
        });
        for _ in 0..5 {
            assert!(!eager(&kernels, &stream, "kept").contains(&old));
            graph.launch().unwrap();
            assert_all(&output, 7);
        }
        drop(graph);
        stream.synchronize().unwrap();
        drop(gpu);
    });
}

#[test]
fn streams_that_join_a_capture_get_memory_of_the_graph() {
    alone(120, || {
        let Some((gpu, kernels, context, stream)) = gpu() else { return };
        let other = context.new_stream().unwrap();
        let mut input = filled(&kernels, &stream, 1);
        for _ in 0..20 {
            scope!(name = "joined", { drop((step(&stream, &input), step(&other, &input))) });
        }
        let (graph, (left, right)) = scope!(name = "joined", {
            captured(&stream, MODES[1], || {
                let left = step(&stream, &input);
                let forked = stream.record_event(None).unwrap();
                other.wait(&forked).unwrap();
                let right = step(&other, &left);
                stream.wait(&other.record_event(None).unwrap()).unwrap();
                (left, right)
            })
        });
        assert!(!allocates(&graph));
        for launch in 0..5 {
            kernels.fill_slice(&stream, &mut input, launch, 0);
            graph.launch().unwrap();
            stream.synchronize().unwrap();
            eager(&kernels, &other, "joined");
            eager(&kernels, &stream, "joined");
            assert_all(&left, launch);
            assert_all(&right, launch);
        }
        assert_eq!(gpucache::stats("joined").unwrap().foreign.passed_on, 0);
        drop(gpu);
    });
}

#[test]
fn after_a_capture_the_scope_is_as_warm_as_before() {
    alone(120, || {
        let Some((gpu, kernels, _, stream)) = gpu() else { return };
        let input = filled(&kernels, &stream, 1);
        let warm =
            |entries| (0..entries).for_each(|_| scope!(name = "warm", { assert_all(&step(&stream, &input), 1) }));
        warm(20);
        let graphs = scope!(name = "warm", { captured(&stream, MODES[1], || step(&stream, &input)) });
        // A capture that fails ends as well, and so does one of a stream that is destroyed.
        scope!(name = "warm", {
            stream.begin_capture(MODES[1]).unwrap();
            let lost = step(&stream, &input);
            assert!(stream.synchronize().is_err());
            assert!(stream.end_capture(CUgraphInstantiate_flags(0)).is_err());
            std::mem::drop(lost);
        });
        warm(20);
        let before = gpucache::stats("warm").unwrap();
        warm(20);
        let after = gpucache::stats("warm").unwrap();
        assert_eq!(after.misses, before.misses, "{after}");
        let planned = after.served.planned.allocations - before.served.planned.allocations;
        assert!(planned >= 150, "{planned} of 180: {after}");
        drop((gpu, graphs));
    });
}

/// If the driver refuses to tell the end of a graph, the graph's memory stays reserved, and everything else goes on.
#[test]
fn a_graph_whose_end_is_not_told_keeps_its_memory() {
    alone(120, || {
        let Some((gpu, kernels, _, stream)) = gpu() else { return };
        if !is_made_up() {
            return;
        }
        let mut input = filled(&kernels, &stream, 1);
        for (name, function) in [("uncreated", c"cuUserObjectCreate"), ("unretained", c"cuGraphRetainUserObject")] {
            fail(function, 0, 1, 999);
            let (graph, output) = scope!(name = name, { captured(&stream, MODES[1], || step(&stream, &input)) });
            assert!(!allocates(&graph));
            let old = place(&output);
            for launch in 0..3 {
                kernels.fill_slice(&stream, &mut input, launch, 0);
                graph.launch().unwrap();
                assert!(!eager(&kernels, &stream, name).contains(&old));
                assert_all(&output, launch);
            }
            drop((graph, output));
            stream.synchronize().unwrap();
            let _ = invalidate(name);
            assert!(!eager(&kernels, &stream, name).contains(&old), "{name}");
        }
        drop(gpu);
    });
}

/// Each graph is launched and dropped, and its memory serves the next one.
#[test]
fn graphs_that_come_and_go_take_the_memory_of_a_few() {
    alone(120, || {
        let Some((gpu, kernels, context, stream)) = gpu() else { return };
        let input = filled(&kernels, &stream, 7);
        let mut most = 0;
        for graph in 0..100 {
            let (graph_of_step, output) =
                scope!(name = "come and go", { captured(&stream, MODES[graph % 3], || step(&stream, &input)) });
            graph_of_step.launch().unwrap();
            assert_all(&output, 7);
            drop((graph_of_step, output));
            context.synchronize().unwrap();
            if graph == 9 {
                most = gpu.cuda.memory().bytes;
            }
        }
        let bytes = gpu.cuda.memory().bytes;
        assert!(bytes <= 2 * most, "{bytes} bytes after a hundred graphs, {most} after ten");
    });
}

/// A device without pages gives memory in chunks. A capture may need the first one.
#[test]
fn captures_take_memory_in_chunks() {
    alone(120, || {
        // SAFETY: the process has one thread so far, and the driver reads the variable later.
        unsafe { std::env::set_var("MADEUP_PAGES", "0") };
        let Some((gpu, kernels, _, stream)) = gpu() else { return };
        let input = filled(&kernels, &stream, 7);
        for mode in MODES {
            let (graph, output) = scope!(name = "chunks", { captured(&stream, mode, || step(&stream, &input)) });
            graph.launch().unwrap();
            assert_all(&output, 7);
        }
        let own = gpu.new_stream();
        let (graph, array) = own.capture(|| Array::<u8, Cuda>::full(&own, 9 * LEN, 5)).unwrap();
        graph.launch().unwrap();
        assert!(array.to_vec().unwrap().iter().all(|&byte| byte == 5));
    });
}

/// The loan of a slice ends with a wait for all work of the context, which would end every capture there.
#[test]
fn arrays_that_were_lent_end_no_capture() {
    alone(120, || {
        let Some((gpu, kernels, _, stream)) = gpu() else { return };
        // An object of its own for the same context, with events.
        let home = Cuda::with_stream(CudaContext::new(0).unwrap().new_stream().unwrap()).unwrap();
        let input = filled(&kernels, &stream, 7);
        for mode in MODES {
            let mut lent = scope!(name = "lent", recycle = "keyed", { Array::<u32, Cuda>::zeros(&home, LEN).unwrap() });
            home.stream().memset_zeros(&mut lent.as_view_mut()).unwrap();
            let (graph, output) = scope!(name = "beside a loan", {
                captured(&stream, mode, || {
                    drop(lent);
                    step(&stream, &input)
                })
            });
            graph.launch().unwrap();
            assert_all(&output, 7);
        }
        home.synchronize().unwrap();
        drop(gpu);
    });
}

/// Only a wait for the context orders work behind the default stream of another thread. Within a capture there is none, so the memory is
/// never used again.
#[test]
fn memory_that_another_thread_uses_ends_no_capture() {
    alone(120, || {
        let Some((gpu, kernels, context, stream)) = gpu() else { return };
        let (home, input) = (gpu.new_stream(), filled(&kernels, &stream, 7));
        let array = Array::<u32, Cuda>::zeros(&home, LEN).unwrap();
        let (own, (tell, used), (end, ends)) = (context.per_thread_stream(), channel(), channel::<()>());
        let other = std::thread::spawn(move || {
            array.announce_read(&Cuda::with_stream(own).unwrap()).unwrap();
            tell.send(array).unwrap();
            // The stream ends with its thread.
            let _ = ends.recv();
        });
        let array = used.recv().unwrap();
        let (graph, output) = scope!(name = "beside a thread", {
            captured(&stream, MODES[2], || {
                drop(array);
                step(&stream, &input)
            })
        });
        assert!(!allocates(&graph));
        graph.launch().unwrap();
        assert_all(&output, 7);
        assert!(home.synchronize().is_err(), "the failure is told");
        drop(end);
        other.join().unwrap();
        drop(gpu);
    });
}

/// Before such a free, the host waits for the context, which ends every capture. So the memory goes back behind the capture.
#[test]
fn a_free_without_a_stream_ends_no_capture() {
    alone(120, || {
        let Some((gpu, kernels, _, stream)) = gpu() else { return };
        let input = filled(&kernels, &stream, 7);
        for mode in &MODES[1..] {
            // SAFETY: the memory is freed once, and nobody uses it.
            let memory = scope!(name = "synchronous", { unsafe { result::malloc_sync(4 * LEN) }.unwrap() });
            // SAFETY: as above.
            let free = move || unsafe { result::free_sync(memory) }.unwrap();
            let (graph, output) = scope!(name = "beside a free", {
                captured(&stream, *mode, || {
                    std::thread::spawn(free).join().unwrap();
                    step(&stream, &input)
                })
            });
            graph.launch().unwrap();
            assert_all(&output, 7);
            assert_eq!(gpucache::stats("synchronous").unwrap().busy_blocks, 0);
        }
        drop(gpu);
    });
}
