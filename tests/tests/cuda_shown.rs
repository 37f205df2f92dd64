//! Streams that cudarc shows but that have no handle, of any context object; slices and views that are used on streams which nobody
//! announces; and failures that cudarc keeps.
#![cfg(feature = "cuda")]
#![allow(clippy::panic, clippy::unwrap_used, unsafe_code)]

use std::sync::Arc;

use cudarc::driver::sys::CUresult;
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, DriverError, SyncOnDrop, result};
use gpucache::cache_scope as scope;
use gpucache::prelude::*;
use gpucache_tests::conformance::{assert_pattern, pattern, patterned};
use gpucache_tests::gpu::{Gpu, Kernels, SLOWLY};

const LEN: usize = 4096;

/// Keeps a stream busy for a while.
struct Load<'a> {
    kernels: &'a Kernels,
    scratch: CudaSlice<u32>,
}

impl Load<'_> {
    fn new<'a>(gpu: &Gpu, kernels: &'a Kernels) -> Load<'a> {
        let scratch = gpu.cuda.stream().alloc_zeros(LEN).unwrap();
        gpu.cuda.synchronize().unwrap();
        Load { kernels, scratch }
    }

    fn put_on(&mut self, stream: &CudaStream) {
        self.kernels.fill_slice(stream, &mut self.scratch, 1, SLOWLY);
    }
}

fn another_context() -> Arc<CudaContext> {
    CudaContext::new(0).unwrap()
}

/// Late reads by `stream` see this life and not the next one.
fn late_reads_see_their_life(gpu: &Gpu, stream: &Arc<CudaStream>, name: &'static str) {
    let Some(kernels) = gpu.kernels() else { return };
    let mut load = Load::new(gpu, &kernels);
    let mut sink = stream.alloc_zeros::<u32>(LEN).unwrap();
    for round in 0..6 {
        scope!(name = name, {
            let array = patterned(&gpu.cuda, LEN, round).unwrap();
            gpu.cuda.synchronize().unwrap();
            stream.synchronize().unwrap();
            load.put_on(stream);
            match round % 3 {
                0 => stream.memcpy_dtod(&array, &mut sink).unwrap(),
                1 => stream.memcpy_dtod(&array.as_view(), &mut sink).unwrap(),
                _ => stream.memcpy_dtod(&*array, &mut sink).unwrap(),
            }
            drop(array);
            let next = patterned(&gpu.cuda, LEN, 100).unwrap();
            assert_eq!(stream.clone_dtoh(&sink).unwrap(), pattern(round, LEN), "{name}, round {round}");
            assert_pattern(&next, 100);
        });
    }
    let _ = invalidate(name);
    gpu.cuda.trim();
    stream.synchronize().unwrap();
}

#[test]
fn a_stream_of_another_context_object_is_waited_for() {
    let Some(gpu) = Gpu::get() else { return };
    late_reads_see_their_life(&gpu, &another_context().new_stream().unwrap(), "another object");
}

#[test]
fn a_stream_of_the_same_context_object_is_waited_for() {
    let Some(gpu) = Gpu::get() else { return };
    let stream = gpu.cuda.stream().context().new_stream().unwrap();
    late_reads_see_their_life(&gpu, &stream, "the same object");
}

/// A stream that another library made, in a context object that has made no stream. cudarc records no events for it.
#[test]
fn a_borrowed_stream_is_waited_for() {
    let Some(gpu) = Gpu::get() else { return };
    let (owner, borrower) = (another_context().new_stream().unwrap(), another_context());
    // SAFETY: the owner lives longer, and puts no work on the stream.
    let stream = unsafe { borrower.wrap_borrowed_stream(owner.cu_stream()) };
    {
        let array = patterned(&gpu.cuda, LEN, 1).unwrap();
        assert!(matches!(array.device_ptr(&stream).1, SyncOnDrop::Sync(Some(_))));
    }
    let Some(kernels) = gpu.kernels() else { return };
    let mut load = Load::new(&gpu, &kernels);
    let array = patterned(&gpu.cuda, LEN, 1).unwrap();
    gpu.cuda.synchronize().unwrap();
    load.put_on(&owner);
    let copy = stream.clone_dtod(&array).unwrap();
    drop(array);
    let next = patterned(&gpu.cuda, LEN, 2).unwrap();
    assert_eq!(stream.clone_dtoh(&copy).unwrap(), pattern(1, LEN));
    assert_pattern(&next, 2);
}

/// Writes on such a stream come after the earlier work of the array's own stream, and before its later work.
#[test]
fn writes_on_such_a_stream_are_in_order() {
    let Some(gpu) = Gpu::get() else { return };
    let Some(kernels) = gpu.kernels() else { return };
    let home = gpu.new_stream();
    let stream = another_context().new_stream().unwrap();
    let mut load = Load::new(&gpu, &kernels);
    for seed in 0..3 {
        let mut array = Array::<u32, _>::zeros(&home, LEN).unwrap();
        kernels.fill_on(&home, &mut array, 7, SLOWLY);
        stream.memcpy_htod(&pattern(seed, LEN), &mut array).unwrap();
        assert_pattern(&array, seed);
        load.put_on(&stream);
        stream.memcpy_htod(&pattern(seed + 10, LEN), &mut array).unwrap();
        assert_eq!(array.try_clone().unwrap().to_vec().unwrap(), pattern(seed + 10, LEN));
    }
}

/// A view and a slice, each read on two streams. The slow stream comes first.
#[test]
fn a_view_remembers_all_its_readers() {
    let Some(gpu) = Gpu::get() else { return };
    let Some(kernels) = gpu.kernels() else { return };
    let context = gpu.cuda.stream().context();
    let (a, b, c) = (gpu.new_stream(), context.new_stream().unwrap(), context.new_stream().unwrap());
    let mut load = Load::new(&gpu, &kernels);
    let (mut slow, mut fast) = (b.alloc_zeros::<u32>(LEN).unwrap(), c.alloc_zeros::<u32>(LEN).unwrap());
    for round in 0..6 {
        scope!("all its readers", {
            let array = patterned(&a, LEN, round).unwrap();
            context.synchronize().unwrap();
            load.put_on(&b);
            if round % 2 == 0 {
                let view = array.as_view();
                b.memcpy_dtod(&view, &mut slow).unwrap();
                c.memcpy_dtod(&view, &mut fast).unwrap();
            } else {
                let slice: &CudaSlice<u32> = &array;
                b.memcpy_dtod(slice, &mut slow).unwrap();
                c.memcpy_dtod(slice, &mut fast).unwrap();
            }
            drop(array);
            let next = patterned(&a, LEN, 100).unwrap();
            assert_eq!(b.clone_dtoh(&slow).unwrap(), pattern(round, LEN), "the slow reader of round {round}");
            assert_eq!(c.clone_dtoh(&fast).unwrap(), pattern(round, LEN), "the fast reader of round {round}");
            assert_pattern(&next, 100);
        });
    }
    let _ = invalidate("all its readers");
}

/// Work by address on the array's own stream is in order with other work, also once the array has slices.
#[test]
fn work_by_address_is_in_order_with_others() {
    let Some(gpu) = Gpu::get() else { return };
    let Some(kernels) = gpu.kernels() else { return };
    let context = gpu.cuda.stream().context();
    let a = gpu.new_stream();
    let (known, passing) = (gpu.new_stream(), context.new_stream().unwrap());
    let own = a.stream();
    let mut load = Load::new(&gpu, &kernels);
    let (sink, ones) = (own.alloc_zeros::<u32>(LEN).unwrap(), own.clone_htod(&vec![1u32; LEN]).unwrap());
    let (sink_at, ones_at) = (sink.device_ptr(own).0, ones.device_ptr(own).0);
    // SAFETY: both arrays have as many elements.
    let copy = |to, from| unsafe { result::memcpy_dtod_async(to, from, 4 * LEN, own.cu_stream()).unwrap() };
    for (round, stream) in [known.stream(), &passing, known.stream(), &passing].into_iter().enumerate() {
        let mut array = Array::full(&a, LEN, 5u32).unwrap();
        let _: &CudaSlice<u32> = &array;
        context.synchronize().unwrap();
        load.put_on(own);
        copy(sink_at, array.address());
        stream.memset_zeros(&mut array).unwrap();
        context.synchronize().unwrap();
        assert_eq!(own.clone_dtoh(&sink).unwrap(), [5; LEN], "a write overtook a read by address, round {round}");
        load.put_on(own);
        copy(array.address(), ones_at);
        let read = stream.clone_dtod(&array).unwrap();
        context.synchronize().unwrap();
        assert_eq!(stream.clone_dtoh(&read).unwrap(), [1; LEN], "a read overtook a write by address, round {round}");
    }
}

/// A slice of an array that is used on a stream of another object comes behind the work of the array's own stream.
#[test]
fn a_slice_is_behind_the_arrays_own_stream() {
    let Some(gpu) = Gpu::get() else { return };
    let Some(kernels) = gpu.kernels() else { return };
    let stream = another_context().new_stream().unwrap();
    let mut array = Array::<u32, _>::zeros(&gpu.cuda, LEN).unwrap();
    // This call shows the stream.
    drop(stream.clone_dtod(&array).unwrap());
    for value in 1..4 {
        kernels.fill_on(&gpu.cuda, &mut array, value, SLOWLY);
        assert_eq!(stream.clone_dtoh(&*array).unwrap(), [value; LEN]);
    }
}

/// An array that was made from a slice, and is announced to be written elsewhere, still has the slice's memory.
#[test]
fn an_adopted_array_is_written_elsewhere() {
    let Some(gpu) = Gpu::get() else { return };
    let other = gpu.new_stream();
    let slice = gpu.cuda.stream().clone_htod(&pattern(1, LEN)).unwrap();
    let mut array = Array::try_from(slice).unwrap();
    array.announce_write(&other).unwrap();
    gpu.cuda.synchronize().unwrap();
    // Otherwise the driver's pool would return the memory again.
    let others = [(); 4].map(|()| gpu.cuda.stream().clone_htod(&pattern(9, LEN)).unwrap());
    assert_pattern(&array, 1);
    drop(others);
}

/// A failure that cudarc kept is returned once, by the next call that can return it, and not by a call that checks something else.
#[test]
fn a_kept_failure_is_told_once() {
    let Some(gpu) = Gpu::get() else { return };
    let context = another_context();
    let stream = Cuda::with_stream(context.new_stream().unwrap()).unwrap();
    let keep = || context.record_err::<()>(Err(DriverError(CUresult::CUDA_ERROR_INVALID_HANDLE)));
    keep();
    let error = stream.synchronize().unwrap_err();
    assert!(error.is_deferred() && error.to_string().contains("an earlier call of cudarc"), "{error}");
    stream.synchronize().unwrap();
    keep();
    let error = scope!("kept", { Array::<u8, _>::zeros(&stream, 1 << 20) }).unwrap_err();
    assert!(error.is_deferred() && error.to_string().contains("an earlier call of cudarc"), "{error}");
    let array = scope!("kept", { Array::<u8, _>::zeros(&stream, 1 << 20).unwrap() });
    keep();
    // A use on another stream is ordered nonetheless.
    drop(gpu.cuda.stream().clone_dtod(&array).unwrap());
    drop(array);
    assert!(stream.synchronize().is_err() && stream.synchronize().is_ok());
    let _ = invalidate("kept");
}
