//! Captured scopes on CUDA under misuse, over the made-up driver or a GPU.
#![cfg(feature = "cuda")]
#![allow(clippy::unwrap_used)]

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;

use gpucache::graph::CapturedScope;
use gpucache::prelude::*;
use gpucache::{Result, Scope};
use gpucache_tests::captured::Adds;
use gpucache_tests::gpu::Gpu;
use gpucache_tests::meanwhile::End;

const LEN: usize = 4096;

/// `x + value`, by way of an array of the plan.
fn sum(x: &Array<u32, Cuda>, value: u32) -> Result<Array<u32, Cuda>> {
    sum_on(&x.device().clone(), x, value)
}

fn sum_on(gpu: &Cuda, x: &Array<u32, Cuda>, value: u32) -> Result<Array<u32, Cuda>> {
    let mut first = gpu.zeros(x.len())?;
    gpu.add(&mut first, x, value)?;
    let mut second = gpu.zeros(x.len())?;
    gpu.add(&mut second, &first, 0)?;
    Ok(second)
}

/// Writes an array again and again. Returns how many writes were lost although they returned no error.
fn write_until(is_over: &AtomicBool, gpu: &Cuda) -> u32 {
    let (mut lost, mut number) = (0, 0);
    // A stream that is captured serves no array beside the plan.
    let mut array = std::iter::repeat_with(|| Array::full(gpu, LEN, 0u32)).find_map(Result::ok).unwrap();
    while !is_over.load(Relaxed) {
        number += 1;
        if array.copy_from_slice(&vec![number; LEN]).is_ok() {
            // A stream that is captured cannot be waited for.
            let values = std::iter::repeat_with(|| array.to_vec()).find_map(Result::ok).unwrap();
            lost += u32::from(values != vec![number; LEN]);
        }
    }
    lost
}

/// Another thread works on the stream all the time. Its work is done, or gets an error.
#[test]
fn work_of_another_thread_on_the_stream_is_not_lost() {
    let Some(gpu) = Gpu::get() else { return };
    let (stream, is_over) = (gpu.new_stream(), AtomicBool::new(false));
    std::thread::scope(|threads| {
        let writing = threads.spawn(|| write_until(&is_over, &stream));
        let end = End(&is_over);
        let mut scope = CapturedScope::new(&stream, "cuda attack: another thread");
        for number in 0..300 {
            if number % 10 == 0 {
                scope.clear();
            }
            let input = Array::full(&stream, LEN, number).unwrap();
            let output = scope.run((), &input, |input| {
                std::thread::yield_now();
                sum(input, 1)
            });
            assert_eq!(output.unwrap().to_vec().unwrap(), vec![number + 1; LEN], "{}", scope.stats());
        }
        drop(end);
        assert_eq!(writing.join().unwrap(), 0);
    });
}

/// A launch of a graph by another thread is refused while the driver captures the stream: it would become a part of the captured work.
#[test]
fn a_graph_of_another_thread_is_no_part_of_the_captured_work() {
    let Some(gpu) = Gpu::get() else { return };
    let stream = &gpu.new_stream();
    std::thread::scope(|threads| {
        let ((ask, asked), (answer, answered)) = (channel(), channel());
        threads.spawn(move || {
            let input = Array::full(stream, LEN, 1u32).unwrap();
            let (graph, _copy) = stream.capture(|| input.try_clone()).unwrap();
            asked.iter().for_each(|()| answer.send(graph.launch()).unwrap());
        });
        let launch = || {
            ask.send(()).unwrap();
            answered.recv().unwrap()
        };
        launch().unwrap();
        let (mut scope, mut refused) = (CapturedScope::new(stream, "cuda attack: a graph of another thread"), 0);
        for number in 0..12 {
            let input = Array::full(stream, LEN, number).unwrap();
            let output = scope.run((), &input, |input| {
                refused += u32::from(launch().is_err_and(|error| error.is_unavailable()));
                sum(input, 1)
            });
            assert_eq!(output.unwrap().to_vec().unwrap(), vec![number + 1; LEN]);
        }
        assert!(refused > 0 && scope.stats().launches > 0, "{refused}, {}", scope.stats());
    });
}

#[test]
fn work_on_another_stream_is_not_forgotten() {
    let Some(gpu) = Gpu::get() else { return };
    let (stream, other) = (gpu.new_stream(), gpu.new_stream());
    let mut scope = CapturedScope::new(&stream, "cuda attack: other stream");
    let mut count = Array::full(&other, LEN, 0u32).unwrap();
    let one = Array::full(&other, LEN, 0u32).unwrap();
    let input = Array::full(&stream, LEN, 1u32).unwrap();
    for number in 1..12 {
        let output = scope
            .run((), (&input, &mut count), |(input, count)| {
                other.add(count, &one, number)?;
                sum(input, 1)
            })
            .unwrap();
        assert_eq!(output.to_vec().unwrap(), [2; LEN]);
        assert_eq!(count.to_vec().unwrap(), [number; LEN], "{}", scope.stats());
    }
}

/// `input + add`, computed on a stream that is not the array's.
fn elsewhere(gpu: &Cuda, input: &Array<u32, Cuda>, add: u32) -> Vec<u32> {
    let mut output = gpu.zeros::<u32>(LEN).unwrap();
    gpu.add(&mut output, input, add).unwrap();
    output.to_vec().unwrap()
}

#[test]
fn inputs_of_another_stream() {
    let Some(gpu) = Gpu::get() else { return };
    let (stream, other) = (gpu.new_stream(), gpu.new_stream());
    let mut scope = CapturedScope::new(&stream, "cuda attack: inputs of another stream");
    let mut state = Array::full(&other, LEN, 0u32).unwrap();
    let input = Array::full(&other, LEN, 5u32).unwrap();
    for number in 1..40u32 {
        let output = scope.run((), (&input, &mut state), |(input, state)| {
            let next = sum_on(&stream, state, 1)?;
            stream.add(state, &next, 0)?;
            sum_on(&stream, input, 1)
        });
        assert_eq!(elsewhere(&other, &output.unwrap(), 1), [7; LEN]);
        assert_eq!(elsewhere(&other, &state, 0), [number; LEN]);
    }
    assert!(scope.stats().launches > 25, "{}", scope.stats());
}

/// The block swaps its input with another array, or drops it.
#[test]
fn a_block_that_swaps_its_input() {
    let Some(gpu) = Gpu::get() else { return };
    let stream = gpu.new_stream();
    let mut scope = CapturedScope::new(&stream, "cuda attack: swaps");
    let mut state = Array::full(&stream, LEN, 0u32).unwrap();
    let mut spares: Vec<_> = (0..200).map(|_| Array::full(&stream, LEN, 77u32).unwrap()).collect();
    let zero = Array::full(&stream, LEN, 3u32).unwrap();
    for _ in 0..20 {
        let done = scope.run((), (&mut state, &zero), |(state, zero)| {
            stream.add(state, zero, 1)?;
            *state = spares.pop().unwrap();
            Ok::<_, gpucache::Error>(())
        });
        // The run that captures it had no effect, and cannot be done again.
        assert!(done.is_ok() || done.unwrap_err().is_unavailable());
        let victim = Array::full(&stream, LEN, 5u32).unwrap();
        assert_eq!(victim.to_vec().unwrap(), [5; LEN]);
        let value = state.to_vec().unwrap()[0];
        assert!(value == 77 || value == 4, "{value}");
    }
}

/// An array of a scope with a plan.
fn planned(gpu: &Cuda) -> Array<u32, Cuda> {
    let _inside = Scope::new("cuda attack: drops, other").enter();
    drop(gpu.zeros::<u32>(LEN).unwrap());
    let array = Array::full(gpu, LEN, 9u32).unwrap();
    drop(gpu.zeros::<u32>(2 * LEN).unwrap());
    array
}

/// The block drops arrays that it did not allocate, of several streams, of which some were used by the stream that is captured.
#[test]
fn a_block_that_drops_arrays_of_others() {
    let Some(gpu) = Gpu::get() else { return };
    let (stream, other) = (gpu.new_stream(), gpu.new_stream());
    let mut scope = CapturedScope::new(&stream, "cuda attack: drops");
    let input = Array::full(&stream, LEN, 1u32).unwrap();
    for number in 0..40 {
        let plain = |gpu: &Cuda, len| Array::full(gpu, len, 9u32).unwrap();
        let arrays = [plain(&stream, 100 * LEN), plain(&other, LEN), planned(&stream), planned(&other)];
        let mut used = stream.zeros::<u32>(LEN).unwrap();
        arrays[1..].iter().for_each(|array| stream.add(&mut used, array, 1).unwrap());
        let mut arrays = Some(arrays);
        let output = scope.run((), &input, |input| {
            drop(arrays.take());
            sum(input, 1)
        });
        let new = [Array::full(&other, LEN, 4u32).unwrap(), Array::full(&other, 100 * LEN, 4u32).unwrap()];
        assert_eq!(output.unwrap().to_vec().unwrap(), [2; LEN], "{number}");
        assert_eq!(used.to_vec().unwrap(), [10; LEN], "{number}");
        new.iter().for_each(|new| assert!(new.to_vec().unwrap().iter().all(|&value| value == 4), "{number}"));
    }
    assert!(scope.stats().launches > 30, "{}", scope.stats());
}

/// Another thread allocates while an executable is made.
#[test]
fn executables_count_their_own_memory_only() {
    let Some(gpu) = Gpu::get() else { return };
    let stream = gpu.new_stream();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let (other, is_over) = (gpu.new_stream(), &is_over);
        threads.spawn(move || {
            while !is_over.load(Relaxed) {
                drop(other.zeros::<u8>(64 << 20));
                // The driver frees memory behind the work of the stream. On a busy machine that work would use up the device.
                let _ = other.synchronize();
                other.trim();
            }
        });
        let _end = End(is_over);
        let mut scope = CapturedScope::new(&stream, "cuda attack: bytes");
        let input = Array::full(&stream, LEN, 1u32).unwrap();
        let mut most = 0;
        for number in 0..600 {
            if number % 6 == 0 {
                scope.clear();
            }
            drop(scope.run((), &input, |input| sum(input, 1)).unwrap());
            most = most.max(scope.stats().executable_bytes);
        }
        // Two looks at a device that others use are never exact, so there is a bound.
        assert!(most <= 17 << 20, "{most}");
    });
}

/// Threads capture all the time. Requests of other threads look for memory that the captured streams freed.
#[test]
fn requests_meet_the_captures_of_other_threads() {
    let Some(gpu) = Gpu::get() else { return };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let end = End(&is_over);
        for number in 0..2 {
            let (stream, is_over) = (gpu.new_stream(), &is_over);
            threads.spawn(move || {
                let mut random = number;
                while !is_over.load(Relaxed) {
                    random = (random * 69_069 + 1) % 1009;
                    let array = Array::full(&stream, LEN * (random + 1), 1u32).unwrap();
                    drop(array);
                    if random % 8 == 0 {
                        stream.trim();
                    }
                }
            });
        }
        let capturing: Vec<_> = (0..3u32)
            .map(|number| {
                let stream = gpu.new_stream();
                threads.spawn(move || {
                    let mut scope = CapturedScope::new(&stream, "cuda attack: captures all the time");
                    for run in 0..600 {
                        if run % 6 == 0 {
                            scope.clear();
                        }
                        let input = Array::full(&stream, LEN * (1 + (run / 6) as usize % 64), number).unwrap();
                        let output = scope.run(input.len(), &input, |input| sum(input, 1)).unwrap();
                        assert_eq!(output.to_vec().unwrap(), vec![number + 1; input.len()], "{}", scope.stats());
                    }
                    scope.stats().captures
                })
            })
            .collect();
        // Idle memory of one thread's graphs may serve the others, so a single thread may capture nothing.
        let captures: u64 = capturing.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert!(captures > 0);
        drop(end);
    });
}

/// Each key is used a few times only, as sequence lengths are.
#[test]
fn keys_without_end() {
    let Some(gpu) = Gpu::get() else { return };
    let stream = gpu.new_stream();
    let mut scope = CapturedScope::new(&stream, "cuda attack: keys");
    for key in 0..1000usize {
        for _ in 0..5 {
            let input = Array::full(&stream, LEN, 1u32).unwrap();
            drop(scope.run(key, &input, |input| sum(input, 1)).unwrap());
        }
    }
    let stats = scope.stats();
    assert!(stats.graphs <= 256, "{stats}");
}

/// A block that now needs more arrays than the plan has.
#[test]
fn a_refusal_says_why() {
    let Some(gpu) = Gpu::get() else { return };
    let stream = gpu.new_stream();
    let mut scope = CapturedScope::new(&stream, "cuda attack: refusal");
    let input = Array::full(&stream, LEN, 1u32).unwrap();
    for number in 0..8 {
        let output = scope.run((), &input, |input| {
            let _more = (number >= 3).then(|| stream.zeros::<u32>(10 * LEN + number)).transpose()?;
            sum(input, 1)
        });
        assert_eq!(output.unwrap().to_vec().unwrap(), [2; LEN]);
    }
    let why = scope.stats().last_refusal.unwrap();
    assert!(why.contains("the scope's plan did not serve all arrays"), "{why}");
}
