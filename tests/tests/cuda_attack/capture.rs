//! Captures into CUDA graphs: what a replay reads and writes, and what other threads do meanwhile.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use cudarc::driver::sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL as THREAD_LOCAL;
use cudarc::driver::sys::{self, CUgraphInstantiate_flags, CUgraphNodeType};
use cudarc::driver::{CudaGraph, DriverError, result};
use gpucache::prelude::*;
use gpucache::{Element, Result, graph::Graph, uncached};
use gpucache_tests::alike::are_all;
use gpucache_tests::alone::alone;
use gpucache_tests::conformance::pattern;
use gpucache_tests::gpu::{Gpu, is_made_up};
use gpucache_tests::meanwhile::End;
use gpucache_tests::process::number;

use crate::Service;

const LEN: usize = 1000;

/// The result of the capture of some work, and the result of the work itself.
fn captured<R>(stream: &Cuda, work: impl FnOnce() -> R) -> (Result<Graph>, R) {
    let mut given = None;
    let graph = stream.capture(|| {
        given = Some(work());
        Ok::<_, gpucache::Error>(())
    });
    (graph.map(|(graph, ())| graph), given.unwrap())
}

/// The same with cudarc alone. The scopes are not told about the capture.
fn captured_unannounced<R>(stream: &Cuda, work: impl FnOnce() -> R) -> (Result<CudaGraph, DriverError>, R) {
    stream.stream().begin_capture(THREAD_LOCAL).unwrap();
    let given = work();
    let graph = stream.stream().end_capture(CUgraphInstantiate_flags(0));
    (graph.map(|graph| graph.expect("a graph")), given)
}

/// How many copies are in a graph.
fn copies_in(graph: &CudaGraph) -> usize {
    let mut count = 0;
    // SAFETY: the graph lives. Without a place for the nodes, the driver only returns their number.
    unsafe { sys::cuGraphGetNodes(graph.cu_graph(), std::ptr::null_mut(), &mut count) }.result().unwrap();
    if count == 0 {
        return 0;
    }
    let mut nodes = vec![std::ptr::null_mut(); count];
    // SAFETY: as above, with a place for this many nodes.
    unsafe { sys::cuGraphGetNodes(graph.cu_graph(), nodes.as_mut_ptr(), &mut count) }.result().unwrap();
    let is_copy = |node: &&sys::CUgraphNode| {
        let mut kind = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
        // SAFETY: the node belongs to a graph that lives.
        unsafe { sys::cuGraphNodeGetType(**node, &mut kind) }.result().unwrap();
        kind == CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY
    };
    nodes.iter().filter(is_copy).count()
}

/// How an array gets its contents.
#[derive(Clone, Copy, Debug)]
enum Way {
    Full,
    FromSlice,
    CopyFromSlice,
}

/// Overwrites the stack contents of earlier calls.
#[inline(never)]
fn dirty(depth: u32) -> u32 {
    let junk = std::hint::black_box([0xABu8; 4096]);
    if depth == 0 { u32::from(junk[7]) } else { dirty(depth - 1) ^ u32::from(junk[9]) }
}

/// A captured step makes an array and copies it to `out`. Either it is refused before anything is put into the graph, or a replay
/// gives the right values, whatever happened to the host's memory meanwhile.
fn is_replayed<T: Element + PartialEq + Debug>(stream: &Cuda, value: T, junk: T, found: &mut Vec<String>) {
    for (service, way) in Service::SCOPES
        .iter()
        .flat_map(|service| [Way::Full, Way::FromSlice, Way::CopyFromSlice].map(|way| (*service, way)))
    {
        let what = format!("{way:?} of {} bytes, {service:?}", size_of::<T>());
        let mut out = uncached!({ Array::full(stream, LEN, junk).unwrap() });
        let mut values = vec![value; LEN];
        let step = |out: &mut Array<T, Cuda>, values: &[T]| {
            service.enter(&what, || {
                let array = match way {
                    Way::Full => Array::full(stream, LEN, value)?,
                    Way::FromSlice => Array::from_slice(stream, LEN, values)?,
                    Way::CopyFromSlice => {
                        let mut array = Array::zeros(stream, LEN)?;
                        array.copy_from_slice(values)?;
                        array
                    }
                };
                stream.stream().memcpy_dtod(&array, out).unwrap();
                Ok(())
            })
        };
        (0..service.warm()).for_each(|_| step(&mut out, &values).unwrap());
        assert_eq!(out.to_vec().unwrap(), values, "{what}: directly");
        let (graph, done): (_, Result<()>) = captured(stream, || step(&mut out, &values));
        values.fill(junk);
        std::hint::black_box(dirty(30));
        drop(vec![vec![0xABu8; 4000]; 50]);
        match (graph, done) {
            (Err(error), done) => found.push(format!("{what}: {done:?}, and the capture is lost: {error}")),
            (Ok(graph), Err(error)) if error.is_unavailable() => {
                println!("{what}: refused: {error}");
                if copies_in(graph.cuda_graph()) > 0 {
                    found.push(format!("{what}: refused with a copy in the graph"));
                }
            }
            (Ok(_), Err(error)) => found.push(format!("{what}: {error}")),
            (Ok(graph), Ok(())) => {
                out.copy_from_slice(&values).unwrap();
                graph.launch().unwrap();
                let replayed = out.to_vec().unwrap();
                if let Some(other) = replayed.iter().find(|other| **other != value) {
                    found.push(format!("{what}: a replay gives {other:?} for {value:?}"));
                }
            }
        }
        let _ = invalidate(&what);
    }
}

#[test]
fn a_replay_reads_nothing_of_the_host() {
    alone(60, || {
        let Some(gpu) = Gpu::get() else { return };
        let stream = gpu.new_stream();
        let mut found = Vec::new();
        is_replayed(&stream, 0x11u8, 0xEE, &mut found);
        is_replayed(&stream, [1u8, 2, 3], [9; 3], &mut found);
        is_replayed(&stream, 7u32, 99, &mut found);
        is_replayed(&stream, [1u16, 2, 3], [9; 3], &mut found);
        is_replayed(&stream, 1.5f64, 9.0, &mut found);
        is_replayed(&stream, [1u64, 2], [9; 2], &mut found);
        assert!(found.is_empty(), "{found:#?}");
    });
}

/// Counts messages by their text.
#[derive(Default)]
struct Said(Mutex<BTreeMap<String, u32>>);

impl Said {
    fn note<R>(&self, what: &str, answer: Result<R, impl ToString>) -> Option<R> {
        let note = |error: &dyn ToString| {
            *self.0.lock().unwrap().entry(format!("{what}: {}", error.to_string())).or_default() += 1
        };
        answer.inspect_err(|error| note(error)).ok()
    }
}

/// Three threads allocate, drop, invalidate and trim while one captures. No capture is lost, nothing fails elsewhere, and a replay
/// has the same results as the work itself. `CAPTURES` sets how many captures there are.
#[test]
fn captures_are_not_disturbed_by_other_threads() {
    let captures = number("CAPTURES").unwrap_or(300);
    alone(60 + captures / 10, move || {
        let Some(gpu) = Gpu::get() else { return };
        let [capturing, first, second, third] = [(); 4].map(|()| gpu.new_stream());
        let (said, stop) = (Said::default(), AtomicBool::new(false));
        let zeros = |stream: &Cuda, len| Array::<u8, _>::zeros(stream, len);
        let goes_on = || !stop.load(Relaxed);
        std::thread::scope(|threads| {
            let _end = End(&stop);
            threads.spawn(|| {
                for i in (0..19).cycle().take_while(|_| goes_on()) {
                    let kept = Service::Ranged.enter("beside captures 1", || zeros(&first, (1 << 20) + 4096 * i));
                    said.note("an allocation", kept);
                }
            });
            threads.spawn(|| {
                for i in (0..7).cycle().take_while(|_| goes_on()) {
                    let kept = Service::Planned.enter("beside captures 2", || zeros(&second, (1 << 18) << (i % 3)));
                    said.note("an allocation of a plan", kept);
                    if i == 6 {
                        let _ = invalidate("beside captures 2");
                    }
                }
            });
            threads.spawn(|| {
                for i in (0..5).cycle().take_while(|_| goes_on()) {
                    let kept = Service::Listed.enter("beside captures 3", || zeros(&third, (1 << 19) + i));
                    said.note("an allocation of a list", kept);
                    if i == 4 {
                        third.trim();
                    }
                }
            });
            let mut good = 0;
            capture_on(&capturing, captures, &said, &mut good);
            println!("{good} of {captures} captures were good");
            said.note(
                "captures",
                if good == captures { Ok(()) } else { Err(format!("{good} of {captures} were good")) },
            );
        });
        let said = said.0.into_inner().unwrap();
        assert!(said.is_empty(), "{said:#?}");
        gpu.cuda.stream().context().synchronize().unwrap();
    });
}

/// Repeatedly captures a copy through an array of its own, with memory that changes hands in between. Every other time it captures
/// with cudarc alone, when no array of a scope may be in the graph. Some graphs live for a while.
fn capture_on(stream: &Cuda, captures: u64, said: &Said, good: &mut u64) {
    let mut input = uncached!({ Array::from_slice(stream, LEN, &pattern(0, LEN)).unwrap() });
    let [mut out, mut eager] = [(); 2].map(|()| uncached!({ Array::<u32, _>::zeros(stream, LEN).unwrap() }));
    let mut alive = VecDeque::new();
    for number in 0..captures {
        let bytes = (1 << 20) + 4096 * (number as usize % 20);
        let freed = Service::Ranged.enter("captures", || Array::<u8, _>::zeros(stream, bytes).map(drop));
        said.note("an allocation of the capturing thread", freed);
        let launch: Box<dyn Fn() -> Result<(), String>> = if number % 2 == 0 {
            let graph = stream.capture(|| {
                Service::Ranged.enter("captures", || {
                    let scratch = input.try_clone()?;
                    let again = scratch.try_clone()?;
                    drop(scratch);
                    said.note("a copy in a capture", stream.stream().memcpy_dtod(&again, &mut out));
                    Ok::<_, gpucache::Error>(())
                })
            });
            let Some((graph, ())) = said.note("a capture", graph) else { continue };
            let graph = Rc::new(graph);
            alive.push_back(graph.clone());
            alive.drain(..alive.len().saturating_sub(5));
            Box::new(move || graph.launch().map_err(|error| error.to_string()))
        } else {
            if said.note("begin_capture", stream.stream().begin_capture(THREAD_LOCAL)).is_none() {
                continue;
            }
            said.note("a copy in a capture", stream.stream().memcpy_dtod(&input, &mut out));
            let graph = stream.stream().end_capture(CUgraphInstantiate_flags(0));
            let Some(Some(graph)) = said.note("end_capture", graph) else { continue };
            Box::new(move || graph.launch().map_err(|error| error.to_string()))
        };
        *good += 1;
        if number % 5 == 0 {
            let values = pattern(number as u32 + 1, LEN);
            let written = input.copy_from_slice(&values);
            said.note("a write between captures", written);
            said.note("a replay", launch());
            said.note("the same eagerly", stream.stream().memcpy_dtod(&input, &mut eager));
            let read = (said.note("a read", out.to_vec()), said.note("a read", eager.to_vec()));
            let is_right = read == (Some(values.clone()), Some(values));
            said.note("contents", if is_right { Ok(()) } else { Err("a replay differs from the same work") });
        }
    }
}

/// The arrays of a captured step are dropped within it. Replays overwrite nothing that lives, and nobody takes their memory.
#[test]
fn a_replay_overwrites_nothing() {
    alone(60, || {
        let Some(gpu) = Gpu::get() else { return };
        let mut found = Vec::new();
        for service in Service::SCOPES {
            let stream = gpu.new_stream();
            let (name, other) = (format!("replayed, {service:?}"), format!("beside replays, {service:?}"));
            let step = || {
                service.enter(&name, || {
                    // SAFETY: the memset writes every element.
                    let mut array = unsafe { Array::<u32, _>::uninit(&stream, 100_000)? };
                    stream.stream().memset_zeros(&mut array).unwrap();
                    Ok(())
                })
            };
            (0..12).for_each(|_| step().unwrap());
            let (graph, done): (_, Result<()>) = captured_unannounced(&stream, step);
            graph.unwrap_or_else(|error| panic!("{service:?}: the capture is lost: {error}"));
            assert!(done.is_err_and(|error| error.is_unavailable()), "{service:?}: a capture that is not announced");
            let (graph, done): (_, Result<()>) = captured(&stream, step);
            done.unwrap();
            let graph = graph.unwrap();
            let new = |i: usize| service.enter(&other, || Array::full(&stream, 20_000 + i, 5u32).unwrap());
            let alive: Vec<_> = (0..40).map(new).collect();
            graph.launch().unwrap();
            let is_overwritten = |array: &&Array<u32, Cuda>| !are_all(&array.to_vec().unwrap(), 5);
            let overwritten = alive.iter().filter(is_overwritten).count();
            if overwritten > 0 {
                found.push(format!("{service:?}: of 40 live arrays a replay overwrote {overwritten}"));
            }
            drop(alive);
            let _ = (invalidate(&name), invalidate(&other), stream.trim());
            graph.launch().unwrap();
            if let Err(error) = stream.synchronize() {
                found.push(format!("{service:?}: a replay after a trim: {error}"));
                break;
            }
        }
        assert!(found.is_empty(), "{found:#?}");
    });
}

/// The free memory of the device once all work is done.
pub(crate) fn free_bytes(stream: &Cuda) -> usize {
    stream.stream().context().synchronize().unwrap();
    result::mem_get_info().unwrap().0
}

/// A captured stream cannot free memory. Memory that the capture drops is freed once it has ended, behind the work from before it.
#[test]
fn memory_of_no_scope_that_a_capture_drops_is_freed_behind_it() {
    alone(60, || {
        let Some(gpu) = Gpu::get() else { return };
        let Some(kernels) = gpu.kernels() else { return };
        if !is_made_up() {
            return;
        }
        let (stream, values) = (gpu.new_stream(), pattern(1, LEN));
        let input = Array::from_slice(&stream, LEN, &values).unwrap();
        let mut seen = Array::<u32, _>::zeros(&stream, LEN).unwrap();
        // A graph that drops nothing takes memory too.
        let plain = stream.capture(|| input.try_clone()).unwrap();
        let (free, held) = (free_bytes(&stream), stream.memory().bytes);
        drop(plain);
        for _ in 0..3 {
            let old = input.try_clone().unwrap();
            kernels.hold(stream.stream(), 3000);
            stream.stream().memcpy_dtod(&old, &mut seen).unwrap();
            let (graph, copy) = stream
                .capture(|| {
                    drop(old);
                    input.try_clone()
                })
                .unwrap();
            assert_eq!((free_bytes(&stream), stream.memory().bytes), (free, held), "once the capture has ended");
            assert_eq!(seen.to_vec().unwrap(), values, "what earlier work read");
            graph.launch().unwrap();
            assert_eq!(copy.to_vec().unwrap(), values);
        }
    });
}

/// A device without pages takes chunks back, also while the stream that it served last is captured.
#[test]
fn chunks_go_back_during_a_capture() {
    alone(60, || {
        // SAFETY: the process has one thread so far, and the driver reads the variable later.
        unsafe { std::env::set_var("MADEUP_PAGES", "0") };
        let Some(gpu) = Gpu::get() else { return };
        if !is_made_up() {
            return;
        }
        let ([stream, other], name) = ([(); 2].map(|()| gpu.new_stream()), "chunks that go back");
        let free = free_bytes(&stream);
        let chunk = Service::Ranged.enter(name, || Array::<u8, _>::zeros(&other, 9 << 20).unwrap());
        let (graph, array) = stream
            .capture(|| {
                let array = Array::<u8, _>::zeros(&stream, 20 << 20)?;
                drop(chunk);
                let _ = invalidate(name);
                other.synchronize()?;
                other.trim();
                Array::<u8, _>::zeros(&stream, LEN).map(|second| (array, second))
            })
            .unwrap();
        graph.launch().unwrap();
        assert!(are_all(&array.0.to_vec().unwrap(), 0));
        drop((graph, array));
        stream.synchronize().unwrap();
        stream.trim();
        assert_eq!(free_bytes(&stream), free);
    });
}
