//! Memory that a framework allocates and frees by its address, on several streams. As with PyTorch's allocator, a program may free memory
//! while another stream still uses it, if the stream of the allocation later waits for that one.
//!
//! Each test runs in a process of its own, since the rule for such memory holds for the whole device.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::{CudaStream, result};
use gpucache_tests::alone::alone;
use gpucache_tests::gpu::{Gpu, Kernels};
use gpucache_tests::madeup::destroy_unnoticed;

const BYTES: usize = 1 << 20;
const SMALL: usize = 1 << 16;
/// How long a stream is held, in microseconds: longer than the host needs for the rest of a round.
const LATE: u64 = 300;
const ROUNDS: u8 = 100;

/// Three streams of one GPU, and memory of the driver's own for what they read.
struct Three {
    kernels: Kernels,
    streams: [Arc<CudaStream>; 3],
    sink: u64,
}

impl Three {
    fn get() -> Option<Three> {
        let gpu = Gpu::get()?;
        let streams = std::array::from_fn(|_| gpu.new_stream().stream().clone());
        let kernels = gpu.kernels()?;
        // SAFETY: the memory is used by work of these streams alone, and lives as long as the process.
        let sink = unsafe { result::malloc_sync(BYTES * usize::from(ROUNDS)) }.unwrap();
        Some(Three { kernels, streams, sink })
    }

    fn allocate(&self, stream: usize) -> u64 {
        self.allocate_more(stream, 0)
    }

    /// Memory of a size for each round, so that no scope keeps it for the next round.
    fn allocate_more(&self, stream: usize, round: u8) -> u64 {
        gpucache_capi::allocate(BYTES + 4096 * usize::from(round), 0, self.handle(stream)).unwrap()
    }

    fn handle(&self, stream: usize) -> usize {
        self.streams[stream].cu_stream() as usize
    }

    fn fill(&self, stream: usize, address: u64, value: u8) {
        // SAFETY: the address is that of a live allocation of this length, or of one that later work of the stream may still use.
        unsafe { result::memset_d8_async(address, value, BYTES, self.streams[stream].cu_stream()) }.unwrap();
    }

    /// Copies memory on a stream, late, for [`check`](Three::check).
    fn read_late(&self, stream: usize, address: u64, round: u8) {
        self.kernels.hold(&self.streams[stream], LATE);
        let to = self.sink + BYTES as u64 * u64::from(round);
        // SAFETY: as for `fill`, and the sink has this many bytes for each round.
        unsafe { result::memcpy_dtod_async(to, address, BYTES, self.streams[stream].cu_stream()) }.unwrap();
    }

    fn wait(&self, waiting: usize, other: usize) {
        self.streams[waiting].join(&self.streams[other]).unwrap();
    }

    /// Checks that each round read its own value.
    fn check(&self) {
        self.streams.iter().for_each(|stream| stream.synchronize().unwrap());
        let mut all = vec![0u8; BYTES * usize::from(ROUNDS)];
        // SAFETY: the sink has as many bytes, and no work uses it any more.
        unsafe { result::memcpy_dtoh_sync(&mut all, self.sink) }.unwrap();
        for (round, read) in all.chunks(BYTES).enumerate() {
            assert!(read.iter().all(|&byte| usize::from(byte) == round), "round {round} read another one's memory");
        }
    }
}

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
const JUNK: u8 = 255;

#[test]
fn a_third_stream_gets_no_memory_that_the_second_still_uses() {
    alone(60, || {
        let Some(three) = Three::get() else { return };
        for round in 0..ROUNDS {
            let memory = three.allocate_more(A, round);
            three.fill(A, memory, round);
            three.wait(B, A);
            three.read_late(B, memory, round);
            gpucache_capi::free(memory).unwrap();
            // Whoever asks on the third stream knows nothing of the second.
            let other = three.allocate_more(C, round);
            three.fill(C, other, JUNK);
            gpucache_capi::free(other).unwrap();
            // From now on the first stream may use the memory again.
            three.wait(A, B);
            let next = three.allocate_more(A, round);
            three.fill(A, next, JUNK);
            gpucache_capi::free(next).unwrap();
        }
        three.check();
    });
}

#[test]
fn a_recorded_stream_is_waited_for() {
    alone(60, || {
        let Some(three) = Three::get() else { return };
        for round in 0..ROUNDS {
            let memory = three.allocate(A);
            three.fill(A, memory, round);
            three.wait(B, A);
            gpucache_capi::record_stream(memory, three.handle(B)).unwrap();
            three.read_late(B, memory, round);
            gpucache_capi::free(memory).unwrap();
            // Nobody waits for the second stream but gpucache.
            for stream in [A, C] {
                let next = three.allocate(stream);
                three.fill(stream, next, JUNK);
                gpucache_capi::free(next).unwrap();
            }
        }
        three.check();
    });
}

#[test]
fn a_shortage_passes_memory_on_behind_all_work() {
    alone(60, || {
        let Some(three) = Three::get() else { return };
        gpucache_capi::set_limit(0, "8MiB").unwrap();
        for round in 0..ROUNDS {
            // All of the limit goes from one stream to the next.
            let [from, to] = [A, C].map(|stream| if round % 2 == 0 { stream } else { C - stream });
            let all: Vec<u64> = (0..7).map(|_| three.allocate(from)).collect();
            all.iter().for_each(|&memory| three.fill(from, memory, round));
            three.wait(B, from);
            three.read_late(B, all[3], round);
            all.into_iter().for_each(|memory| gpucache_capi::free(memory).unwrap());
            let other: Vec<u64> = (0..7).map(|_| three.allocate(to)).collect();
            other.iter().for_each(|&memory| three.fill(to, memory, JUNK));
            other.into_iter().for_each(|memory| gpucache_capi::free(memory).unwrap());
            three.wait(from, B);
            three.wait(to, B);
        }
        three.check();
        assert!(gpucache_capi::device_stats(0).unwrap().peak_reserved_bytes <= 8 << 20);
    });
}

/// Far longer than any one wait of a reclaim step.
const LONG: Duration = Duration::from_millis(800);
/// Far longer than all steps together take, on a machine that does much other work, too.
const VERY_LONG: Duration = Duration::from_secs(6);

/// PyTorch waits for the device before it reports that memory is short, however long that takes.
#[test]
fn a_shortage_outlasts_long_work() {
    alone(60, || {
        let Some(three) = Three::get() else { return };
        gpucache_capi::set_limit(0, "8MiB").unwrap();
        let all: Vec<u64> = (0..7).map(|_| three.allocate(A)).collect();
        all.iter().for_each(|&memory| three.fill(A, memory, 0));
        three.wait(B, A);
        // Begins before the work does, so that a late thread changes nothing.
        let start = Instant::now();
        three.kernels.hold(&three.streams[B], LONG.as_micros() as u64);
        three.read_late(B, all[3], 0);
        all.into_iter().for_each(|memory| gpucache_capi::free(memory).unwrap());
        let other: Vec<u64> = (0..7).map(|_| three.allocate(C)).collect();
        assert!(start.elapsed() >= LONG, "the memory was still in use");
        // Without enough free memory, an error comes before the work is done.
        three.kernels.hold(&three.streams[B], VERY_LONG.as_micros() as u64);
        let start = Instant::now();
        assert!(gpucache_capi::allocate(8 * BYTES, 0, three.handle(C)).is_err());
        assert!(start.elapsed() < VERY_LONG, "nothing would become free: {:?}", start.elapsed());
        other.into_iter().for_each(|memory| gpucache_capi::free(memory).unwrap());
    });
}

#[test]
fn a_thread_of_a_backward_pass_uses_the_scope_that_waits_for_it() {
    alone(60, || {
        let Some(three) = Three::get() else { return };
        let handle = three.handle(A);
        let backward = move |kept: Vec<u64>| {
            let backward = move || {
                kept.into_iter().rev().for_each(|memory| {
                    let gradient = gpucache_capi::allocate(BYTES, 0, handle).unwrap();
                    gpucache_capi::free(memory).unwrap();
                    gpucache_capi::free(gradient).unwrap();
                });
            };
            std::thread::Builder::new().name("pt_autograd_0".into()).spawn(backward).unwrap().join().unwrap();
        };
        for _ in 0..10 {
            let entry = gpucache_capi::enter("step").unwrap();
            backward((0..20).map(|_| three.allocate(A)).collect());
            gpucache_capi::leave(entry).unwrap();
        }
        let stats = gpucache::stats("step").unwrap();
        assert_eq!(stats.allocations(), 10 * 40, "{stats}");
        assert!(stats.served.planned.allocations >= 7 * 40, "{stats}");
    });
}

#[test]
fn a_trim_gives_back_what_a_backward_pass_freed() {
    alone(60, || {
        let Some(three) = Three::get() else { return };
        let handle = three.handle(A);
        let (done, is_done) = std::sync::mpsc::channel();
        let backward = move || {
            (1..20).for_each(|size| {
                gpucache_capi::free(gpucache_capi::allocate(BYTES * size, 0, handle).unwrap()).unwrap()
            });
            done.send(()).unwrap();
            // As PyTorch's threads do, this one lives on.
            std::thread::park();
        };
        gpucache_capi::free(three.allocate(A)).unwrap();
        std::thread::Builder::new().name("pt_autograd_0".into()).spawn(backward).unwrap();
        is_done.recv().unwrap();
        gpucache_capi::trim(0).unwrap();
        assert_eq!(gpucache_capi::device_stats(0).unwrap().reserved_bytes, 0);
    });
}

/// Programs destroy streams of their own. The memory of such a stream may still wait for an event there, so its end is told.
#[test]
fn a_stream_that_is_destroyed_disturbs_nobody() {
    alone(60, || {
        let Some(_gpu) = Gpu::get() else { return };
        let new = || result::stream::create(result::stream::StreamKind::NonBlocking).unwrap();
        let kept = new() as usize;
        let entry = gpucache_capi::enter("s").unwrap();
        for is_recorded in [true, false] {
            let gone = new();
            let handle = gone as usize;
            let address = gpucache_capi::allocate(SMALL, 0, if is_recorded { kept } else { handle }).unwrap();
            if is_recorded {
                gpucache_capi::record_stream(address, handle).unwrap();
            }
            gpucache_capi::free(address).unwrap();
            result::ctx::synchronize().unwrap();
            gpucache_capi::stream_ends(0, handle).unwrap();
            // SAFETY: the stream was made above, has no work, and is not used again.
            unsafe { destroy_unnoticed(gone.cast()) };
            for round in 0..100 {
                let address = gpucache_capi::allocate(SMALL, 0, kept).unwrap();
                if round % 2 == 1 {
                    gpucache_capi::free(address).unwrap();
                }
            }
        }
        gpucache_capi::leave(entry).unwrap();
        gpucache_capi::trim(0).unwrap();
    });
}
