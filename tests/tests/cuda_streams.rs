//! Several streams of a GPU: memory changes hands only behind the work that still uses it, on whatever stream.
//!
//! Kernels wait first, so every wrong order shows in the contents.
#![cfg(feature = "cuda")]
#![allow(clippy::panic, clippy::unwrap_used, unsafe_code)]

use gpucache::prelude::*;
use gpucache::{cache_scope as scope, uncached};
use gpucache_tests::conformance::{assert_pattern, hits_and_supplies, pattern, patterned};
use gpucache_tests::gpu::{Gpu, Kernels, SLOWLY, address};

const LEN: usize = 4096;

/// A GPU with kernels and two streams of their own.
struct Two {
    gpu: Gpu,
    kernels: Kernels,
    a: Cuda,
    b: Cuda,
}

fn two_streams() -> Option<Two> {
    let gpu = Gpu::get()?;
    let kernels = gpu.kernels()?;
    let (a, b) = (gpu.new_stream(), gpu.new_stream());
    Some(Two { gpu, kernels, a, b })
}

/// The elements of `pattern(seed)` with `value` added.
fn added(seed: u32, value: u32) -> Vec<u32> {
    pattern(seed, LEN).into_iter().map(|element| element.wrapping_add(value)).collect()
}

fn zeros(stream: &Cuda) -> Array<u32, Cuda> {
    Array::zeros(stream, LEN).unwrap()
}

#[test]
fn a_reader_on_another_stream_is_waited_for() {
    let Some(Two { gpu: _gpu, kernels, a, b }) = two_streams() else { return };
    let name = "a reader elsewhere";
    for round in 0..4 {
        let mut out = uncached!({ zeros(&b) });
        b.synchronize().unwrap();
        let place = scope!(name = name, {
            let array = patterned(&a, LEN, round).unwrap();
            kernels.add(b.stream(), &mut out, &array, 1, SLOWLY);
            address(&array)
        });
        scope!(name = name, {
            // Each kind of first use in the next life.
            let next = match round {
                0 => patterned(&a, LEN, 100).unwrap(),
                1 => zeros(&a),
                2 => {
                    let source = uncached!({ patterned(&a, LEN, 100).unwrap() });
                    source.try_clone().unwrap()
                }
                _ => {
                    // SAFETY: the kernel writes every element.
                    let mut next = unsafe { Array::<u32, _>::uninit(&a, LEN).unwrap() };
                    kernels.fill(a.stream(), &mut next, 5, 0);
                    next
                }
            };
            assert_eq!(address(&next), place, "the block was recycled while it was read");
        });
        assert_eq!(out.to_vec().unwrap(), added(round, 1), "round {round}");
    }
    assert_eq!(hits_and_supplies(name), (7, 1));
    let _ = invalidate(name);
}

#[test]
fn a_writer_on_another_stream_is_waited_for() {
    let Some(Two { gpu: _gpu, kernels, a, b }) = two_streams() else { return };
    let name = "a writer elsewhere";
    scope!(name = name, {
        let mut array = zeros(&a);
        a.synchronize().unwrap();
        kernels.fill(b.stream(), &mut array, 7, SLOWLY);
        assert_eq!(array.to_vec().unwrap(), [7; LEN], "read after it was written");
        kernels.fill(b.stream(), &mut array, 8, SLOWLY);
        assert_eq!(array.try_clone().unwrap().to_vec().unwrap(), [8; LEN], "cloned after it was written");
        kernels.fill(b.stream(), &mut array, 9, SLOWLY);
        array.copy_from_slice(&pattern(1, LEN)).unwrap();
        assert_pattern(&array, 1);
        kernels.fill(b.stream(), &mut array, 10, SLOWLY);
        drop(array);
        let next = patterned(&a, LEN, 2).unwrap();
        b.synchronize().unwrap();
        assert_pattern(&next, 2);
    });
    let _ = invalidate(name);
}

#[test]
fn freed_memory_is_not_in_use_elsewhere() {
    let Some(Two { gpu: _gpu, kernels, a, b }) = two_streams() else { return };
    for seed in 0..4 {
        let mut out = zeros(&b);
        b.synchronize().unwrap();
        let array = scope!("freed", { patterned(&a, LEN, seed).unwrap() });
        kernels.add(b.stream(), &mut out, &array, 1, SLOWLY);
        drop(array);
        let _ = invalidate("freed");
        // The driver's pool returns the same memory again, if it may.
        let others = [(); 4].map(|()| patterned(&a, LEN, 100).unwrap());
        assert_eq!(out.to_vec().unwrap(), added(seed, 1));
        others.iter().for_each(|other| assert_pattern(other, 100));
    }
}

#[test]
fn a_view_that_was_made_on_one_stream_orders_several() {
    let Some(gpu) = Gpu::get() else { return };
    let Some(kernels) = gpu.kernels() else { return };
    let name = "made on one stream";
    // The arrays are made, written and lent as slices while there is only one stream.
    let kept = scope!(name = name, { [1, 2].map(|seed| patterned(&gpu.cuda, LEN, seed).unwrap()) });
    let _ = kept[0].as_view();
    let b = gpu.new_stream();
    let mut outs = [zeros(&b), zeros(&b)];
    b.synchronize().unwrap();
    for (out, array) in outs.iter_mut().zip(&kept) {
        kernels.add(b.stream(), out, array, 1, SLOWLY);
    }
    drop(kept);
    let next = scope!(name = name, { [3, 4].map(|seed| patterned(&gpu.cuda, LEN, seed).unwrap()) });
    assert_eq!(hits_and_supplies(name), (2, 2));
    assert_eq!(outs.map(|out| out.to_vec().unwrap()), [added(1, 1), added(2, 1)]);
    next.iter().zip(3..).for_each(|(array, seed)| assert_pattern(array, seed));
    drop(next);
    let _ = invalidate(name);
}

/// The first use on the array's own stream is slow. Another stream that reads the array waits for it.
#[test]
fn another_stream_waits_for_the_arrays_own() {
    let Some(Two { gpu: _gpu, kernels, a, b }) = two_streams() else { return };
    for _ in 0..2 {
        scope!("the own stream first", {
            let mut array = zeros(&a);
            kernels.fill(a.stream(), &mut array, 3, SLOWLY);
            let mut out = zeros(&b);
            kernels.add(b.stream(), &mut out, &array, 4, 0);
            assert_eq!(out.to_vec().unwrap(), [7; LEN]);
            // The same with a copy by cudarc.
            kernels.fill(a.stream(), &mut array, 5, SLOWLY);
            b.stream().memcpy_dtod(&array, &mut out).unwrap();
            assert_eq!(out.to_vec().unwrap(), [5; LEN]);
        });
    }
    let _ = invalidate("the own stream first");
}

/// Other streams see the effects of `zeros` and `from_slice` in a recycled block's new life.
#[test]
fn another_stream_waits_for_constructors() {
    let Some(Two { gpu: _gpu, kernels, a, b }) = two_streams() else { return };
    for seed in 0..3 {
        scope!("constructors", {
            let mut slow = zeros(&a);
            kernels.fill(a.stream(), &mut slow, 1, SLOWLY);
            // Ordered behind the slow kernel on `a`, which `b` does not know.
            let array = Array::full(&a, LEN, seed).unwrap();
            let mut out = zeros(&b);
            kernels.add(b.stream(), &mut out, &array, 10, 0);
            assert_eq!(out.to_vec().unwrap(), [seed + 10; LEN]);
        });
    }
    let _ = invalidate("constructors");
}

/// Two streams read at once, and the slow one comes first. Both are waited for.
#[test]
fn two_readers_on_two_streams_are_waited_for() {
    let Some(Two { gpu, kernels, a, b }) = two_streams() else { return };
    let c = gpu.new_stream();
    let name = "two readers elsewhere";
    let (mut slow, mut fast) = (zeros(&b), zeros(&c));
    for stream in [&b, &c] {
        stream.synchronize().unwrap();
    }
    let array = scope!(name = name, { patterned(&a, LEN, 1).unwrap() });
    kernels.add(b.stream(), &mut slow, &array, 1, SLOWLY);
    kernels.add(c.stream(), &mut fast, &array, 2, 0);
    drop(array);
    let next = scope!(name = name, { patterned(&a, LEN, 2).unwrap() });
    assert_eq!(hits_and_supplies(name), (1, 1));
    assert_eq!(fast.to_vec().unwrap(), added(1, 2));
    assert_eq!(slow.to_vec().unwrap(), added(1, 1), "the slow reader");
    assert_pattern(&next, 2);
    drop(next);
    let _ = invalidate(name);
}

/// A slice that an array became is freed behind the readers of the array.
#[test]
fn an_array_that_leaves_as_a_slice_is_waited_for() {
    let Some(Two { gpu: _gpu, kernels, a, b }) = two_streams() else { return };
    for seed in 0..4 {
        let mut out = zeros(&b);
        b.synchronize().unwrap();
        let array = uncached!({ patterned(&a, LEN, seed).unwrap() });
        kernels.add_on(&b, &mut out, &array, 1, SLOWLY);
        let slice: cudarc::driver::CudaSlice<u32> = array.try_into().unwrap();
        drop(slice);
        // The driver's pool returns the same memory again, if it may.
        let others = uncached!({ [(); 4].map(|()| patterned(&a, LEN, 100).unwrap()) });
        assert_eq!(out.to_vec().unwrap(), added(seed, 1));
        others.iter().for_each(|other| assert_pattern(other, 100));
    }
}

/// A copy that shows its stream waits for an announced reader, which the array's slice does not know.
#[test]
fn an_announced_reader_is_waited_for_by_a_copy() {
    let Some(Two { gpu, kernels, a, b }) = two_streams() else { return };
    let c = gpu.new_stream();
    let mut out = zeros(&b);
    b.synchronize().unwrap();
    let mut array = patterned(&a, LEN, 1).unwrap();
    let _ = array.as_view();
    array.announce_read(&b).unwrap();
    kernels.add_at(b.stream(), &mut out, array.address(), 1, SLOWLY);
    c.stream().memcpy_htod(&pattern(2, LEN), &mut array).unwrap();
    assert_eq!(out.to_vec().unwrap(), added(1, 1));
    assert_pattern(&array, 2);
}

/// More streams read at once than a slice can distinguish, and then one stream writes. It waits for all of them, and so does the
/// next life.
#[test]
fn many_readers_are_waited_for() {
    let Some(Two { gpu, kernels, a, b }) = two_streams() else { return };
    let streams: Vec<Cuda> = (0..20).map(|_| gpu.new_stream()).collect();
    let name = "many readers elsewhere";
    for round in 0..2 {
        let mut outs: Vec<_> = streams.iter().map(zeros).collect();
        streams.iter().for_each(|stream| stream.synchronize().unwrap());
        let mut array = scope!(name = name, { patterned(&a, LEN, round).unwrap() });
        for (stream, (out, number)) in streams.iter().zip(outs.iter_mut().zip(0..)) {
            // The first readers are the slow ones.
            kernels.add(stream.stream(), out, &array, number, if number < 4 { SLOWLY } else { 0 });
        }
        if round == 0 {
            kernels.fill(b.stream(), &mut array, 7, 0);
        }
        drop(array);
        let next = scope!(name = name, { patterned(&a, LEN, 50).unwrap() });
        for (out, number) in outs.iter().zip(0..) {
            assert_eq!(out.to_vec().unwrap(), added(round, number), "reader {number} of round {round}");
        }
        b.synchronize().unwrap();
        assert_pattern(&next, 50);
    }
    let _ = invalidate(name);
}

/// A stream is dropped while its kernel still reads. The work goes on, and is waited for.
#[test]
fn a_reader_on_a_stream_that_is_gone_is_waited_for() {
    let Some(gpu) = Gpu::get() else { return };
    let Some(kernels) = gpu.kernels() else { return };
    let name = "a reader that is gone";
    let mut out = zeros(&gpu.cuda);
    let array = scope!(name = name, { patterned(&gpu.cuda, LEN, 1).unwrap() });
    gpu.cuda.synchronize().unwrap();
    let stream = gpu.cuda.stream().context().new_stream().unwrap();
    kernels.add(&stream, &mut out, &array, 1, SLOWLY);
    drop(stream);
    assert!(!gpu.cuda.stream().context().is_in_multi_stream_mode());
    drop(array);
    let next = scope!(name = name, { patterned(&gpu.cuda, LEN, 2).unwrap() });
    assert_eq!(hits_and_supplies(name), (1, 1));
    gpu.cuda.stream().context().synchronize().unwrap();
    assert_eq!(out.to_vec().unwrap(), added(1, 1));
    assert_pattern(&next, 2);
    drop(next);
    let _ = invalidate(name);
}

/// A thread drops an array of stream `a`, in order, while another thread's stream reads it.
#[test]
fn threads_with_a_stream_each_exchange_arrays() {
    let Some(Two { gpu: _gpu, kernels, a, b }) = two_streams() else { return };
    let (sender, receiver) = std::sync::mpsc::channel::<(u32, Array<u32, Cuda>)>();
    std::thread::scope(|threads| {
        let reader = threads.spawn(|| {
            for (seed, array) in receiver {
                scope!("exchange, reader", {
                    let mut out = zeros(&b);
                    kernels.add(b.stream(), &mut out, &array, 1, SLOWLY / 20);
                    drop(array);
                    assert_eq!(out.to_vec().unwrap(), added(seed, 1));
                });
            }
        });
        scope!("exchange, writer", {
            for seed in 0..200 {
                sender.send((seed, patterned(&a, LEN, seed).unwrap())).unwrap();
            }
        });
        drop(sender);
        reader.join().unwrap();
    });
    let _ = (invalidate("exchange, reader"), invalidate("exchange, writer"));
}

/// If cudarc's object had made the streams of the copies, cudarc would make each launch wait for events of its arguments, and
/// record some.
#[test]
fn what_leaves_the_gpu_makes_no_launch_dearer() {
    // Kept alive, since other tests make streams with the object that they find.
    let Some(_gpu) = Gpu::get() else { return };
    // An object of its own, whose streams are not those of other tests.
    let context = gpucache::cudarc::driver::CudaContext::new(0).unwrap();
    let gpu = Cuda::with_stream(context.default_stream()).unwrap();
    let contents = vec![7u8; 1 << 20];
    let array = gpucache::offload::Placed::new(Array::from_slice(&gpu, 1 << 20, &contents).unwrap()).unwrap();
    array.set_placement(gpucache::offload::Placement::Host).unwrap();
    assert_eq!(array.to_vec().unwrap(), contents);
    assert!(!context.is_in_multi_stream_mode(), "a stream for copies was made by the program's object");
}
