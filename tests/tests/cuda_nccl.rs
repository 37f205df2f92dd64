//! Arrays in collectives of NCCL, with one rank on one GPU: every call, the order with other streams, registered memory, and failures.
//!
//! Without a GPU, the made-up driver and the made-up NCCL serve. With one rank NCCL copies, so a wrong order shows in the contents.
#![cfg(feature = "cuda")]
#![allow(clippy::panic, clippy::unwrap_used, unsafe_code)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpucache::cache_scope as scope;
use gpucache::nccl::{self, Communicator, Id, Reduction};
use gpucache::offload::{Placed, Placement};
use gpucache::prelude::*;
use gpucache_tests::conformance::{assert_pattern, pattern, patterned};
use gpucache_tests::gpu::{Gpu, SLOWLY, address, is_made_up, skip};

const LEN: usize = 4096;
const TIMEOUT: Duration = Duration::from_secs(20);

/// A GPU, and a communicator of one rank on a stream of its own.
struct Alone {
    gpu: Gpu,
    ranks: Communicator,
}

fn alone() -> Option<Alone> {
    let gpu = with_nccl()?;
    let ranks = Communicator::connect(&gpu.new_stream(), &Id::new().unwrap(), 0, 1, TIMEOUT).unwrap();
    Some(Alone { gpu, ranks })
}

fn with_nccl() -> Option<Gpu> {
    let gpu = Gpu::get()?;
    #[cfg(target_os = "linux")]
    gpucache_tests::madeup::load_nccl_unless_there_is_another();
    match nccl::version() {
        Ok(_) => Some(gpu),
        Err(error) => {
            skip(error);
            None
        }
    }
}

fn zeros(stream: &Cuda) -> Array<u32, Cuda> {
    Array::zeros(stream, LEN).unwrap()
}

/// A watchdog thread shares the communicator with the thread of the rank.
const _: fn() = || {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Communicator>();
};

#[test]
fn an_id_is_its_bytes() {
    let bytes: [u8; Id::BYTES] = std::array::from_fn(|at| at as u8);
    let id = Id::from_bytes(bytes);
    assert_eq!(id.to_bytes(), bytes);
    assert_eq!(format!("{id:?}"), "Id(000102030405060708090a0b0c0d0e0f..)");
    assert_ne!(id, Id::from_bytes([0; 128]));
}

#[test]
fn the_version_is_that_of_the_library() {
    let Some(_gpu) = with_nccl() else { return };
    let (major, minor, _) = nccl::version().unwrap();
    assert!(nccl::is_available() && (major, minor) >= (2, 19), "{major}.{minor}");
    assert_ne!(Id::new().unwrap(), Id::new().unwrap());
}

#[test]
fn a_rank_that_cannot_be_is_refused_before_anything_is_called() {
    let Some(gpu) = with_nccl() else { return };
    for (rank, ranks) in [(1, 1), (0, 0), (3, 2), (usize::MAX, usize::MAX), (0, 1 << 40)] {
        let refused = Communicator::connect(&gpu.cuda, &Id::from_bytes([1; 128]), rank, ranks, TIMEOUT).unwrap_err();
        let reason = if rank < ranks { "at most 2147483647 ranks" } else { "pass a rank below" };
        assert!(refused.is_unavailable() && refused.to_string().contains(reason), "{refused}");
    }
    let own = Cuda::with_stream(gpu.cuda.stream().context().per_thread_stream()).unwrap();
    let refused = Communicator::connect(&own, &Id::from_bytes([1; 128]), 0, 1, TIMEOUT).unwrap_err();
    assert!(refused.is_unavailable() && refused.to_string().contains("per-thread"), "{refused}");
}

#[test]
fn every_collective_takes_arrays_and_views() {
    let Some(Alone { gpu, ranks }) = alone() else { return };
    let from = patterned(&gpu.cuda, LEN, 1).unwrap();
    for by in [Reduction::Sum, Reduction::Mean, Reduction::Min, Reduction::Max, Reduction::Product] {
        let mut to = zeros(&gpu.cuda);
        ranks.all_reduce(&from, &mut to, by).unwrap();
        ranks.all_reduce_in_place(&mut to, by).unwrap();
        assert_pattern(&to, 1);
        to = zeros(&gpu.cuda);
        ranks.reduce(&from, &mut to, by, 0).unwrap();
        assert_pattern(&to, 1);
        to = zeros(&gpu.cuda);
        ranks.reduce_scatter(&from, &mut to, by).unwrap();
        ranks.reduce_scatter_in_place(&mut to, by).unwrap();
        assert_pattern(&to, 1);
    }
    let mut to = zeros(&gpu.cuda);
    ranks.all_gather(&from, &mut to).unwrap();
    ranks.all_gather_in_place(&mut to).unwrap();
    ranks.broadcast(&mut to, 0).unwrap();
    assert_pattern(&to, 1);

    let mut halves = zeros(&gpu.cuda);
    let (front, back) = (from.slice(..LEN / 2), from.slice(LEN / 2..));
    ranks.all_reduce(&back, &mut halves.part_mut(..LEN / 2).unwrap(), Reduction::Sum).unwrap();
    ranks.all_gather(&front, &mut halves.part_mut(LEN / 2..).unwrap()).unwrap();
    ranks.all_reduce_in_place(&mut halves.slice_mut(..), Reduction::Sum).unwrap();
    let expected = [&pattern(1, LEN)[LEN / 2..], &pattern(1, LEN)[..LEN / 2]].concat();
    assert_eq!(halves.to_vec().unwrap(), expected);

    let mut slice = gpu.cuda.stream().alloc_zeros::<u32>(LEN).unwrap();
    ranks.all_reduce(&from, &mut slice, Reduction::Sum).unwrap();
    ranks.wait(TIMEOUT).unwrap();
    assert_eq!(gpu.cuda.stream().clone_dtoh(&slice).unwrap(), pattern(1, LEN));
}

#[test]
fn a_rank_sends_to_itself_in_a_group() {
    let Some(Alone { gpu, ranks }) = alone() else { return };
    let (from, whole) = (patterned(&gpu.cuda, LEN, 2).unwrap(), patterned(&gpu.cuda, LEN, 3).unwrap());
    let (mut to, mut sum) = (zeros(&gpu.cuda), zeros(&gpu.cuda));
    let mut group = ranks.group();
    group.send(&from, 0).unwrap().recv(&mut to, 0).unwrap();
    group.all_reduce(&whole, &mut sum, Reduction::Max).unwrap();
    group.launch().unwrap();
    assert_pattern(&to, 2);
    assert_pattern(&sum, 3);

    let mut group = ranks.group();
    group.all_reduce(&from, &mut sum, Reduction::Max).unwrap();
    drop(group);
    ranks.group().launch().unwrap();
    assert_pattern(&sum, 3);
}

#[test]
fn arguments_that_do_not_fit_are_errors_and_leave_the_communicator_whole() {
    let Some(Alone { gpu, ranks }) = alone() else { return };
    let (from, mut to) = (zeros(&gpu.cuda), zeros(&gpu.cuda));
    let short = from.slice(1..);
    assert!(ranks.all_reduce(&short, &mut to, Reduction::Sum).unwrap_err().is_invalid_shape());
    assert!(ranks.reduce(&short, &mut to, Reduction::Sum, 0).unwrap_err().is_invalid_shape());
    assert!(ranks.reduce_scatter(&short, &mut to, Reduction::Sum).unwrap_err().is_invalid_shape());
    assert!(ranks.all_gather(&short, &mut to).unwrap_err().is_invalid_shape());
    assert!(ranks.broadcast(&mut to, 1).unwrap_err().is_unavailable());
    assert!(ranks.send(&from, 1).unwrap_err().is_unavailable());
    assert!(ranks.recv(&mut to, usize::MAX).unwrap_err().is_unavailable());
    let (empty, mut none) = (Array::<f32, _>::zeros(&gpu.cuda, 0).unwrap(), Array::zeros(&gpu.cuda, 0).unwrap());
    ranks.all_reduce(&empty, &mut none, Reduction::Sum).unwrap();
    ranks.all_reduce(&from, &mut to, Reduction::Sum).unwrap();
    assert!(ranks.failure().is_none());
}

#[test]
fn a_collective_waits_for_its_arrays_and_later_uses_wait_for_it() {
    let Some(Alone { gpu, ranks }) = alone() else { return };
    let Some(kernels) = gpu.kernels() else { return };
    let other = gpu.new_stream();
    let (mut from, mut to) = (zeros(&gpu.cuda), zeros(&other));
    kernels.fill_on(&gpu.cuda, &mut from, 7, SLOWLY);
    ranks.all_reduce(&from, &mut to, Reduction::Sum).unwrap();
    kernels.fill_on(&gpu.cuda, &mut from, 8, 0);
    assert_eq!(to.to_vec().unwrap(), [7; LEN], "behind the kernel, before the next one");

    kernels.hold(ranks.stream().stream(), SLOWLY / 1000);
    ranks.all_reduce(&from, &mut to, Reduction::Sum).unwrap();
    let third = patterned(&other, LEN, 5).unwrap();
    let copy = to.try_clone().unwrap();
    to.copy_from_slice(&third.to_vec().unwrap()).unwrap();
    assert_eq!(copy.to_vec().unwrap(), [8; LEN], "read after the collective");
    assert_pattern(&to, 5);
}

#[test]
fn an_array_may_be_dropped_during_a_collective() {
    let Some(Alone { gpu, ranks }) = alone() else { return };
    let Some(kernels) = gpu.kernels() else { return };
    let other = gpu.new_stream();
    for round in 0..1000u32 {
        let (canary, kept) = scope!(dropped_in_a_collective, {
            let mut kept = zeros(&gpu.cuda);
            let mut from = zeros(&gpu.cuda);
            kernels.fill_on(&gpu.cuda, &mut from, round, 0);
            if round.is_multiple_of(16) {
                kernels.hold(ranks.stream().stream(), 300);
            }
            ranks.all_reduce(&from, &mut kept, Reduction::Sum).unwrap();
            drop(from);
            // The memory of the dropped array serves these: on its own stream and on another one.
            let mut canary = zeros(&gpu.cuda);
            kernels.fill_on(&gpu.cuda, &mut canary, !round, 0);
            let mut beside = zeros(&other);
            kernels.fill_on(&other, &mut beside, u32::MAX, 0);
            (canary, kept)
        });
        assert_eq!(kept.to_vec().unwrap(), [round; LEN], "round {round}");
        assert_eq!(canary.to_vec().unwrap(), [!round; LEN], "round {round}");
    }
    let _ = invalidate("dropped_in_a_collective");
}

/// The end of a collective is known. That of other work on its stream is not.
#[test]
fn work_that_follows_a_collective_on_its_stream_counts_until_the_drop() {
    let Some(Alone { gpu, ranks }) = alone() else { return };
    let Some(kernels) = gpu.kernels() else { return };
    for round in 0..100u32 {
        let (canary, copy) = scope!(after_a_collective, {
            let mut data = zeros(&gpu.cuda);
            kernels.fill_on(&gpu.cuda, &mut data, round, 0);
            ranks.all_reduce_in_place(&mut data, Reduction::Sum).unwrap();
            // The array's own stream waits for the collective here, and for no more.
            let copy = data.try_clone().unwrap();
            kernels.hold(ranks.stream().stream(), 300);
            kernels.fill_on(ranks.stream(), &mut data, u32::MAX, 0);
            drop(data);
            let mut canary = zeros(&gpu.cuda);
            kernels.fill_on(&gpu.cuda, &mut canary, !round, 0);
            (canary, copy)
        });
        assert!(copy.to_vec().unwrap() == [round; LEN], "round {round}: the collective's result");
        assert!(canary.to_vec().unwrap() == [!round; LEN], "round {round}: the next array in that memory");
    }
    let _ = invalidate("after_a_collective");
}

/// The end of a collective says nothing of a later write on the array's own stream.
#[test]
fn a_write_after_a_collective_is_waited_for() {
    let Some(Alone { gpu, ranks }) = alone() else { return };
    let Some(kernels) = gpu.kernels() else { return };
    let other = gpu.new_stream();
    let (mut data, mut copy, mut source) = (zeros(&gpu.cuda), zeros(&other), zeros(&gpu.cuda));
    for round in 1..=50u32 {
        ranks.all_reduce_in_place(&mut data, Reduction::Sum).unwrap();
        kernels.fill_on(&gpu.cuda, &mut source, round, 0);
        kernels.hold(gpu.cuda.stream(), 300);
        // cudarc's call does not tell when the work of the write is on the stream.
        gpu.cuda.stream().memcpy_dtod(&source, &mut data).unwrap();
        copy.copy_from(&data).unwrap();
        assert!(copy.to_vec().unwrap() == [round; LEN], "round {round}");
    }
}

/// A training step: gradients in buckets, reduced beside the computation, and an update that reads them.
fn reduced_step(gpu: &Cuda, ranks: &Communicator, weights: &mut Array<u32, Cuda>, buckets: usize) {
    scope!(reduced_step, {
        let mut gradients: Vec<_> = (0..buckets).map(|bucket| Array::full(gpu, LEN, bucket as u32).unwrap()).collect();
        for gradient in &mut gradients {
            ranks.all_reduce_in_place(gradient, Reduction::Sum).unwrap();
        }
        for gradient in &gradients {
            weights.copy_from(gradient).unwrap();
        }
    });
}

#[test]
fn a_warm_step_allocates_nothing_and_takes_an_event_for_each_bucket() {
    const BUCKETS: usize = 8;
    let Some(Alone { gpu, ranks }) = alone() else { return };
    let compute = gpu.new_stream();
    let mut weights = Array::<u32, _>::zeros(&compute, LEN).unwrap();
    for _ in 0..20 {
        reduced_step(&compute, &ranks, &mut weights, BUCKETS);
    }
    let (before, events) = (compute.memory().times_taken(), compute.stats().order.events);
    const STEPS: usize = 20;
    for _ in 0..STEPS {
        reduced_step(&compute, &ranks, &mut weights, BUCKETS);
    }
    let events = compute.stats().order.events - events;
    println!("{:.2} events for each bucket", events as f64 / (STEPS * BUCKETS) as f64);
    assert_eq!(compute.memory().times_taken(), before, "no allocation");
    // One for the contents of each bucket, and one for all collectives, whose ends are known: none for the memory.
    assert!(events <= (STEPS * (BUCKETS + 1)) as u64, "{events} events");
    assert_eq!(weights.to_vec().unwrap()[0], BUCKETS as u32 - 1);
    let _ = invalidate("reduced_step");
}

#[test]
fn a_missing_rank_is_an_error_after_the_timeout() {
    let Some(gpu) = with_nccl() else { return };
    let start = Instant::now();
    let error = Communicator::connect(&gpu.cuda, &Id::new().unwrap(), 0, 2, Duration::from_secs(2)).unwrap_err();
    assert!(error.is_device_failure() && error.to_string().contains("other ranks"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    // The GPU is as usable as before.
    assert_pattern(&patterned(&gpu.cuda, LEN, 1).unwrap(), 1);
}

#[test]
fn an_abort_from_another_thread_ends_the_communicator() {
    let Some(Alone { gpu, ranks }) = alone() else { return };
    let ranks = Arc::new(ranks);
    let mut array = patterned(&gpu.cuda, LEN, 1).unwrap();
    ranks.all_reduce_in_place(&mut array, Reduction::Sum).unwrap();
    ranks.wait(TIMEOUT).unwrap();
    assert!(ranks.failure().is_none());
    let watchdog = ranks.clone();
    std::thread::spawn(move || watchdog.abort("rank 1 ran out of coffee")).join().unwrap();
    for error in [
        ranks.failure().unwrap(),
        ranks.all_reduce_in_place(&mut array, Reduction::Sum).unwrap_err(),
        ranks.registered_zeros::<f32>(&gpu.cuda, 4).unwrap_err(),
        ranks.wait(TIMEOUT).unwrap_err(),
    ] {
        assert!(error.to_string().contains("coffee"), "{error}");
    }
    ranks.abort("again");
    assert!(ranks.failure().unwrap().to_string().contains("coffee"), "the first cause is kept");
    drop(ranks);
    assert_pattern(&array, 1);
}

#[test]
fn registered_arrays_stay_where_they_are() {
    let Some(Alone { gpu, ranks }) = alone() else { return };
    let before = gpu.cuda.memory().bytes;
    let mut bucket = match ranks.registered_zeros::<u32>(&gpu.cuda, LEN) {
        Ok(bucket) => bucket,
        Err(error) => {
            assert!(error.is_unavailable() && error.to_string().contains("Array::zeros"), "{error}");
            return skip(error);
        }
    };
    assert_eq!(bucket.to_vec().unwrap(), [0; LEN]);
    assert_eq!(gpu.cuda.memory().bytes, before + (2 << 20), "it counts");
    let place = address(&bucket);
    bucket.copy_from_slice(&pattern(4, LEN)).unwrap();
    for _ in 0..10 {
        ranks.all_reduce_in_place(&mut bucket, Reduction::Sum).unwrap();
        scope!(beside_a_bucket, {
            let other = patterned(&gpu.cuda, 1 << 20, 9).unwrap();
            assert_ne!(address(&other), place);
        });
        let _ = invalidate("beside_a_bucket");
        gpu.cuda.trim();
    }
    assert_eq!(address(&bucket), place);
    assert_pattern(&bucket, 4);
    ranks.all_reduce_in_place(&mut bucket, Reduction::Sum).unwrap();
    drop(bucket);
    gpu.cuda.trim();
    assert_eq!(gpu.cuda.memory().bytes, before, "it went back");

    let late = ranks.registered_zeros::<f32>(&gpu.cuda, [3, 5]).unwrap();
    drop(ranks);
    assert_eq!(late.to_vec().unwrap(), [0.0; 15], "it outlives its communicator");
    drop(late);
    gpu.cuda.synchronize().unwrap();
    gpu.cuda.trim();
    assert_eq!(gpu.cuda.memory().bytes, before, "it went back too");
}

/// NCCL has the address of registered memory, so a placed array in it does not move.
#[test]
fn placed_registered_arrays_stay_on_the_device() {
    let Some(Alone { gpu, ranks }) = alone() else { return };
    let registered = || ranks.registered_zeros::<u32>(&gpu.cuda, LEN);
    let Ok(mut bucket) = registered() else { return };
    bucket.copy_from_slice(&pattern(4, LEN)).unwrap();
    let place = address(&bucket);
    let mut placed = Placed::new(bucket).unwrap();
    assert_eq!(placed.placement(), Placement::Device);
    let refused = placed.set_placement(Placement::Host).unwrap_err();
    assert!(refused.is_unavailable() && refused.to_string().contains("registered with NCCL"), "{refused}");
    // A guard exchanges the array of a placed one that may leave.
    let mut other = Placed::<u32, _>::zeros(&gpu.cuda, LEN).unwrap();
    std::mem::swap(&mut *placed.fetch_mut().unwrap(), &mut *other.fetch_mut().unwrap());
    other.choose_placement(Placement::Host);
    assert_eq!(address(&other.fetch_mut().unwrap()), place);
    let mut guard = other.fetch_mut().unwrap();
    ranks.all_reduce_in_place(&mut *guard, Reduction::Sum).unwrap();
    assert_eq!(address(&guard), place, "it stayed after a guard");
    drop(guard);
    assert_eq!(other.to_vec().unwrap(), pattern(4, LEN));
}

#[test]
fn a_registered_array_that_becomes_a_slice_is_copied() {
    let Some(Alone { gpu, ranks }) = alone() else { return };
    let Ok(mut bucket) = ranks.registered_zeros::<u32>(&gpu.cuda, LEN) else { return };
    bucket.copy_from_slice(&pattern(6, LEN)).unwrap();
    let place = address(&bucket);
    let slice = gpucache::cudarc::driver::CudaSlice::try_from(bucket).unwrap();
    assert_eq!(gpu.cuda.stream().clone_dtoh(&slice).unwrap(), pattern(6, LEN));
    use gpucache::cudarc::driver::DevicePtr;
    assert_ne!(slice.device_ptr(gpu.cuda.stream()).0, place);
}

/// A drop in a capture can wait for nobody, so it takes effect after the capture.
#[test]
fn a_registered_array_that_is_dropped_in_a_capture_goes_after_it() {
    let Some(Alone { gpu, ranks }) = alone() else { return };
    let (stream, before) = (gpu.new_stream(), gpu.cuda.memory().bytes);
    let input = patterned(&stream, LEN, 7).unwrap();
    let Ok(bucket) = ranks.registered_zeros::<u32>(&stream, LEN) else { return };
    let held = gpu.cuda.memory().bytes;
    let captured = stream.capture(|| {
        drop(bucket);
        input.try_clone()
    });
    let (graph, copy) = captured.unwrap();
    graph.launch().unwrap();
    assert_pattern(&copy, 7);
    assert!(ranks.failure().is_none(), "the drop aborted the communicator");
    drop((graph, copy, input));
    stream.synchronize().unwrap();
    assert!(gpu.cuda.memory().bytes < held && before <= held);
}

#[test]
fn registered_memory_keeps_the_limit() {
    let Some(Alone { gpu, ranks }) = alone() else { return };
    let held = gpu.cuda.memory().bytes;
    gpu.cuda.set_limit(held + (4 << 20)).unwrap();
    let refused = ranks.registered_zeros::<u8>(&gpu.cuda, 6 << 20).unwrap_err();
    gpu.cuda.set_limit(gpucache::Limit::NONE).unwrap();
    assert!(refused.is_out_of_memory(), "{refused}");
    assert_eq!(gpu.cuda.memory().bytes, held);
}

#[test]
fn a_graph_contains_collectives() {
    let Some(gpu) = with_nccl() else { return };
    if is_made_up() {
        return skip("the made-up NCCL cannot be captured");
    }
    let stream = gpu.new_stream();
    let ranks = Communicator::connect(&stream, &Id::new().unwrap(), 0, 1, TIMEOUT).unwrap();
    let (mut from, mut to) = (patterned(&stream, LEN, 1).unwrap(), zeros(&stream));
    ranks.all_reduce(&from, &mut to, Reduction::Sum).unwrap();
    let (graph, ()) = stream.capture(|| ranks.all_reduce(&from, &mut to, Reduction::Sum)).unwrap();
    from.copy_from_slice(&pattern(2, LEN)).unwrap();
    graph.launch().unwrap();
    assert_pattern(&to, 2);
}

/// cudarc's communicator orders arrays by the same traits.
#[test]
fn cudarcs_own_communicator_takes_arrays() {
    use gpucache::cudarc::nccl::{Comm, Id, ReduceOp, sys::is_culib_present};
    let Some(gpu) = with_nccl() else { return };
    if is_made_up() {
        return skip("the made-up NCCL has not all functions that cudarc calls");
    }
    // SAFETY: this loads a library, whose initialisers any process may run.
    if !unsafe { is_culib_present() } {
        return eprintln!("cudarc finds NCCL only under the name libnccl.so");
    }
    let Some(kernels) = gpu.kernels() else { return };
    let stream = gpu.new_stream();
    let comm =
        Comm::from_rank(stream.stream().clone(), 0, 1, Id::new().unwrap()).map_err(gpucache::Error::from).unwrap();
    let (mut from, mut to) = (zeros(&gpu.cuda), zeros(&gpu.cuda));
    kernels.fill_on(&gpu.cuda, &mut from, 3, SLOWLY);
    comm.all_reduce(&from, &mut to, &ReduceOp::Sum).map_err(gpucache::Error::from).unwrap();
    comm.all_reduce_in_place(&mut to, &ReduceOp::Max).map_err(gpucache::Error::from).unwrap();
    drop(from);
    assert_eq!(to.to_vec().unwrap(), [3; LEN]);
    comm.all_gather(&to.slice(..8), &mut zeros(&gpu.cuda).slice_mut(..8)).map_err(gpucache::Error::from).unwrap();
    comm.broadcast_in_place(&mut to, 0).map_err(gpucache::Error::from).unwrap();
    comm.reduce_scatter(&to.as_view(), &mut zeros(&gpu.cuda), &ReduceOp::Sum).map_err(gpucache::Error::from).unwrap();
    comm.reduce(&to, Some(&mut zeros(&gpu.cuda)), &ReduceOp::Sum, 0).map_err(gpucache::Error::from).unwrap();
    assert_eq!(to.to_vec().unwrap(), [3; LEN]);
}
