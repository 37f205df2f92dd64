//! Memory that is freed while the GPU still uses it: a range waits for it before it grows, but not again and again.

use gpucache_capi::{allocate, device_stats, enter, free, leave, reset_peaks, set_limit};
use gpucache_tests::alone::alone;
use gpucache_tests::gpu::Gpu;

const MIB: usize = 1 << 20;
/// Longer than the host needs to free and allocate.
const BUSY: u64 = 20_000; // microseconds

/// Allocates small pieces, and then a large one when the GPU still works on the small ones. Small pieces that stay lie between those that
/// were freed. Returns the most memory that was live and reserved.
fn peaks(gpu: &Gpu, steps: usize) -> (u64, u64) {
    let kernels = gpu.kernels().unwrap();
    let stream = gpu.cuda.stream().context().default_stream();
    reset_peaks(0).unwrap();
    for step in 0..steps {
        let entry = enter("step").unwrap();
        let pieces: Vec<u64> =
            (0..32).map(|piece| allocate((2 + 2 * (piece % 2) + step % 2) * MIB, 0, 0).unwrap()).collect();
        kernels.hold(&stream, BUSY);
        pieces.iter().skip(1).step_by(2).for_each(|&piece| free(piece).unwrap());
        free(allocate(80 * MIB, 0, 0).unwrap()).unwrap();
        pieces.into_iter().step_by(2).for_each(|piece| free(piece).unwrap());
        leave(entry).unwrap();
    }
    stream.synchronize().unwrap();
    let used = device_stats(0).unwrap();
    (used.peak_allocated_bytes, used.peak_reserved_bytes)
}

#[test]
fn a_range_waits_for_freed_memory_before_it_grows() {
    alone(120, || {
        let Some(gpu) = Gpu::get() else { return };
        let (live, reserved) = peaks(&gpu, 3);
        assert!(reserved <= live + live / 5, "{reserved} bytes for {live}");
    });
}

/// Half of each page is free, and work of one stream may still use it. A request of another stream waits for that work.
#[test]
fn parts_of_pages_serve_another_stream_once_their_work_is_done() {
    alone(120, || {
        let Some(gpu) = Gpu::get() else { return };
        let kernels = gpu.kernels().unwrap();
        let (stream, other) = (gpu.new_stream().stream().clone(), gpu.new_stream().stream().clone());
        let handle = |stream: &cudarc::driver::CudaStream| stream.cu_stream() as usize;
        set_limit(0, "4MiB").unwrap();
        for round in 0..20 {
            let pieces: Vec<u64> = (0..4).map(|_| allocate(MIB, 0, handle(&stream)).unwrap()).collect();
            kernels.hold(&stream, BUSY / 4);
            pieces[1..3].iter().for_each(|&piece| free(piece).unwrap());
            let found = allocate(MIB, 0, handle(&other)).unwrap_or_else(|error| panic!("round {round}: {error}"));
            [found, pieces[0], pieces[3]].into_iter().for_each(|piece| free(piece).unwrap());
            gpu.cuda.stream().context().synchronize().unwrap();
        }
    });
}
