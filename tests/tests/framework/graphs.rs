//! Graphs that a framework captures: their pools keep memory, and give it back.
//!
//! Each test runs in a process of its own, since captures hold up the whole device.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use cudarc::driver::sys::{self, CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaGraph, CudaStream, result};
use gpucache_capi::{
    allocate, enter, enter_uncached, free, invalidate, leave, pool_begin, pool_end, pool_release, record_stream,
    set_limit, trim,
};
use gpucache_tests::alone::alone;
use gpucache_tests::gpu::{Gpu, is_made_up};
use gpucache_tests::madeup::{begin_capture_unnoticed, fail};

const BYTES: usize = 1 << 20;
const POOL: (u64, u64) = (0, 1);

struct Captured {
    stream: Arc<CudaStream>,
    /// Where eager work runs.
    eager: Arc<CudaStream>,
    /// Memory of the driver's own.
    input: u64,
}

impl Captured {
    fn get() -> Option<Captured> {
        let gpu = Gpu::get()?;
        let (stream, eager) = (gpu.new_stream().stream().clone(), gpu.new_stream().stream().clone());
        // SAFETY: the memory is used by work of these streams alone, and lives as long as the process.
        let input = unsafe { result::malloc_sync(BYTES) }.unwrap();
        Some(Captured { stream, eager, input })
    }

    fn copy(&self, from: u64, to: u64) {
        // SAFETY: both are allocations of this length, which live until this work is done.
        unsafe { result::memcpy_dtod_async(to, from, BYTES, self.stream.cu_stream()) }.unwrap();
    }

    /// Captures copies from the input to a result, by way of memory that is freed within the capture.
    fn capture(&self, copies: usize) -> (CudaGraph, u64) {
        let handle = self.stream.cu_stream() as usize;
        self.begin();
        let mut last = self.input;
        for _ in 0..copies {
            let next = allocate(BYTES, 0, handle).unwrap();
            self.copy(last, next);
            if last != self.input {
                free(last).unwrap();
            }
            last = next;
            self.work_elsewhere();
        }
        (self.end(), last)
    }

    fn begin(&self) {
        let handle = self.stream.cu_stream() as usize;
        pool_begin(0, POOL, Box::new(move |stream| stream == handle)).unwrap();
        self.stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
    }

    fn end(&self) -> CudaGraph {
        let graph = self.stream.end_capture(CUgraphInstantiate_flags(0)).unwrap().expect("it has copies");
        pool_end(0, POOL).unwrap();
        graph
    }

    /// The reserved bytes once all idle memory was given back.
    fn reserved(&self) -> u64 {
        self.eager.context().synchronize().unwrap();
        gpucache_capi::trim(0).unwrap();
        gpucache_capi::device_stats(0).unwrap().reserved_bytes
    }

    /// Allocates on another stream, of new sizes too, so that the driver is asked for memory.
    fn work_elsewhere(&self) {
        let handle = self.eager.cu_stream() as usize;
        let all: Vec<u64> = (1..6).map(|size| allocate(BYTES * size, 0, handle).unwrap()).collect();
        for &memory in &all {
            // SAFETY: the memory is live and has at least as many bytes.
            unsafe { result::memset_d8_async(memory, 255, BYTES, self.eager.cu_stream()) }.unwrap();
        }
        all.into_iter().for_each(|memory| free(memory).unwrap());
    }

    fn write_input(&self, value: u8) {
        // SAFETY: the input has as many bytes.
        unsafe { result::memset_d8_async(self.input, value, BYTES, self.stream.cu_stream()) }.unwrap();
    }

    fn assert_is(&self, memory: u64, value: u8) {
        let mut read = vec![0u8; BYTES];
        self.stream.synchronize().unwrap();
        // SAFETY: the memory is live and has as many bytes.
        unsafe { result::memcpy_dtoh_sync(&mut read, memory) }.unwrap();
        assert!(read.iter().all(|&byte| byte == value), "the graph's memory was written by others");
    }
}

#[test]
fn graphs_of_one_pool_keep_their_memory_between_launches() {
    alone(60, || {
        let Some(captured) = Captured::get() else { return };
        let graphs = [captured.capture(5), captured.capture(3)];
        for round in 0..20 {
            captured.work_elsewhere();
            captured.write_input(round);
            for (graph, _) in &graphs {
                graph.launch().unwrap();
            }
            captured.work_elsewhere();
            graphs.iter().for_each(|(_, result)| captured.assert_is(*result, round));
        }
    });
}

#[test]
fn memory_that_another_thread_allocated_in_a_capture_comes_back() {
    alone(60, || {
        let Some(captured) = Captured::get() else { return };
        let before = captured.reserved();
        let handle = captured.stream.cu_stream() as usize;
        let (ask, asked) = std::sync::mpsc::channel::<()>();
        let (answer, answered) = std::sync::mpsc::channel();
        // As PyTorch's threads do, this one lives on.
        let work = move || asked.iter().for_each(|()| answer.send(allocate(BYTES, 0, handle).unwrap()).unwrap());
        std::thread::Builder::new().name("pt_autograd_0".into()).spawn(work).unwrap();
        captured.begin();
        let first = allocate(BYTES, 0, handle).unwrap();
        captured.copy(captured.input, first);
        ask.send(()).unwrap();
        let second = answered.recv().unwrap();
        captured.copy(first, second);
        free(first).unwrap();
        let graph = captured.end();
        captured.write_input(3);
        graph.launch().unwrap();
        captured.assert_is(second, 3);
        free(second).unwrap();
        drop(graph);
        pool_release(0, POOL).unwrap();
        assert_eq!(captured.reserved(), before);
    });
}

#[test]
fn the_last_graph_gives_the_memory_back() {
    alone(60, || {
        let Some(captured) = Captured::get() else { return };
        captured.work_elsewhere();
        let before = captured.reserved();
        let [(first, first_result), (second, second_result)] = [captured.capture(4), captured.capture(4)];
        assert!(captured.reserved() >= before + 2 * BYTES as u64);
        drop(first);
        pool_release(0, POOL).unwrap();
        free(first_result).unwrap();
        // The second graph still has its memory.
        captured.write_input(7);
        second.launch().unwrap();
        captured.work_elsewhere();
        captured.assert_is(second_result, 7);
        drop(second);
        pool_release(0, POOL).unwrap();
        captured.assert_is(second_result, 7);
        free(second_result).unwrap();
        assert_eq!(captured.reserved(), before);
    });
}

/// A library may use a tensor of eager work on a stream of its own, which this crate sees for the first time in the capture.
#[test]
fn a_use_is_noted_on_a_stream_that_is_first_seen_in_its_capture() {
    alone(60, || {
        let Some(captured) = Captured::get() else { return };
        let [own, eager] = [&captured.stream, &captured.eager].map(|stream| stream.cu_stream() as usize);
        let read = allocate(BYTES, 0, eager).unwrap();
        pool_begin(0, POOL, Box::new(move |stream| stream == own)).unwrap();
        // SAFETY: the stream is alive, and no capture has begun on it. `begin` would tell this crate of the stream, by `foreign`.
        unsafe { begin_capture_unnoticed(captured.stream.cu_stream().cast()) };
        captured.copy(read, captured.input);
        record_stream(read, own).unwrap();
        let graph = captured.end();
        // Also for the calls that follow, which learn the stream's id.
        record_stream(read, own).unwrap();
        free(read).unwrap();
        captured.work_elsewhere();
        graph.launch().unwrap();
        captured.stream.synchronize().unwrap();
        drop(graph);
        pool_release(0, POOL).unwrap();
        assert!(record_stream(captured.input, own).is_err());
    });
}

/// The memory of pools whose graphs are gone serves later pools. A busy machine may see the end of the last one too late for the next one.
#[test]
fn pools_that_come_and_go_take_the_memory_of_a_few() {
    alone(120, || {
        let Some(captured) = Captured::get() else { return };
        let handle = captured.stream.cu_stream() as usize;
        let mut reserved = Vec::new();
        for pool in 0..50 {
            pool_begin(0, (0, pool), Box::new(move |stream| stream == handle)).unwrap();
            free(allocate(8 * BYTES, 0, handle).unwrap()).unwrap();
            pool_end(0, (0, pool)).unwrap();
            pool_release(0, (0, pool)).unwrap();
            reserved.push(gpucache_capi::device_stats(0).unwrap().reserved_bytes);
        }
        assert!(reserved.iter().all(|&bytes| bytes <= 4 * reserved[0]), "{reserved:?}");
    });
}

/// The memory of a pool is less than its pages. The rest of the last page was never used.
#[test]
fn all_pages_of_a_pool_go_back() {
    alone(120, || {
        let Some(captured) = Captured::get() else { return };
        let handle = captured.stream.cu_stream() as usize;
        pool_begin(0, POOL, Box::new(move |stream| stream == handle)).unwrap();
        free(allocate(3 * BYTES, 0, handle).unwrap()).unwrap();
        pool_end(0, POOL).unwrap();
        pool_release(0, POOL).unwrap();
        assert_eq!(captured.reserved(), 0);
    });
}

/// Launches of the graphs may still run. The driver refuses a wait, for example while a library captures a graph that nobody told of.
#[test]
fn memory_of_a_pool_stays_until_a_wait_succeeds() {
    alone(120, || {
        let Some(captured) = Captured::get() else { return };
        if !is_made_up() {
            return;
        }
        let handle = captured.stream.cu_stream() as usize;
        pool_begin(0, POOL, Box::new(move |stream| stream == handle)).unwrap();
        free(allocate(3 * BYTES, 0, handle).unwrap()).unwrap();
        pool_end(0, POOL).unwrap();
        fail(c"cuCtxSynchronize", 0, u64::MAX, sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED as u32);
        pool_release(0, POOL).unwrap();
        assert!(gpucache_capi::device_stats(0).unwrap().reserved_bytes > 0);
        fail(c"cuCtxSynchronize", 0, 0, 0);
        trim(0).unwrap();
        assert_eq!(captured.reserved(), 0);
    });
}

/// A thread that allocates may be asking the filter.
#[test]
fn a_filter_is_not_called_once_its_pool_has_ended() {
    alone(120, || {
        let Some(captured) = Captured::get() else { return };
        let handle = captured.eager.cu_stream() as usize;
        for round in 0..200 {
            let ended = Arc::new(AtomicBool::new(false));
            let seen = ended.clone();
            let filter = move |_| {
                (0..round).for_each(|_| std::hint::spin_loop());
                assert!(!seen.load(Relaxed), "the pool has ended");
                false
            };
            pool_begin(0, POOL, Box::new(filter)).unwrap();
            let asking = std::thread::spawn(move || (0..20).try_for_each(|_| free(allocate(BYTES, 0, handle)?)));
            std::thread::sleep(std::time::Duration::from_micros(round));
            pool_end(0, POOL).unwrap();
            ended.store(true, Relaxed);
            asking.join().unwrap().unwrap();
            pool_release(0, POOL).unwrap();
        }
    });
}

/// A captured stream cannot wait for another one, so the memory waits for the end of the capture.
#[test]
fn memory_that_other_streams_use_and_that_is_freed_in_a_capture_comes_back() {
    alone(120, || {
        let Some(captured) = Captured::get() else { return };
        let before = captured.reserved();
        let handles = [&captured.eager, &captured.stream].map(|stream| stream.cu_stream() as usize);
        for users in [&handles[..1], &handles[1..], &handles[..]] {
            let outside = enter_uncached().unwrap();
            let eager = allocate(BYTES, 0, handles[0]).unwrap();
            captured.begin();
            let memory = allocate(BYTES, 0, handles[1]).unwrap();
            captured.copy(captured.input, memory);
            users.iter().for_each(|&user| record_stream(memory, user).unwrap());
            record_stream(eager, handles[1]).unwrap();
            [memory, eager].into_iter().for_each(|memory| free(memory).unwrap());
            drop(captured.end());
            pool_release(0, POOL).unwrap();
            leave(outside).unwrap();
            assert_eq!(captured.reserved(), before, "{users:?}");
        }
    });
}

/// Three entries of a scope on the captured stream, which are planned from then on.
fn plan(captured: &Captured) {
    for _ in 0..4 {
        let entry = enter("step").unwrap();
        for _ in 0..3 {
            free(allocate(BYTES, 0, captured.stream.cu_stream() as usize).unwrap()).unwrap();
        }
        leave(entry).unwrap();
    }
}

#[test]
fn a_scope_entered_in_a_capture_serves_later_eager_work() {
    alone(60, || {
        let Some(captured) = Captured::get() else { return };
        plan(&captured);
        let own = captured.stream.cu_stream() as usize;
        pool_begin(0, POOL, Box::new(move |stream| stream == own)).unwrap();
        // SAFETY: the stream is alive, and no capture has begun on it. In programs of other languages, `foreign` sees no capture.
        unsafe { begin_capture_unnoticed(captured.stream.cu_stream().cast()) };
        let entry = enter("step").unwrap();
        let memory = allocate(BYTES, 0, own).unwrap();
        captured.copy(captured.input, memory);
        leave(entry).unwrap();
        drop(captured.end());
        plan(&captured);
        free(memory).unwrap();
    });
}

/// CUDA's global mode ends the capture if any thread makes a call for memory that is not in the relaxed mode.
#[test]
fn calls_that_return_memory_leave_a_capture_open() {
    alone(60, || {
        let Some(captured) = Captured::get() else { return };
        let calls: [fn(); 4] = [
            || _ = trim(0).unwrap(),
            || _ = invalidate(None),
            || set_limit(0, "1MiB").unwrap(),
            || (0..2000).for_each(|_| leave(enter("step").unwrap()).unwrap()),
        ];
        for call in calls {
            plan(&captured);
            captured.work_elsewhere();
            captured.eager.context().synchronize().unwrap();
            captured.begin();
            let memory = allocate(BYTES, 0, captured.stream.cu_stream() as usize).unwrap();
            captured.copy(captured.input, memory);
            call();
            free(memory).unwrap();
            drop(captured.end());
            set_limit(0, "none").unwrap();
        }
    });
}
