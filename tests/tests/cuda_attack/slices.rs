//! One slice of an array that is used on two streams, and work by address beside a slice. Slow work makes every wrong order show in
//! the contents.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut};
use gpucache::prelude::*;
use gpucache_tests::alike::are_all;
use gpucache_tests::alone::alone;
use gpucache_tests::gpu::{Gpu, Kernels};

use crate::bare::copy_at;
use crate::{Tally, by_service};

const LEN: usize = 1 << 18;
const BYTES: usize = 4 * LEN;
/// Longer than the host takes to go on, in microseconds.
const WHILE: u64 = 3000;

fn wrong(values: &[u32], expected: u32) -> bool {
    !are_all(values, expected)
}

fn full(stream: &Cuda, value: u32) -> Array<u32, Cuda> {
    Array::full(stream, LEN, value).unwrap()
}

/// Three streams of one context: the home stream, a stream with slow work, and a stream with fast work.
struct Three {
    home: Cuda,
    slowly: Arc<CudaStream>,
    fast: Arc<CudaStream>,
    slow: Kernels,
    late: CudaSlice<u32>,
    early: CudaSlice<u32>,
    _gpu: Gpu,
}

impl Three {
    fn get() -> Option<Three> {
        let gpu = Gpu::get()?;
        let slow = gpu.kernels()?;
        let context = gpu.cuda.stream().context();
        let [home, slowly, fast] = [(); 3].map(|()| context.new_stream().unwrap());
        let home = Cuda::with_stream(home).unwrap();
        let [late, early] = [&slowly, &fast].map(|stream| stream.alloc_zeros(LEN).unwrap());
        Some(Three { home, slowly, fast, slow, late, early, _gpu: gpu })
    }

    fn synchronize(&self) {
        self.home.stream().context().synchronize().unwrap();
    }

    /// An array of ones. The slow stream is then busy for a while.
    fn begin(&self) -> Array<u32, Cuda> {
        let array = full(&self.home, 1);
        self.synchronize();
        self.slow.hold(&self.slowly, WHILE);
        array
    }

    /// Whether the slow reader saw anything but ones.
    fn is_late_wrong(&self) -> bool {
        self.synchronize();
        wrong(&self.slowly.clone_dtoh(&self.late).unwrap(), 1)
    }

    /// Reads one view, or one dereferenced slice, on both streams.
    fn read_twice(&mut self, array: &Array<u32, Cuda>, by_view: bool) {
        if by_view {
            let view = array.as_view();
            self.slowly.memcpy_dtod(&view, &mut self.late).unwrap();
            self.fast.memcpy_dtod(&view, &mut self.early).unwrap();
        } else {
            let slice: &CudaSlice<u32> = array;
            self.slowly.memcpy_dtod(slice, &mut self.late).unwrap();
            self.fast.memcpy_dtod(slice, &mut self.early).unwrap();
        }
    }
}

#[test]
fn a_slice_that_is_read_on_two_streams_is_behind_both() {
    alone(60, || {
        let Some(mut three) = Three::get() else { return };
        let mut tally = Tally::default();
        for (by_view, what) in [(true, "a view"), (false, "a slice")] {
            by_service(&mut tally, &format!("{what} read twice, then the next life"), || {
                let array = three.begin();
                three.read_twice(&array, by_view);
                drop(array);
                let _next = full(&three.home, 2);
                three.is_late_wrong()
            });
            by_service(&mut tally, &format!("{what} read twice, then a write at home"), || {
                let mut array = three.begin();
                three.read_twice(&array, by_view);
                three.home.stream().memset_zeros(&mut array).unwrap();
                three.is_late_wrong()
            });
            by_service(&mut tally, &format!("{what} read twice, then a fill at home"), || {
                let mut array = three.begin();
                three.read_twice(&array, by_view);
                array.copy_from_slice(&[2; LEN]).unwrap();
                three.is_late_wrong()
            });
            by_service(&mut tally, &format!("{what} read twice, then a write elsewhere"), || {
                let mut array = three.begin();
                three.read_twice(&array, by_view);
                three.fast.memset_zeros(&mut array).unwrap();
                three.is_late_wrong()
            });
            by_service(&mut tally, &format!("{what} read twice, then a write by a view"), || {
                let mut array = three.begin();
                three.read_twice(&array, by_view);
                three.fast.memset_zeros(&mut array.as_view_mut()).unwrap();
                three.is_late_wrong()
            });
        }
        tally.finish();
    });
}

#[test]
fn a_view_that_is_written_on_two_streams_is_behind_both() {
    alone(60, || {
        let Some(mut three) = Three::get() else { return };
        let mut tally = Tally::default();
        let sevens = three.slowly.clone_htod(&vec![7u32; LEN]).unwrap();
        // A known limit of cudarc's own events: one `CudaViewMut` that is read on two streams and then written forgets the first.
        by_service(&mut tally, "an array read slowly, its view written", || {
            let mut array = three.begin();
            three.slowly.memcpy_dtod(&array, &mut three.late).unwrap();
            three.fast.memcpy_dtod(&array, &mut three.early).unwrap();
            let mut view = array.as_view_mut();
            three.fast.memset_zeros(&mut view).unwrap();
            drop(array);
            let next = full(&three.home, 2);
            three.is_late_wrong() || wrong(&next.to_vec().unwrap(), 2)
        });
        by_service(&mut tally, "a view written slowly and read", || {
            let mut array = three.begin();
            let mut view = array.as_view_mut();
            three.slowly.memcpy_dtod(&sevens, &mut view).unwrap();
            three.fast.memcpy_dtod(&view, &mut three.early).unwrap();
            drop(array);
            let next = full(&three.home, 2);
            three.synchronize();
            wrong(&three.fast.clone_dtoh(&three.early).unwrap(), 7) || wrong(&next.to_vec().unwrap(), 2)
        });
        tally.finish();
    });
}

/// A use after which an array has a slice.
type Lend = fn(&mut Array<u32, Cuda>, &Arc<CudaStream>);

const LENT: [(&str, Lend); 4] = [
    ("a view", |array, _| _ = array.as_view()),
    ("a mutable view", |array, _| _ = array.as_view_mut()),
    ("a deref", |array, _| _ = CudaSlice::len(array)),
    ("a write elsewhere", |array, stream| stream.memset_zeros(array).unwrap()),
];

/// The array's own stream is in order with all other uses, with or without the address.
#[test]
fn work_by_address_is_in_order_with_a_slice() {
    alone(60, || {
        let Some(three) = Three::get() else { return };
        let mut tally = Tally::default();
        let (own, other) = (three.home.stream().clone(), &three.slowly);
        let mut sink = own.alloc_zeros::<u32>(LEN).unwrap();
        let ones = own.clone_htod(&vec![1u32; LEN]).unwrap();
        let mut seen = other.alloc_zeros::<u32>(LEN).unwrap();
        let (sink_at, ones_at) = (sink.device_ptr_mut(&own).0, ones.device_ptr(&own).0);
        for ((what, lend), is_announced) in LENT.iter().flat_map(|lend| [(lend, false), (lend, true)]) {
            let what = format!("after {what}, {}", if is_announced { "announced" } else { "not announced" });
            let begin = || {
                let mut array = full(&three.home, 5);
                lend(&mut array, other);
                array.copy_from_slice(&[5; LEN]).unwrap();
                three.synchronize();
                three.slow.hold(&own, WHILE);
                array
            };
            by_service(&mut tally, &format!("{what}: a read by address, then a write elsewhere"), || {
                let mut array = begin();
                if is_announced {
                    array.announce_read(&three.home).unwrap();
                }
                // SAFETY: both have `LEN` elements, and both belong to this stream.
                unsafe { copy_at(&own, sink_at, array.address(), BYTES) };
                other.memset_zeros(&mut array).unwrap();
                three.synchronize();
                wrong(&own.clone_dtoh(&sink).unwrap(), 5)
            });
            by_service(&mut tally, &format!("{what}: a write by address, then a read elsewhere"), || {
                let mut array = begin();
                if is_announced {
                    array.announce_write(&three.home).unwrap();
                }
                // SAFETY: as above.
                unsafe { copy_at(&own, array.address(), ones_at, BYTES) };
                other.memcpy_dtod(&array, &mut seen).unwrap();
                three.synchronize();
                wrong(&other.clone_dtoh(&seen).unwrap(), 1)
            });
        }
        tally.finish();
    });
}
