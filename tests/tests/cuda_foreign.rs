//! Allocations of other crates on a GPU: cudarc's slices inside scopes. Their memory changes hands only behind the work that still
//! uses it, on whatever stream and thread.
//!
//! Kernels wait first, so every wrong order shows in the contents. Each test runs in a process of its own, which has its driver
//! from the start.
#![cfg(all(feature = "foreign", target_os = "linux"))]
#![allow(clippy::panic, clippy::unwrap_used, unsafe_code)]

use std::sync::Arc;
use std::sync::mpsc::channel;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, result, sys};
use gpucache::prelude::*;
use gpucache::{cache_scope as scope, foreign};
use gpucache_tests::alone::alone;
use gpucache_tests::gpu::{Gpu, Kernels, SLOWLY};

const LEN: usize = 4096;

fn gpu() -> Option<(Gpu, Kernels, Arc<CudaContext>)> {
    let gpu = Gpu::get()?;
    let kernels = gpu.kernels()?;
    foreign::status().unwrap();
    let context = gpu.cuda.stream().context().clone();
    Some((gpu, kernels, context))
}

fn alloc(stream: &Arc<CudaStream>, len: usize) -> CudaSlice<u32> {
    // SAFETY: a kernel writes all elements before a test reads them.
    unsafe { stream.alloc(len) }.unwrap()
}

fn place(slice: &CudaSlice<u32>) -> u64 {
    slice.device_ptr(slice.stream()).0
}

fn filled(kernels: &Kernels, stream: &Arc<CudaStream>, value: u32, nanoseconds: u64) -> CudaSlice<u32> {
    let mut slice = alloc(stream, LEN);
    kernels.fill_slice(stream, &mut slice, value, nanoseconds);
    slice
}

fn assert_all(slice: &CudaSlice<u32>, value: u32) {
    let found = slice.stream().clone_dtoh(slice).unwrap();
    slice.stream().synchronize().unwrap();
    assert!(found.iter().all(|element| *element == value), "{} instead of {value}", found[0]);
}

#[test]
fn a_warm_scope_serves_the_slices_of_cudarc() {
    alone(120, || {
        let Some((gpu, kernels, context)) = gpu() else { return };
        let streams = [context.default_stream(), context.new_stream().unwrap(), context.per_thread_stream()];
        for (number, stream) in streams.iter().enumerate() {
            let name = format!("slices of {number}");
            let mut misses = 0;
            for entry in 0..40 {
                scope!(name = &name, {
                    let slices: Vec<_> = (0..20).map(|n| filled(&kernels, stream, entry * 100 + n, 0)).collect();
                    slices.iter().zip(0..).for_each(|(slice, n)| assert_all(slice, entry * 100 + n));
                });
                if entry == 20 {
                    misses = gpucache::stats(&name).unwrap().misses;
                }
            }
            let stats = gpucache::stats(&name).unwrap().foreign;
            assert_eq!((stats.served, stats.passed_on, stats.freed_elsewhere), (800, 0, 0), "{name}");
            assert_eq!(gpucache::stats(&name).unwrap().misses, misses, "{name}");
            let _ = invalidate(&name);
        }
        drop(gpu);
    });
}

#[test]
fn slices_outside_of_scopes_are_planned_in_the_scope_of_the_program() {
    alone(120, || {
        let Some((gpu, kernels, context)) = gpu() else { return };
        gpucache::auto_scope();
        let stream = context.new_stream().unwrap();
        let mut misses = 0;
        for step in 0..100 {
            let slices: Vec<_> = (0..20).map(|n| filled(&kernels, &stream, step * 100 + n, 0)).collect();
            slices.iter().zip(0..).for_each(|(slice, n)| assert_all(slice, step * 100 + n));
            if step == 60 {
                misses = gpucache::stats("auto").unwrap().misses;
            }
        }
        let stats = gpucache::stats("auto").unwrap();
        assert!(stats.foreign.served >= 2000 && stats.served.planned.allocations > 1000, "{stats}");
        assert_eq!((stats.plan.loops, stats.misses), (1, misses), "{stats}");
        drop(gpu);
    });
}

#[test]
fn what_another_stream_frees_waits_for_its_work() {
    alone(120, || {
        let Some((_gpu, kernels, context)) = gpu() else { return };
        let (a, b) = (context.new_stream().unwrap(), context.new_stream().unwrap());
        let name = "freed elsewhere";
        let mut reused = 0;
        for _ in 0..8 {
            let (kept, old) = scope!(name = name, {
                let memory = filled(&kernels, &a, 1, 0);
                a.synchronize().unwrap();
                let old = place(&memory);
                // Read late on the other stream, and freed there. The driver gives the memory to the next allocation after that.
                let mut kept = alloc(&b, LEN);
                kernels.fill_slice(&b, &mut kept, 0, SLOWLY);
                // SAFETY: both slices are as long, and alive until the copy is queued. The free comes behind it on the same stream.
                unsafe {
                    result::memcpy_dtod_async(place(&kept), old, 4 * LEN, b.cu_stream()).unwrap();
                    result::free_async(memory.leak(), b.cu_stream()).unwrap();
                }
                (kept, old)
            });
            scope!(name = name, {
                let next = filled(&kernels, &a, 99, 0);
                reused += u32::from(place(&next) == old);
                assert_all(&kept, 1);
                assert_all(&next, 99);
            });
        }
        assert!(reused > 0, "no memory was handed out again while the other stream still read it");
        assert!(gpucache::stats(name).unwrap().foreign.freed_elsewhere >= 8);
        let _ = invalidate(name);
    });
}

#[test]
fn threads_hand_slices_of_their_own_streams_on() {
    alone(120, || {
        let Some((gpu, kernels, context)) = gpu() else { return };
        const THREADS: usize = 8;
        const ROUNDS: u32 = 60;
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| channel()).unzip();
        std::thread::scope(|threads| {
            for (number, receiver) in receivers.into_iter().enumerate() {
                let (next, context, kernels) = (senders[(number + 1) % THREADS].clone(), context.clone(), &kernels);
                threads.spawn(move || {
                    context.bind_to_thread().unwrap();
                    let stream = context.per_thread_stream();
                    for round in 0..ROUNDS {
                        let value = number as u32 * 1000 + round;
                        scope!(ring, {
                            let nanoseconds = if (round as usize + number).is_multiple_of(7) { SLOWLY / 20 } else { 0 };
                            let slice = filled(kernels, &stream, value, nanoseconds);
                            next.send((slice, stream.record_event(None).unwrap(), value)).unwrap();
                            let (slice, ready, value) = receiver.recv().unwrap();
                            stream.wait(&ready).unwrap();
                            let mut copy = filled(kernels, &stream, 0, SLOWLY / 50);
                            stream.memcpy_dtod(&slice, &mut copy).unwrap();
                            drop(slice);
                            let other = filled(kernels, &stream, 7, 0);
                            assert_all(&copy, value);
                            assert_all(&other, 7);
                        });
                    }
                });
            }
            drop(senders);
        });
        let stats = gpucache::stats("ring").unwrap().foreign;
        assert_eq!((stats.served, stats.passed_on), (3 * u64::from(ROUNDS) * THREADS as u64, 0));
        let _ = invalidate("ring");
        drop(gpu);
    });
}

#[test]
fn streams_end_while_their_memory_is_alive_or_kept() {
    alone(120, || {
        let Some((gpu, kernels, context)) = gpu() else { return };
        let mut last = None;
        for round in 0..1000 {
            let kept = scope!(streams, {
                let stream = context.new_stream().unwrap();
                let slice = filled(&kernels, &stream, round, if round % 50 == 0 { SLOWLY / 10 } else { 0 });
                drop(filled(&kernels, &stream, 1, 0));
                // The stream ends here, with work under way. Its memory goes on.
                slice.leak()
            });
            if let Some((address, value)) = last.replace((kept, round)) {
                let stream = context.default_stream();
                context.synchronize().unwrap();
                // SAFETY: the slice that left the memory had as many elements, and nobody else frees it.
                let slice: CudaSlice<u32> = unsafe { stream.upgrade_device_ptr(address, LEN) };
                assert_all(&slice, value);
            }
        }
        assert_eq!(gpucache::stats("streams").unwrap().foreign.passed_on, 0);
        let _ = invalidate("streams");
        drop(gpu);
    });
}

#[test]
fn a_thread_without_a_context_frees() {
    alone(120, || {
        let Some((_gpu, kernels, context)) = gpu() else { return };
        for stream in [context.default_stream(), context.per_thread_stream(), context.new_stream().unwrap()] {
            for _ in 0..20 {
                scope!(no_context, {
                    let address = filled(&kernels, &stream, 3, 0).leak();
                    let handle = stream.cu_stream() as usize;
                    // SAFETY: the address is freed once, by the call that belongs to its allocation.
                    let freed =
                        std::thread::spawn(move || unsafe { result::free_async(address, handle as sys::CUstream) });
                    freed.join().unwrap().unwrap();
                });
            }
        }
        let _ = invalidate("no_context");
    });
}

#[test]
fn arrays_of_the_per_thread_stream_change_threads() {
    alone(120, || {
        let Some((_gpu, kernels, context)) = gpu() else { return };
        let gpu = Cuda::with_stream(context.per_thread_stream()).unwrap();
        for round in 0..20 {
            let mut array = scope!(own, { Array::<u32, _>::zeros(&gpu, LEN).unwrap() });
            kernels.fill(gpu.stream(), &mut array, round, SLOWLY / 20);
            let (gpu, kernels) = (gpu.clone(), &kernels);
            let seen = std::thread::scope(|threads| {
                let there = threads.spawn(move || {
                    // Ordered behind the kernel of the other thread, on this thread's own stream.
                    let mut sum = Array::<u32, _>::zeros(&gpu, LEN).unwrap();
                    kernels.add(gpu.stream(), &mut sum, &array, 1, 0);
                    drop(array);
                    sum.to_vec().unwrap()
                });
                let again =
                    scope!(own, { Array::full(&Cuda::with_stream(context.per_thread_stream()).unwrap(), LEN, 77u32) });
                let seen = there.join().unwrap();
                assert_eq!(again.unwrap().to_vec().unwrap(), [77; LEN]);
                seen
            });
            assert_eq!(seen, [round + 1; LEN]);
        }
        let _ = invalidate("own");
    });
}

#[test]
fn memory_for_the_host_is_done_with_when_it_comes() {
    alone(120, || {
        let Some((_gpu, kernels, context)) = gpu() else { return };
        let (a, b) = (context.new_stream().unwrap(), context.new_stream().unwrap());
        for round in 0..20 {
            scope!(for_host, {
                let slow = filled(&kernels, &a, 5, SLOWLY / 10);
                drop(slow);
                // SAFETY: the memory has room for these bytes. Only the copies below use it, and it is freed once.
                unsafe {
                    let memory = result::malloc_sync(4 * LEN).unwrap();
                    let (values, mut found) = (vec![round as u32; LEN], vec![0u32; LEN]);
                    result::memcpy_htod_async(memory, &values, b.cu_stream()).unwrap();
                    b.synchronize().unwrap();
                    a.synchronize().unwrap();
                    result::memcpy_dtoh_sync(&mut found, memory).unwrap();
                    assert_eq!(found, values);
                    result::free_sync(memory).unwrap();
                    assert!(result::free_sync(memory).is_err(), "it was freed before");
                }
            });
        }
        let _ = invalidate("for_host");
    });
}

#[test]
fn memory_of_a_scope_is_copied_to_another_gpu() {
    alone(120, || {
        let Some((_gpu, kernels, context)) = gpu() else { return };
        if CudaContext::device_count().unwrap() < 2 {
            // Where a GPU is required, one GPU is enough.
            eprintln!("SKIPPED: there is one GPU");
            return;
        }
        let other = CudaContext::new(1).unwrap();
        for round in 0..10 {
            scope!(peers, {
                let (here, there) = (context.new_stream().unwrap(), other.new_stream().unwrap());
                context.bind_to_thread().unwrap();
                let source = filled(&kernels, &here, round, 0);
                here.synchronize().unwrap();
                other.bind_to_thread().unwrap();
                let mut target = alloc(&there, LEN);
                there.memcpy_dtod(&source, &mut target).unwrap();
                assert_all(&target, round);
                // And back, from the other GPU's scope.
                context.bind_to_thread().unwrap();
                let mut back = filled(&kernels, &here, 0, 0);
                here.synchronize().unwrap();
                here.memcpy_dtod(&target, &mut back).unwrap();
                assert_all(&back, round);
            });
        }
        assert_eq!(gpucache::stats("peers").unwrap().foreign.passed_on, 0);
        let _ = invalidate("peers");
    });
}

/// Slices of cudarc in a captured scope: the plan serves them in the capture, and the graph uses their memory at each launch.
#[test]
fn a_captured_scope_serves_the_slices_of_cudarc() {
    alone(120, || {
        let Some((gpu, kernels, context)) = gpu() else { return };
        // SAFETY: all slices of this test are used on one stream.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().unwrap();
        let device = Cuda::with_stream(stream.clone()).unwrap();
        let mut result = device.zeros::<u32>(LEN).unwrap();
        let mut scope = gpucache::graph::CapturedScope::new(&device, "captured slices");
        for run in 0..40 {
            let block = |result: &mut Array<u32, Cuda>| {
                let slices: Vec<_> = (0..20).map(|n| filled(&kernels, &stream, 100 + n, 0)).collect();
                stream.memcpy_dtod(&slices[7], result)?;
                Ok::<(), gpucache::Error>(())
            };
            // SAFETY: the block uses its slices and the input only.
            unsafe { scope.run_unchecked((), &mut result, block) }.unwrap();
            assert!(result.to_vec().unwrap().iter().all(|&value| value == 107), "run {run}: {}", scope.stats());
            result.copy_from_slice(&[0; LEN]).unwrap();
        }
        let stats = scope.stats();
        assert!(stats.launches >= 30, "{stats}");
        assert_eq!(gpucache::stats("captured slices").unwrap().foreign.passed_on, 0);
        drop(gpu);
    });
}
