//! Arrays on a GPU as cudarc sees them: slices, kernel arguments, copies, cuBLAS, conversions, contexts and handles.
#![cfg(feature = "cuda")]
#![allow(clippy::panic, clippy::unwrap_used, unsafe_code)]

use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use cudarc::cublas::sys::cublasOperation_t::CUBLAS_OP_N;
use cudarc::cublas::{CudaBlas, Gemm, GemmConfig};
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, DeviceSlice, SyncOnDrop};
use gpucache::prelude::*;
use gpucache::{Result, stats};
use gpucache_tests::conformance::{assert_pattern, hits_and_supplies, pattern, patterned};
use gpucache_tests::gpu::{Gpu, address, library_is_there};
use gpucache_tests::supplied;

const LEN: usize = 5000;

#[test]
fn a_gpu_that_is_not_there_is_unavailable() {
    // A process looks for the driver only once, and this may be its first test.
    let _gpu = Gpu::get();
    for ordinal in [99, i32::MAX as usize, 1 << 32, usize::MAX] {
        match Cuda::new(ordinal) {
            Err(error) => assert!(error.is_unavailable(), "{ordinal}: {error}"),
            Ok(found) => panic!("there is no GPU {ordinal}, and yet: {found:?}"),
        }
    }
}

#[test]
fn arrays_deref_to_slices() {
    let Some(gpu) = Gpu::get() else { return };
    let array = patterned(&gpu.cuda, LEN, 1).unwrap();
    let slice: &CudaSlice<u32> = &array;
    assert_eq!((slice.len(), slice.num_bytes()), (LEN, 4 * LEN));
    assert_eq!(gpu.cuda.stream().clone_dtoh(slice).unwrap(), pattern(1, LEN));
    assert_eq!(DeviceSlice::len(&array), LEN);
    assert_eq!(DeviceSlice::stream(&array), gpu.cuda.stream());
}

#[test]
fn arrays_are_kernel_arguments() {
    let Some(gpu) = Gpu::get() else { return };
    let Some(kernels) = gpu.kernels() else { return };
    let stream = gpu.cuda.stream();
    for round in 0..3 {
        gpucache::cache_scope!("kernel arguments", {
            let input = patterned(&gpu.cuda, LEN, 2).unwrap();
            // SAFETY: the kernel writes every element.
            let mut out = unsafe { Array::<u32, _>::uninit(&gpu.cuda, LEN).unwrap() };
            kernels.add(stream, &mut out, &input, 7, 0);
            let expected: Vec<u32> = pattern(2, LEN).iter().map(|value| value.wrapping_add(7)).collect();
            assert_eq!(out.to_vec().unwrap(), expected);
        });
        assert_eq!(hits_and_supplies("kernel arguments"), (2 * round, 2));
    }
    let _ = invalidate("kernel arguments");
}

/// Whether a use of the array on a stream leaves an event to record, or a stream to wait for.
fn leaves_something(array: &Array<u32, Cuda>, stream: &CudaStream) -> bool {
    !matches!(array.device_ptr(stream).1, SyncOnDrop::Record(None))
}

#[test]
fn only_streams_without_a_handle_leave_events() {
    let Some(gpu) = Gpu::get() else { return };
    let array = patterned(&gpu.cuda, LEN, 3).unwrap();
    assert!(!gpu.cuda.stream().context().is_in_multi_stream_mode(), "another test left a stream behind");
    let before = gpu.cuda.ordering();
    assert!(!leaves_something(&array, gpu.cuda.stream()));
    let other = gpu.new_stream();
    assert!(!leaves_something(&array, gpu.cuda.stream()), "on its own stream");
    assert_eq!(gpu.cuda.ordering(), before, "one stream needs no order");
    assert!(!leaves_something(&array, other.stream()), "the block knows this one");
    assert!(gpu.cuda.ordering().events > before.events);
    let passing = gpu.cuda.stream().context().new_stream().unwrap();
    assert!(leaves_something(&array, &passing));
    assert_pattern(&array, 3);
    no_error_was_kept(&gpu);
}

fn copies(gpu: &Gpu) -> Result<()> {
    let stream = gpu.cuda.stream();
    let mut array = patterned(&gpu.cuda, LEN, 4)?;
    let mut other = Array::<u32, _>::zeros(&gpu.cuda, LEN)?;
    stream.memcpy_dtod(&array, &mut other).unwrap();
    assert_pattern(&other, 4);
    stream.memcpy_htod(&pattern(5, LEN), &mut array).unwrap();
    assert_pattern(&array, 5);
    assert_pattern(&other, 4);
    let mut values = vec![0; LEN];
    stream.memcpy_dtoh(&other, &mut values).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(values, pattern(4, LEN));
    let slice = stream.clone_dtod(&array).unwrap();
    stream.memset_zeros(&mut array).unwrap();
    assert_eq!(array.to_vec()?, [0; LEN]);
    stream.memcpy_dtod(&slice, &mut array).unwrap();
    assert_pattern(&array, 5);
    Ok(())
}

#[test]
fn arrays_are_copied_by_cudarc() {
    let Some(gpu) = Gpu::get() else { return };
    copies(&gpu).unwrap();
    let _several = gpu.new_stream();
    copies(&gpu).unwrap();
}

#[test]
fn pinned_memory_may_be_changed_after_a_copy() {
    let Some(gpu) = Gpu::get() else { return };
    let len = 1 << 22;
    // SAFETY: the memory is written before it is read.
    let mut pinned = unsafe { gpu.cuda.stream().context().alloc_pinned::<u32>(len).unwrap() };
    pinned.as_mut_slice().unwrap().copy_from_slice(&pattern(6, len));
    let mut array = Array::<u32, _>::zeros(&gpu.cuda, len).unwrap();
    array.copy_from_slice(pinned.as_slice().unwrap()).unwrap();
    pinned.as_mut_slice().unwrap().fill(0);
    assert_pattern(&array, 6);
}

#[test]
fn arrays_are_matrices_for_cublas() {
    let Some(gpu) = Gpu::get() else { return };
    if !library_is_there("cuBLAS") {
        return;
    }
    let blas = CudaBlas::new(gpu.cuda.stream().clone()).unwrap();
    for _ in 0..2 {
        gpucache::cache_scope!("matrices", {
            // By columns: [1 3 5; 2 4 6] times [1 0; 0 1; 1 1].
            let a = Array::from_slice(&gpu.cuda, [3, 2], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
            let b = Array::from_slice(&gpu.cuda, [2, 3], &[1.0f32, 0.0, 1.0, 0.0, 1.0, 1.0]).unwrap();
            let mut c = Array::full(&gpu.cuda, [2, 2], 100.0f32).unwrap();
            let (m, n, k) = (2, 2, 3);
            let (transa, transb) = (CUBLAS_OP_N, CUBLAS_OP_N);
            let config = GemmConfig { transa, transb, m, n, k, alpha: 2.0, lda: 2, ldb: 3, beta: 1.0, ldc: 2 };
            // SAFETY: 2 by 3 times 3 by 2 elements into 2 by 2, all without gaps.
            unsafe { blas.gemm(config, &a, &b, &mut c) }.unwrap();
            assert_eq!(c.to_vec().unwrap(), [112.0, 116.0, 116.0, 120.0]);
        });
    }
    assert_eq!(hits_and_supplies("matrices"), (3, 3));
    let _ = invalidate("matrices");
}

#[test]
fn arrays_have_views() {
    let Some(gpu) = Gpu::get() else { return };
    let stream = gpu.cuda.stream();
    let mut array = Array::<u32, _>::zeros(&gpu.cuda, 10).unwrap();
    stream.memcpy_htod(&[1; 10], &mut array.as_view_mut()).unwrap();
    stream.memcpy_htod(&[2; 3], &mut array.try_slice_mut(4..7).unwrap()).unwrap();
    assert!(array.try_slice_mut(8..11).is_none() && array.try_split_at_mut(11).is_none());
    assert!(array.try_slice_mut(..=usize::MAX).is_none());
    assert!(array.try_slice_mut((Bound::Excluded(usize::MAX), Bound::Unbounded)).is_none());
    let (mut low, mut high) = array.split_at_mut(9);
    stream.memcpy_htod(&[3], &mut high).unwrap();
    stream.memcpy_htod(&[4], &mut low).unwrap();
    stream.memcpy_htod(&[5; 2], &mut array.slice_mut(1..=2)).unwrap();
    assert_eq!(array.to_vec().unwrap(), [4, 5, 5, 1, 2, 2, 2, 1, 1, 3]);
    let text = |caught: thread::Result<usize>| *caught.unwrap_err().downcast::<String>().unwrap();
    let outside = [
        text(catch_unwind(AssertUnwindSafe(|| array.slice_mut(8..11).len()))),
        text(catch_unwind(AssertUnwindSafe(|| array.split_at_mut(11).0.len()))),
    ];
    assert!(outside.iter().all(|text| text.contains("10")), "{outside:?}");
    assert_eq!(stream.clone_dtoh(&array.as_view()).unwrap(), array.to_vec().unwrap());
    assert_eq!(stream.clone_dtoh(&array.slice(3..5)).unwrap(), [1, 2]);
    assert!(array.try_slice(8..11).is_none());
    let mut empty = Array::<u32, _>::zeros(&gpu.cuda, 0).unwrap();
    assert_eq!((empty.as_view().len(), empty.as_view_mut().len()), (0, 0));
}

#[test]
fn an_array_becomes_a_slice() {
    let Some(gpu) = Gpu::get() else { return };
    let before = gpu.cuda.memory().bytes;
    let array = gpucache::cache_scope!("becomes a slice", { patterned(&gpu.cuda, LEN, 7).unwrap() });
    // A copy: the scope's memory belongs to the range, and no slice can free it.
    let slice = CudaSlice::try_from(array).unwrap();
    assert_eq!(stats("becomes a slice").unwrap().busy_blocks, 0);
    let other = gpucache::cache_scope!("becomes a slice", { patterned(&gpu.cuda, LEN, 8).unwrap() });
    assert_eq!(gpu.cuda.stream().clone_dtoh(&slice).unwrap(), pattern(7, LEN));
    drop(slice);
    assert_pattern(&other, 8);
    drop(other);
    let _ = invalidate("becomes a slice");
    assert_eq!(gpu.cuda.memory().bytes, before);
    no_error_was_kept(&gpu);
}

#[test]
fn a_slice_becomes_an_array() {
    let Some(gpu) = Gpu::get() else { return };
    let before = gpu.cuda.memory();
    let slice = gpu.cuda.stream().clone_htod(&pattern(9, LEN)).unwrap();
    let mut array = gpucache::cache_scope!("becomes an array", { Array::try_from(slice).unwrap() });
    assert_eq!((array.shape(), array.device().stream()), (&[LEN][..], gpu.cuda.stream()));
    assert_pattern(&array, 9);
    array.copy_from_slice(&pattern(10, LEN)).unwrap();
    let array = array.reshape([LEN / 10, 10]).unwrap();
    assert_eq!(gpu.cuda.memory(), before, "the memory is the slice's");
    assert_eq!(array.try_clone().unwrap().shape(), [LEN / 10, 10]);
    let slice = CudaSlice::try_from(array).unwrap();
    assert_eq!(gpu.cuda.stream().clone_dtoh(&slice).unwrap(), pattern(10, LEN));
    drop(Array::try_from(slice).unwrap());
    assert_eq!(supplied(&stats("becomes an array").unwrap()), 0);
    assert_eq!(gpu.cuda.memory().bytes, before.bytes);
    no_error_was_kept(&gpu);
}

#[test]
fn arrays_without_elements_are_converted_too() {
    let Some(gpu) = Gpu::get() else { return };
    let array = Array::<f32, _>::zeros(&gpu.cuda, [3, 0]).unwrap();
    if let Ok(slice) = CudaSlice::try_from(array) {
        assert_eq!(slice.len(), 0);
        let array = Array::try_from(slice).unwrap();
        assert_eq!((array.shape(), array.to_vec().unwrap().len()), (&[0][..], 0));
        drop(CudaSlice::try_from(array).unwrap());
    }
    no_error_was_kept(&gpu);
    // A driver may refuse to allocate 0 bytes. Then there is no such slice.
    if let Ok(slice) = gpu.cuda.stream().null::<f32>() {
        drop(Array::try_from(slice).unwrap());
        no_error_was_kept(&gpu);
    }
}

/// cudarc returns a failure later that a drop could not report. There must be none.
fn no_error_was_kept(gpu: &Gpu) {
    gpu.cuda.stream().context().check_err().unwrap();
    gpu.cuda.synchronize().unwrap();
}

#[test]
fn handles_of_one_stream_share_blocks() {
    let Some(gpu) = Gpu::get() else { return };
    let (first, other) = (gpu.new_stream(), gpu.new_stream());
    let again = Cuda::with_stream(first.stream().clone()).unwrap();
    gpucache::cache_scope!("shared by handles", {
        let array = patterned(&first, LEN, 1).unwrap();
        let place = address(&array);
        drop(array);
        drop(patterned(&other, LEN, 2).unwrap());
        assert_eq!(hits_and_supplies("shared by handles"), (0, 2), "another stream has its own blocks");
        assert_eq!(address(&patterned(&again, LEN, 3).unwrap()), place);
        assert_eq!(hits_and_supplies("shared by handles"), (1, 2));
    });
    gpucache::cache_scope!("shared by contexts", {
        drop(patterned(&gpu.cuda, LEN, 4).unwrap());
        drop(patterned(&Cuda::new(0).unwrap(), LEN, 5).unwrap());
        let context = CudaContext::new(0).unwrap();
        drop(patterned(&Cuda::with_stream(context.default_stream()).unwrap(), LEN, 6).unwrap());
        assert_eq!(hits_and_supplies("shared by contexts"), (2, 1), "all are the same default stream");
    });
    let _ = (invalidate("shared by handles"), invalidate("shared by contexts"));
}

#[test]
fn the_per_thread_stream_is_each_threads_own() {
    let Some(gpu) = Gpu::get() else { return };
    let stream = gpu.cuda.stream().context().per_thread_stream();
    let own = Cuda::with_stream(stream.clone()).unwrap();
    gpucache::cache_scope!(name = "per thread", {
        let first = address(&patterned(&own, LEN, 1).unwrap());
        assert_eq!(address(&patterned(&own, LEN, 2).unwrap()), first, "one stream on one thread");
    });
    let slice = stream.clone_htod(&[1u32, 2, 3]).unwrap();
    assert_eq!(Array::try_from(slice).unwrap().to_vec().unwrap(), [1, 2, 3]);
    let there = own.clone();
    let array = std::thread::spawn(move || patterned(&there, LEN, 3).unwrap()).join().unwrap();
    // Its thread has ended, and so has its stream.
    assert_pattern(&array, 3);
    let placed = gpucache::offload::Placed::<u32, _>::zeros(&own, LEN).unwrap();
    let array = Array::<u32, _>::zeros(&own, LEN).unwrap();
    assert_eq!(placed.device().stream_handle().id(), array.device().stream_handle().id());
    drop((placed, array));
    assert!(own.capture(|| Ok::<_, gpucache::Error>(())).is_err_and(|error| error.is_unavailable()));
    no_error_was_kept(&gpu);
    let _ = invalidate("per thread");
}

/// Runs `act` on a thread that has never touched CUDA.
fn elsewhere<R: Send>(act: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|threads| threads.spawn(act).join().unwrap())
}

#[test]
fn every_thread_has_the_context() {
    let Some(gpu) = Gpu::get() else { return };
    let before = gpu.cuda.memory().bytes;
    let arrays = [1, 2, 3].map(|seed| patterned(&gpu.cuda, LEN, seed).unwrap());
    let [plain, read, lent] = arrays;
    let _ = lent.as_view();
    elsewhere(|| drop(plain));
    elsewhere(|| assert_pattern(&read, 2));
    elsewhere(|| drop(lent));
    let made = elsewhere(|| patterned(&gpu.cuda, LEN, 4).unwrap());
    assert_pattern(&elsewhere(|| made.try_clone().unwrap()), 4);
    let slice = elsewhere(|| CudaSlice::try_from(made).unwrap());
    let adopted = Array::try_from(slice).unwrap();
    elsewhere(|| drop(adopted));
    let escaped = elsewhere(|| gpucache::cache_scope!("on a thread", { patterned(&gpu.cuda, LEN, 5).unwrap() }));
    elsewhere(|| drop(escaped));
    elsewhere(|| gpu.cuda.synchronize().unwrap());
    drop(read);
    gpu.cuda.trim();
    assert_eq!(gpu.cuda.memory().bytes, before);
    no_error_was_kept(&gpu);
}

#[test]
fn more_memory_than_there_is_is_a_typed_error() {
    let Some(gpu) = Gpu::get() else { return };
    let (_, total) = gpu.cuda.stream().context().mem_get_info().unwrap();
    let before = gpu.cuda.memory().bytes;
    let error = Array::<u8, _>::zeros(&gpu.cuda, 2 * total).unwrap_err();
    assert!(error.is_out_of_memory(), "{error}");
    assert_eq!(gpu.cuda.memory().bytes, before);
    assert_pattern(&patterned(&gpu.cuda, LEN, 1).unwrap(), 1);
}

#[test]
fn idle_memory_is_given_back_when_there_is_no_more() {
    let Some(gpu) = Gpu::get() else { return };
    let (free, _) = gpu.cuda.stream().context().mem_get_info().unwrap();
    let two_thirds = free / 3 * 2;
    gpucache::cache_scope!("large and idle", { drop(Array::<u8, _>::zeros(&gpu.cuda, two_thirds).unwrap()) });
    let array = gpucache::cache_scope!("large and asked for", { Array::<u8, _>::zeros(&gpu.cuda, two_thirds + 512) });
    assert_eq!(array.unwrap().len(), two_thirds + 512);
    assert_eq!(stats("large and idle").unwrap().idle_blocks, 0);
    let _ = invalidate("large and asked for");
}
