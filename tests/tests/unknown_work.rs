//! Kernels that use an array's address on a stream that gpucache does not know, for example a stream of another `CudaContext`
//! object. The memory that they use keeps its pages until they are done.
//!
//! Each test runs in a process of its own, since a lost context would make all later tests fail. The made-up driver
//! (`tests/driver`) notices when pages go that work still uses.
#![cfg(all(feature = "cuda", target_os = "linux"))]
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, unsafe_code)]

use std::ffi::CStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use gpucache::prelude::*;
use gpucache::{
    cache_scope as scope,
    offload::{Placed, Placement},
    uncached,
};
use gpucache_tests::alone::{alone, alone_over};
use gpucache_tests::conformance::{pattern, patterned};
use gpucache_tests::gpu::{self, Kernels};
use gpucache_tests::madeup::{self, calls};

/// The elements of an array: two granules of pages.
const LEN: usize = 1 << 20;
/// How long a kernel takes: longer than the host needs for the rest of the test, and far shorter than gpucache waits.
const LATE: Duration = Duration::from_millis(60);
/// Far longer than gpucache waits.
const VERY_LATE: Duration = Duration::from_secs(3);
/// The longest wait of gpucache.
const WAIT: Duration = Duration::from_millis(250);

/// A GPU, and a kernel on a stream that gpucache does not know.
struct Late {
    gpu: Cuda,
    kernels: Kernels,
    stream: Arc<CudaStream>,
    sink: CudaSlice<u32>,
}

impl Late {
    fn get() -> Option<Late> {
        let gpu = gpu::device()?;
        let second = CudaContext::new(0).unwrap();
        let stream = second.new_stream().unwrap();
        let kernels = Kernels::load(&second)?;
        let sink = stream.alloc_zeros(LEN).unwrap();
        stream.synchronize().unwrap();
        Some(Late { gpu, kernels, stream, sink })
    }

    /// Copies the array after the kernel has taken this time.
    fn launch(&mut self, array: &Array<u32, Cuda>, time: Duration) {
        self.kernels.hold(&self.stream, time.as_micros() as u64);
        self.kernels.add_to_slice(&self.stream, &mut self.sink, array, 0, 0);
    }

    /// Checks that the kernel has read the contents of this seed's array, and that nothing was lost.
    fn check(&self, seed: u32) {
        self.stream.synchronize().expect("the context is alive");
        assert!(self.stream.clone_dtoh(&self.sink).expect("copied") == pattern(seed, LEN), "what the kernel read");
        self.gpu.synchronize().expect("no failure was kept");
    }

    /// An array from the range, and not from a list.
    fn array(&self, seed: u32) -> Array<u32, Cuda> {
        let array = scope!("unknown", recycle = "range", { patterned(&self.gpu, LEN, seed) }).unwrap();
        self.gpu.synchronize().unwrap();
        array
    }
}

#[test]
fn an_invalidation_and_a_trim() {
    alone(60, || {
        let Some(mut late) = Late::get() else { return };
        for seed in 0..3 {
            let array = scope!("planned", { patterned(&late.gpu, LEN, seed) }).unwrap();
            late.gpu.synchronize().unwrap();
            late.launch(&array, LATE);
            drop(array);
            let _ = invalidate("planned");
            late.gpu.trim();
            late.check(seed);
            late.gpu.trim();
            assert_eq!(late.gpu.memory().bytes, 0, "all goes back once the kernel is done");
        }
    });
}

/// Before CUDA 12.5, the driver has no event for a whole context.
#[test]
fn a_trim_over_an_older_driver() {
    alone_over(
        |target| madeup::driver_without(target, "cuCtxRecordEvent"),
        60,
        || {
            let Some(mut late) = Late::get() else { return };
            for seed in 0..3 {
                let array = late.array(seed);
                late.launch(&array, LATE);
                drop(array);
                late.gpu.trim();
                late.check(seed);
                late.gpu.trim();
                assert_eq!(late.gpu.memory().bytes, 0, "all goes back once the kernel is done");
            }
        },
    );
}

/// Pages move to where a longer array fits, since the limit allows no more.
#[test]
fn pages_that_move() {
    alone(60, || {
        let Some(mut late) = Late::get() else { return };
        late.gpu.set_limit(12 * LEN as u64).unwrap();
        for (seed, is_scoped) in [(0, true), (1, false), (2, true)] {
            let (array, _between) = (late.array(seed), late.array(seed));
            late.launch(&array, LATE);
            drop(array);
            // SAFETY: nobody reads the array.
            let long = || unsafe { Array::<u32, _>::uninit(&late.gpu, 2 * LEN) };
            let long = if is_scoped { scope!("unknown", recycle = "range", { long() }) } else { uncached!({ long() }) };
            drop(long.expect("there is room"));
            late.check(seed);
        }
    });
}

#[test]
fn a_limit_of_idle_memory() {
    alone(60, || {
        let Some(mut late) = Late::get() else { return };
        late.gpu.set_idle_limit(0).unwrap();
        let array = late.array(0);
        late.launch(&array, LATE);
        scope!("unknown", recycle = "range", { drop(array) });
        // The entries notice that the array's own stream is done.
        for _ in 0..10 {
            std::thread::sleep(LATE / 20);
            scope!("unknown", recycle = "range", {});
        }
        late.check(0);
        let start = Instant::now();
        while late.gpu.memory().bytes > 0 && start.elapsed() < Duration::from_secs(10) {
            scope!("unknown", recycle = "range", {});
            late.gpu.synchronize().unwrap();
        }
        assert_eq!(late.gpu.memory().bytes, 0, "what is idle goes back once the kernel is done");
    });
}

#[test]
fn an_array_that_leaves_for_the_host() {
    alone(60, || {
        let Some(mut late) = Late::get() else { return };
        let array = late.array(7);
        late.launch(&array, LATE);
        let placed = Placed::new(array).unwrap();
        placed.set_placement(Placement::Host).unwrap();
        // The scope that the array came from notices the drop.
        scope!("unknown", recycle = "range", {});
        late.gpu.trim();
        late.check(7);
        late.gpu.trim();
        assert_eq!(late.gpu.memory().bytes, 0, "the array has left");
        assert!(placed.to_vec().unwrap() == pattern(7, LEN));
    });
}

/// A kernel that takes longer than gpucache waits keeps its pages, and nobody waits for it a second time.
#[test]
fn a_very_long_kernel_holds_nobody_up() {
    alone(60, || {
        let Some(mut late) = Late::get() else { return };
        let array = late.array(0);
        late.launch(&array, VERY_LATE);
        drop(array);
        let start = Instant::now();
        late.gpu.trim();
        let first = start.elapsed();
        (0..10).for_each(|_| _ = late.gpu.trim());
        let others = start.elapsed() - first;
        assert!(first < VERY_LATE / 2 && others < 5 * WAIT, "{first:?}, ten others {others:?}");
        assert_eq!(late.gpu.memory().bytes, 4 * LEN as u64);
        late.check(0);
        late.gpu.trim();
        assert_eq!(late.gpu.memory().bytes, 0);
    });
}

/// While a graph is captured, gpucache cannot ask the context. Pages stay, and the capture goes on.
#[test]
fn a_capture_goes_on() {
    alone(60, || {
        let Some(mut late) = Late::get() else { return };
        let graphs = Cuda::with_stream(late.gpu.stream().context().new_stream().unwrap()).unwrap();
        let input = patterned(&graphs, LEN, 3).unwrap();
        let array = late.array(0);
        late.launch(&array, LATE);
        drop(array);
        let captured = graphs.capture(|| {
            late.gpu.trim();
            input.try_clone()
        });
        let (graph, copy) = captured.expect("the capture goes on");
        late.check(0);
        graph.launch().unwrap();
        assert!(copy.to_vec().unwrap() == pattern(3, LEN));
    });
}

/// Warm steps make no call that waits, asks, or changes pages.
#[test]
fn warm_steps_make_no_call() {
    alone_over(madeup::driver, 60, || {
        let Some(mut late) = Late::get() else { return };
        let step = |late: &Late| {
            scope!("warm", {
                let (array, mut copy) = (late.gpu.zeros::<u32>(LEN).unwrap(), late.gpu.zeros::<u32>(LEN).unwrap());
                late.kernels.add(late.gpu.stream(), &mut copy, &array, 0, 0);
            });
        };
        // Until this scope is warm, memory of another scope goes and moves.
        let array = late.array(0);
        late.launch(&array, LATE);
        drop(array);
        (0..50).for_each(|_| step(&late));
        let before = ASKING.map(calls);
        (0..200).for_each(|_| step(&late));
        assert_eq!(ASKING.map(calls), before, "{ASKING:?}");
        println!("{ASKING:?} while it became warm: {before:?}");
    });
}

const ASKING: [&CStr; 10] = [
    c"cuCtxRecordEvent",
    c"cuCtxSynchronize",
    c"cuEventCreate",
    c"cuEventRecord",
    c"cuEventQuery",
    c"cuStreamSynchronize",
    c"cuMemCreate",
    c"cuMemUnmap",
    c"cuMemAllocAsync",
    c"cuMemFreeAsync",
];

/// Pages move for a long array, although work of the array's own stream uses them for far longer than any one wait.
#[test]
fn pages_move_behind_long_work() {
    alone(60, || {
        let Some(late) = Late::get() else { return };
        late.gpu.set_limit(12 * LEN as u64).unwrap();
        let [first, between, last] = [1, 2, 3].map(|seed| late.array(seed));
        late.kernels.hold(late.gpu.stream(), Duration::from_millis(800).as_micros() as u64);
        drop((first, last));
        // SAFETY: nobody reads the array.
        let long = scope!("unknown", recycle = "range", { unsafe { Array::<u32, _>::uninit(&late.gpu, 2 * LEN) } });
        drop(long.expect("there is room"));
        assert!(between.to_vec().unwrap() == pattern(2, LEN));
    });
}
