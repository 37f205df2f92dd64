//! Memory that is freed while the GPU still uses it: a range waits for it before it grows, but not again and again.
#![cfg(all(feature = "cuda", target_os = "linux"))]
#![allow(clippy::panic, clippy::unwrap_used)]

use gpucache_capi::{allocate, device_stats, enter, free, leave, reset_peaks};
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
