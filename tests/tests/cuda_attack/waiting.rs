//! No call waits for work that may wait for this call: callbacks that drop arrays, streams that wait for the host, streams with
//! long work.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use cudarc::driver::{CudaStream, result, sys};
use gpucache::prelude::*;
use gpucache_tests::alone::alone;
use gpucache_tests::gpu::{Gpu, is_made_up};
use gpucache_tests::process::median;

use crate::Service;
use crate::watchdog::Watchdog;

type Values = Array<u32, Cuda>;
type Call = Box<dyn FnOnce() + Send>;

unsafe extern "C" fn run(call: *mut c_void) {
    // SAFETY: `call_back` made the pointer from a box, for this one run.
    let call = unsafe { Box::from_raw(call.cast::<Call>()) };
    call();
}

/// Lets the driver make a call once the stream has reached this point.
fn call_back(stream: &CudaStream, call: impl FnOnce() + Send + 'static) {
    let call: Box<Call> = Box::new(Box::new(call));
    stream.context().bind_to_thread().unwrap();
    // SAFETY: `run` takes the box back, once.
    unsafe { result::stream::launch_host_function(stream.cu_stream(), run, Box::into_raw(call).cast()) }.unwrap();
}

/// Callbacks drop arrays while this thread does something that may wait for the stream.
fn dropped_by_callbacks(what: &'static str, act: fn(&Cuda, usize)) {
    let Some(gpu) = Gpu::get() else { return };
    let Some(slow) = gpu.kernels() else { return };
    let stream = gpu.new_stream();
    for service in Service::SCOPES {
        let _watchdog = Watchdog::over(what);
        let name = format!("dropped by a callback, {service:?}");
        for i in 0..if is_made_up() { 15 } else { 50 } {
            let mut arrays = service.enter(&name, || {
                let len = |j: usize| (1 << 19) + 70_000 * ((5 * j + i) % 14);
                (0..14).map(|j| Array::full(&stream, len(j), 1u32).unwrap()).collect::<Vec<Values>>()
            });
            let kept = arrays.swap_remove(i % 14);
            drop(arrays);
            slow.hold(stream.stream(), 3000);
            call_back(stream.stream(), move || drop(kept));
            act(&stream, i);
        }
        stream.synchronize().unwrap();
        let _ = invalidate(&name);
    }
}

#[test]
fn a_trim_beside_a_callback_that_drops() {
    alone(60, || {
        dropped_by_callbacks("a trim beside a callback that drops", |stream, _| _ = stream.trim());
    });
}

#[test]
fn an_invalidation_beside_a_callback_that_drops() {
    alone(60, || {
        dropped_by_callbacks("an invalidation beside a callback that drops", |_, _| _ = gpucache::invalidate_all());
    });
}

#[test]
fn a_gather_beside_a_callback_that_drops() {
    alone(60, || dropped_by_callbacks("a gather beside a callback that drops", gather));
}

/// Arrays longer than any free stretch, of a plan whose entries differ, so that pages move.
fn gather(stream: &Cuda, i: usize) {
    let len = (4 << 20) + 300_000 * (i % 5);
    Service::Planned.enter("gathers", || drop(Array::full(stream, len, 1u32).unwrap()));
    if i % 10 == 9 {
        let _ = invalidate("gathers");
    }
}

/// A callback may enter scopes, allocate and drop. A refused request is an error; nothing hangs, and nothing is lost.
#[test]
fn callbacks_that_allocate_end() {
    alone(60, || {
        let Some(gpu) = Gpu::get() else { return };
        let stream = gpu.new_stream();
        let (had, refused) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        for service in Service::SCOPES {
            let _watchdog = Watchdog::over("callbacks that allocate");
            let new = move |stream: &Cuda, len: usize| {
                // SAFETY: nobody reads the array.
                service.enter("in callbacks", || unsafe { Array::<u32, _>::uninit(stream, len) })
            };
            for i in 0..100 {
                drop(new(&stream, 50_000 + i).unwrap());
                let (of_callback, had, refused) = (stream.clone(), had.clone(), refused.clone());
                call_back(stream.stream(), move || {
                    let counted = match new(&of_callback, 50_000 + i) {
                        Ok(array) => {
                            drop(array);
                            had
                        }
                        Err(_) => refused,
                    };
                    counted.fetch_add(1, SeqCst);
                });
                match i % 3 {
                    0 => _ = stream.trim(),
                    1 => _ = invalidate("in callbacks"),
                    _ => {}
                }
            }
            stream.synchronize().unwrap_or_else(|error| panic!("{service:?}: {error}"));
            let array = service.enter("in callbacks", || Array::full(&stream, 1000, 3u32).unwrap());
            assert_eq!(array.to_vec().unwrap(), [3; 1000]);
        }
        let counts = (had.load(SeqCst), refused.load(SeqCst));
        println!("allocations in callbacks that were had, and that were refused: {counts:?}");
        assert_eq!(counts.0 + counts.1, 300, "callbacks that ended");
    });
}

/// A number in the host's memory that a stream can wait for.
struct Gate(*mut u32);

impl Gate {
    fn new(gpu: &Gpu) -> Gate {
        gpu.cuda.stream().context().bind_to_thread().unwrap();
        // SAFETY: the context is current, and the memory is never freed.
        let place = unsafe { result::malloc_host(4096, sys::CU_MEMHOSTALLOC_DEVICEMAP) }.unwrap().cast::<u32>();
        // SAFETY: a page of this process's memory.
        unsafe { place.write_volatile(0) };
        Gate(place)
    }

    /// Makes a stream wait until the gate is opened.
    fn shut(&self, stream: &CudaStream) {
        let flags = sys::CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_GEQ as u32;
        // SAFETY: the address is the same on the device, and the memory is never freed.
        unsafe { sys::cuStreamWaitValue32_v2(stream.cu_stream(), self.0 as u64, 1, flags) }.result().unwrap();
    }

    fn open(&self) {
        // SAFETY: as in `new`.
        unsafe { self.0.write_volatile(1) };
    }
}

/// An entry of six arrays. Returns how long it takes the host.
fn entry(service: Service, stream: &Cuda) -> Duration {
    let start = Instant::now();
    service.enter("six arrays", || {
        let new = |i: usize| Array::<u32, _>::zeros(stream, (1 << 18) + 12_500 * i).unwrap();
        drop((0..6).map(new).collect::<Vec<_>>());
    });
    start.elapsed()
}

/// A stream waits for the host, and a warm scope on another stream gets through.
#[test]
fn a_stream_that_waits_for_the_host_holds_nobody_up() {
    alone(60, || {
        let Some(gpu) = Gpu::get() else { return };
        let (a, b) = (gpu.new_stream(), gpu.new_stream());
        for service in Service::SCOPES {
            let gate = Gate::new(&gpu);
            let on_b = |len| service.enter("on the other stream", || drop(Array::<u32, _>::zeros(&b, len).unwrap()));
            (0..50).for_each(|_| _ = entry(service, &a));
            // A miss elsewhere takes the block of the six arrays.
            on_b(3 << 18);
            gpu.cuda.stream().context().synchronize().unwrap();
            let watchdog = Watchdog::over("a scope beside a stream that waits for the host");
            gate.shut(b.stream());
            on_b(1000);
            (0..50).for_each(|_| _ = entry(service, &a));
            a.synchronize().unwrap();
            gate.open();
            b.synchronize().unwrap();
            drop(watchdog);
            let _ = (invalidate("six arrays"), invalidate("on the other stream"));
        }
    });
}

/// The same for calls that give memory back: they may leave pages where they are, but do not wait.
#[test]
fn giving_back_does_not_wait_for_the_host() {
    alone(60, || {
        let Some(gpu) = Gpu::get() else { return };
        let (a, b) = (gpu.new_stream(), gpu.new_stream());
        let gate = Gate::new(&gpu);
        let _ = entry(Service::Ranged, &a);
        let watchdog = Watchdog::over("giving memory back beside a stream that waits for the host");
        gate.shut(b.stream());
        Service::Ranged.enter("on the other stream", || drop(Array::<u32, _>::zeros(&b, 3 << 18).unwrap()));
        let _ = (invalidate("six arrays"), invalidate("on the other stream"));
        a.trim();
        let _ = entry(Service::Ranged, &a);
        a.synchronize().unwrap();
        gate.open();
        b.synchronize().unwrap();
        drop(watchdog);
    });
}

const KERNEL: Duration = Duration::from_millis(200);
const LONGEST_ENTRY: Duration = Duration::from_millis(1);
/// One in this many entries may take longer on a GPU, if the system makes the thread wait for a processor, but never as long as a
/// kernel.
const RARE: usize = 10_000;

/// Entries beside kernels of 200 ms on another stream. The first entries after memory changed hands do not wait for a kernel. Warm
/// entries take at most a millisecond, apart from delays by the system.
#[test]
fn entries_do_not_wait_for_kernels_elsewhere() {
    alone(120, || {
        let Some(gpu) = Gpu::get() else { return };
        let Some(slow) = gpu.kernels() else { return };
        let (a, b) = (gpu.new_stream(), gpu.new_stream());
        slow.hold(b.stream(), 1);
        for service in Service::SCOPES {
            let (mut first, mut warm) = (Vec::new(), Vec::new());
            (0..50).for_each(|_| _ = entry(service, &a));
            for round in 0..12 {
                // In the first rounds the other stream takes memory that the six arrays had.
                let len = if round < 4 { (3 + round) << 18 } else { 3 << 18 };
                let on_b = || Array::<u32, _>::zeros(&b, len).unwrap();
                service.enter("on the other stream", || drop(on_b()));
                gpu.cuda.stream().context().synchronize().unwrap();
                let start = Instant::now();
                slow.hold(b.stream(), KERNEL.as_micros() as u64);
                service.enter("on the other stream", || drop(on_b()));
                let mut times = Vec::new();
                while start.elapsed() < KERNEL * 3 / 4 {
                    times.push(entry(service, &a));
                    // Not more work than the driver queues without waiting.
                    a.synchronize().unwrap();
                }
                if round < 4 { first.extend(times) } else { warm.extend(times) }
            }
            let most = |times: &[Duration]| times.iter().max().copied().unwrap_or(KERNEL);
            let (first, longest) = (most(&first), most(&warm));
            println!(
                "{service:?}: {} warm entries, at most {longest:?}; after memory changed hands {first:?}",
                warm.len()
            );
            let (warm_entries, long) = (warm.len(), warm.iter().filter(|time| **time > LONGEST_ENTRY).count());
            println!("{service:?}: half of them take {:?} at most", median(warm));
            assert!(first < KERNEL / 2, "{service:?}: an entry waited: {first:?}");
            assert!(longest < KERNEL / 2, "{service:?}: a warm entry waited: {longest:?}");
            // The streams of the made-up driver run on the same processors.
            assert!(
                is_made_up() || long <= warm_entries / RARE + 1,
                "{service:?}: {long} of {warm_entries} warm entries took {longest:?}"
            );
            let _ = (invalidate("six arrays"), invalidate("on the other stream"));
        }
    });
}
