//! Memory that must not be handed out yet, and calls whose effects must be those of the driver.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use cudarc::driver::{CudaContext, CudaStream, result, sys, sys::CUresult};

use crate::report::{Outcome, Report, ensure};
use crate::slices::pattern;
use crate::{driver, front_end};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const LENGTH: usize = 100_000;
/// The rounds of `first_use`, unless the variable `ROUNDS` of the environment says another number.
const ROUNDS: u32 = 2000;
const BYTES: usize = LENGTH * 4;

/// The contents of memory once the stream reaches this point.
fn found(stream: &CudaStream, address: u64) -> Outcome<Vec<u32>> {
    let mut found = vec![0; LENGTH];
    // SAFETY: the callers give an allocation of this many elements. The stream is done before they are read.
    unsafe { result::memcpy_dtoh_async(&mut found, address, stream.cu_stream())? };
    stream.synchronize()?;
    Ok(found)
}

fn fill(stream: &CudaStream, address: u64, seed: u32) -> Outcome<()> {
    // SAFETY: the callers give an allocation of this many elements. Pageable memory is staged before the call returns.
    unsafe { result::memcpy_htod_async(address, &pattern(seed, LENGTH), stream.cu_stream())? };
    Ok(())
}

/// Several threads use a stream for the first time at once. From then on it is one stream for all of them: memory that it frees
/// goes to nobody else while its work goes on.
pub(crate) fn first_use() -> Outcome {
    const THREADS: usize = 4;
    const MOST: u32 = 3;
    let rounds = std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS);
    let context = CudaContext::new(0)?;
    let (known, other) = (context.new_stream()?, context.new_stream()?);
    // SAFETY: nobody else has this memory, which is never freed.
    let copy = unsafe { result::malloc_sync(BYTES)? };
    let (turn, freed) = (Arc::new(Mutex::new(())), Arc::new(AtomicU64::new(0)));
    let mut raced = 0;
    for round in 0..rounds {
        let stream = context.new_stream()?;
        let (barrier, places) = (Arc::new(Barrier::new(THREADS)), Arc::new([const { AtomicU64::new(0) }; THREADS]));
        let before = freed.load(SeqCst);
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let (stream, known, other) = (stream.clone(), known.clone(), other.clone());
                let (context, barrier, places) = (context.clone(), barrier.clone(), places.clone());
                let (turn, freed) = (turn.clone(), freed.clone());
                std::thread::spawn(move || -> Outcome<()> {
                    context.bind_to_thread()?;
                    // SAFETY: each allocation is freed once, and before that used in the order of its stream.
                    front_end::scoped(|| unsafe {
                        let warm = result::malloc_async(known.cu_stream(), 512)?;
                        result::free_async(warm, known.cu_stream())?;
                        barrier.wait();
                        places[number].store(result::malloc_async(stream.cu_stream(), BYTES)?, SeqCst);
                        barrier.wait();
                        result::free_async(places[(number + 1) % THREADS].load(SeqCst), stream.cu_stream())
                    })?;
                    barrier.wait();
                    let _turn = turn.lock().map_err(|_| "a thread panicked")?;
                    freed.store(front_end::freed_elsewhere(), SeqCst);
                    if freed.load(SeqCst) == before {
                        return Ok(());
                    }
                    // SAFETY: as above.
                    front_end::scoped(|| unsafe {
                        let address = result::malloc_async(stream.cu_stream(), BYTES)?;
                        fill(&stream, address, round)?;
                        driver::delay(&stream, 50)?;
                        result::memcpy_dtod_async(copy, address, BYTES, stream.cu_stream())?;
                        Ok::<_, Failure>(result::free_async(address, stream.cu_stream())?)
                    })?;
                    gpucache::invalidate("step");
                    // SAFETY: as above.
                    front_end::scoped(|| unsafe {
                        let next = result::malloc_async(other.cu_stream(), BYTES)?;
                        fill(&other, next, 0xFFF)?;
                        other.synchronize()?;
                        Ok::<_, Failure>(result::free_async(next, other.cu_stream())?)
                    })?;
                    ensure(found(&stream, copy)? == pattern(round, LENGTH), || {
                        format!("memory was handed out in round {round} while a stream used it")
                    })
                })
            })
            .collect();
        for thread in threads {
            thread.join().map_err(|_| "a thread panicked")??;
        }
        raced += u32::from(freed.load(SeqCst) > before);
        if raced == MOST {
            break;
        }
    }
    ensure(raced == 0, || format!("{raced} times a stream was two"))?;
    front_end::add_to(Report::default().number("rounds", u64::from(rounds)))
}

/// A thread without a context frees memory without a stream. A free that the driver would refuse is refused, or it waits.
pub(crate) fn host_without_context() -> Outcome {
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    // SAFETY: memory is used only while it is allocated. A refused free leaves it allocated; any other free waits.
    unsafe {
        let copy = result::malloc_sync(BYTES)?;
        for round in 0..10 {
            let address = front_end::scoped(|| result::malloc_sync(BYTES))?;
            fill(&stream, address, round)?;
            driver::delay(&stream, 50)?;
            result::memcpy_dtod_async(copy, address, BYTES, stream.cu_stream())?;
            let freed = std::thread::spawn(move || result::free_sync(address)).join().map_err(|_| "a panic")?;
            let next = front_end::scoped(|| result::malloc_sync(BYTES))?;
            result::memcpy_htod_sync(next, &pattern(0xFFF, LENGTH))?;
            ensure(found(&stream, copy)? == pattern(round, LENGTH), || format!("round {round}, {freed:?}"))?;
            result::free_sync(next)?;
        }
    }
    front_end::add_to(Report::default())
}

/// The program decides which context is current.
pub(crate) fn current_context() -> Outcome {
    let context = CudaContext::new(0)?;
    let (stream, other) = (context.new_stream()?, context.new_stream()?);
    let raw = stream.cu_stream() as usize;
    let past = other.cu_stream() as usize;
    // SAFETY: the streams live until they are destroyed below, and the memory is freed once.
    unsafe {
        let address = front_end::scoped(|| result::malloc_async(stream.cu_stream(), BYTES))?;
        let elsewhere = front_end::scoped(|| result::malloc_async(other.cu_stream(), BYTES))?;
        result::free_async(elsewhere, other.cu_stream())?;
        std::mem::forget(other);
        std::thread::spawn(move || {
            let current = || result::ctx::get_current().map(|context| context.is_some());
            ensure(!current()?, || "a new thread has a context".into())?;
            let served = front_end::scoped(|| result::malloc_async(raw as sys::CUstream, BYTES));
            ensure(!current()?, || format!("an allocation made a context current: {served:?}"))?;
            result::free_async(address, raw as sys::CUstream)?;
            ensure(!current()?, || "a free made a context current".into())?;
            result::stream::destroy(past as sys::CUstream)?;
            ensure(!current()?, || "the end of a stream made a context current".into())
        })
        .join()
        .map_err(|_| "a panic")??;
    }
    front_end::add_to(Report::default())
}

/// The driver has to refuse calls without a place for their result.
pub(crate) fn no_place() -> Outcome {
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let (mut total, nowhere) = (0, std::ptr::null_mut());
    // SAFETY: the driver refuses a null pointer, or leaves that result out.
    unsafe {
        let _ = sys::cuMemGetInfo_v2(nowhere, &mut total);
        for _ in 0..8 {
            front_end::scoped(|| {
                let first = result::malloc_async(stream.cu_stream(), 1000)?;
                let refused = sys::cuMemAllocAsync(nowhere.cast(), BYTES, stream.cu_stream());
                ensure(refused == CUresult::CUDA_ERROR_INVALID_VALUE, || format!("{refused:?}"))?;
                let refused = sys::cuMemAlloc_v2(nowhere.cast(), BYTES);
                ensure(refused == CUresult::CUDA_ERROR_INVALID_VALUE, || format!("{refused:?}"))?;
                Ok::<_, Failure>(result::free_async(first, stream.cu_stream())?)
            })?;
        }
    }
    front_end::add_to(Report::default())
}

pub(crate) fn sizes() -> Outcome {
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let raw = stream.cu_stream();
    let huge = [
        usize::MAX,
        usize::MAX - 1,
        usize::MAX - 255,
        usize::MAX - 511,
        usize::MAX / 2,
        usize::MAX / 2 + 1,
        1 << 62,
        1 << 47,
        1 << 40,
    ];
    let short = |bytes: usize, answer: Result<u64, cudarc::driver::DriverError>, what: &str| {
        ensure(answer.map_err(|error| error.0) == Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY), || {
            format!("{what} {bytes:#x}: {answer:?}")
        })
    };
    // SAFETY: memory is freed once, and nothing uses it.
    unsafe {
        for scope in [false, true, true, true, true, true, true] {
            let work = || -> Outcome<()> {
                for bytes in huge {
                    short(bytes, result::malloc_async(raw, bytes), "async")?;
                    short(bytes, result::malloc_sync(bytes), "sync")?;
                }
                let zero = result::malloc_async(raw, 0);
                ensure(zero == Ok(0), || format!("{zero:?}"))?;
                let zero = result::malloc_sync(0);
                ensure(zero.is_err(), || format!("{zero:?}"))?;
                result::free_async(0, raw)?;
                result::free_sync(0)?;
                let mut all = Vec::new();
                for bytes in [1, 2, 255, 256, 257, 511, 513, 1 << 20, (1 << 20) + 1] {
                    all.push((result::malloc_async(raw, bytes)?, bytes));
                    all.push((result::malloc_sync(bytes)?, bytes));
                }
                ensure(all.iter().all(|(address, _)| address % 256 == 0), || format!("{all:x?}"))?;
                all.sort_unstable();
                ensure(all.windows(2).all(|two| two[0].0 + two[0].1 as u64 <= two[1].0), || format!("{all:x?}"))?;
                for (number, (address, _)) in all.into_iter().enumerate() {
                    if number % 2 == 0 { result::free_async(address, raw)? } else { result::free_sync(address)? }
                }
                Ok(())
            };
            if scope { front_end::scoped(work) } else { work() }
                .map_err(|error| format!("{error}, in a scope: {scope}"))?;
        }
    }
    let (free, total) = context.mem_get_info()?;
    ensure(free <= total, || format!("{free} of {total}"))?;
    front_end::add_to(Report::default().number("free", free as u64))
}

/// A request without a stream is refused, and then one is served, while a stream still uses memory that it freed.
pub(crate) fn host_refused() -> Outcome {
    let context = CudaContext::new(0)?;
    let (_, total) = context.mem_get_info()?;
    let (stream, other) = (context.new_stream()?, context.new_stream()?);
    // SAFETY: memory is used while it is allocated, in the order of its stream, or at once if it has none.
    unsafe {
        let copy = result::malloc_sync(BYTES)?;
        for round in 0..5 {
            front_end::scoped(|| {
                let address = result::malloc_async(stream.cu_stream(), BYTES)?;
                fill(&stream, address, round)?;
                driver::delay(&stream, 4000)?;
                result::memcpy_dtod_async(copy, address, BYTES, stream.cu_stream())?;
                Ok::<_, Failure>(result::free_async(address, stream.cu_stream())?)
            })?;
            gpucache::invalidate("step");
            let done = front_end::scoped(|| {
                let refused = result::malloc_sync(total);
                ensure(refused.is_err(), || "the whole device".into())?;
                let mut all = Vec::new();
                while let Ok(next) = result::malloc_sync(BYTES) {
                    fill(&other, next, 0xFFF)?;
                    other.synchronize()?;
                    all.push(next);
                }
                let kept = found(&stream, copy)?;
                for next in &all {
                    result::free_sync(*next)?;
                }
                ensure(kept == pattern(round, LENGTH), || format!("round {round} with {} blocks", all.len()))
            });
            done?;
            gpucache::invalidate("step");
        }
    }
    front_end::add_to(Report::default())
}

/// Two threads request memory without a stream at once, while another stream still uses memory that it freed.
pub(crate) fn host_at_once() -> Outcome {
    let context = CudaContext::new(0)?;
    let (stream, other) = (context.new_stream()?, context.new_stream()?);
    // SAFETY: memory is used while it is allocated, in the order of its stream, or at once if it has none.
    unsafe {
        let copies: Vec<u64> = (0..8).map(|_| result::malloc_sync(BYTES)).collect::<Result<_, _>>()?;
        for round in 0..5 {
            front_end::scoped(|| {
                let mut all = Vec::new();
                while let Ok(address) = result::malloc_async(stream.cu_stream(), BYTES) {
                    all.push(address);
                }
                for (number, address) in all.iter().enumerate() {
                    fill(&stream, *address, number as u32)?;
                }
                driver::delay(&stream, 4000)?;
                for (number, address) in all.iter().enumerate() {
                    if number < copies.len() {
                        result::memcpy_dtod_async(copies[number], *address, BYTES, stream.cu_stream())?;
                    }
                    result::free_async(*address, stream.cu_stream())?;
                }
                Ok::<_, Failure>(())
            })?;
            gpucache::invalidate("step");
            let threads: Vec<_> = (0..4u64)
                .map(|number| {
                    let (context, other) = (context.clone(), other.clone());
                    std::thread::spawn(move || -> Outcome<()> {
                        context.bind_to_thread()?;
                        std::thread::sleep(Duration::from_millis(50 * number));
                        front_end::scoped(|| {
                            let mut all = Vec::new();
                            for _ in 0..3 {
                                let next = result::malloc_sync(BYTES)?;
                                fill(&other, next, 0xFFF)?;
                                other.synchronize()?;
                                all.push(next);
                            }
                            for next in all {
                                result::free_sync(next)?;
                            }
                            Ok(())
                        })
                    })
                })
                .collect();
            for thread in threads {
                thread.join().map_err(|_| "a panic")??;
            }
            for (number, copy) in copies.iter().enumerate() {
                ensure(found(&stream, *copy)? == pattern(number as u32, LENGTH), || {
                    format!("round {round}, copy {number}")
                })?;
            }
            gpucache::invalidate("step");
        }
    }
    front_end::add_to(Report::default())
}

/// A stream ends by a call that gpucache does not see, with work on its way. Another stream gets its handle.
pub(crate) fn unseen_end() -> Outcome {
    let context = CudaContext::new(0)?;
    let other = context.new_stream()?;
    // SAFETY: each allocation is freed once, and before that used in the order of its stream. Each stream is destroyed once.
    unsafe {
        let copy = result::malloc_sync(BYTES)?;
        for round in 0..10 {
            let first = result::stream::create(result::stream::StreamKind::NonBlocking)?;
            let stream = context.wrap_borrowed_stream(first);
            front_end::scoped(|| {
                let address = result::malloc_async(first, BYTES)?;
                fill(&stream, address, round)?;
                driver::delay(&stream, 100)?;
                result::memcpy_dtod_async(copy, address, BYTES, first)?;
                Ok::<_, Failure>(result::free_async(address, first)?)
            })?;
            driver::destroy(&stream)?;
            let second = result::stream::create(result::stream::StreamKind::NonBlocking)?;
            ensure(first == second, || "the handle was not given out again".into())?;
            front_end::scoped(|| {
                // gpucache notices that this is another stream.
                let address = result::malloc_async(second, 512)?;
                Ok::<_, Failure>(result::free_async(address, second)?)
            })?;
            gpucache::invalidate("step");
            front_end::scoped(|| {
                let next = result::malloc_async(other.cu_stream(), BYTES)?;
                fill(&other, next, 0xFFF)?;
                other.synchronize()?;
                Ok::<_, Failure>(result::free_async(next, other.cu_stream())?)
            })?;
            context.synchronize()?;
            ensure(found(&other, copy)? == pattern(round, LENGTH), || format!("round {round}"))?;
            result::stream::destroy(second)?;
        }
    }
    front_end::add_to(Report::default())
}

/// A thread's work on its own default stream while its thread-locals end.
struct AtEnd(Option<(u64, u64, u32)>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        let Some((address, copy, _)) = self.0.take() else { return };
        let own = 2 as sys::CUstream;
        // SAFETY: both are allocations of as many bytes. The first is freed once, behind the copy.
        let done = unsafe {
            driver::delay_raw(own, 100)
                .and_then(|()| Ok(result::memcpy_dtod_async(copy, address, BYTES, own)?))
                .and_then(|()| Ok(result::free_async(address, own)?))
        };
        if let Err(error) = done {
            eprintln!("at the end of a thread: {error}");
        }
    }
}

thread_local! {
    static AT_END: std::cell::RefCell<AtEnd> = const { std::cell::RefCell::new(AtEnd(None)) };
}

/// The destructor of a thread-local gives work to its thread's own default stream.
pub(crate) fn thread_end() -> Outcome {
    let context = CudaContext::new(0)?;
    let other = context.new_stream()?;
    // SAFETY: each allocation is freed once, and before that used in the order of its stream.
    unsafe {
        let copy = result::malloc_sync(BYTES)?;
        for round in 0..10 {
            let (here, known) = (context.clone(), other.clone());
            let thread = std::thread::spawn(move || -> Outcome<()> {
                here.bind_to_thread()?;
                let own = here.per_thread_stream();
                own.synchronize()?;
                front_end::scoped(|| {
                    let warm = result::malloc_async(known.cu_stream(), 512)?;
                    result::free_async(warm, known.cu_stream())
                })?;
                AT_END.with_borrow_mut(|_| ());
                let address = front_end::scoped(|| result::malloc_async(own.cu_stream(), BYTES))?;
                fill(&own, address, round)?;
                AT_END.with_borrow_mut(|at_end| at_end.0 = Some((address, copy, round)));
                Ok(())
            });
            thread.join().map_err(|_| "a panic")??;
            gpucache::invalidate("step");
            front_end::scoped(|| {
                let next = result::malloc_async(other.cu_stream(), BYTES)?;
                fill(&other, next, 0xFFF)?;
                other.synchronize()?;
                Ok::<_, Failure>(result::free_async(next, other.cu_stream())?)
            })?;
            context.synchronize()?;
            ensure(found(&other, copy)? == pattern(round, LENGTH), || format!("round {round}"))?;
        }
    }
    front_end::add_to(Report::default())
}

/// A stream is destroyed while a thread waits for its work. That work waits for the thread that destroys the stream.
pub(crate) fn destroyed_meanwhile() -> Outcome {
    static GO: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
    unsafe extern "C" fn wait(_: *mut std::ffi::c_void) {
        while !GO.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let context = CudaContext::new(0)?;
    // SAFETY: the function takes no argument, the memory is freed once, and the stream is destroyed once.
    unsafe {
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking)?;
        let address = front_end::scoped(|| {
            let warm = result::malloc_async(stream, 512)?;
            result::free_async(warm, stream)?;
            result::malloc_sync(BYTES)
        })?;
        result::stream::launch_host_function(stream, wait, std::ptr::null_mut())?;
        let raw = stream as usize;
        let other = context.clone();
        let thread = std::thread::spawn(move || {
            other.bind_to_thread()?;
            result::free_async(address, raw as sys::CUstream)
        });
        std::thread::sleep(Duration::from_millis(200));
        result::stream::destroy(stream)?;
        GO.store(true, SeqCst);
        thread.join().map_err(|_| "a panic")??;
    }
    front_end::add_to(Report::default())
}

/// Slices that a scope served become arrays, which are dropped inside and outside of scopes.
pub(crate) fn adopted() -> Outcome {
    use gpucache::prelude::{Array, Cuda};
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let gpu = Cuda::with_stream(stream.clone())?;
    let mut kept = Vec::new();
    for round in 0..60u32 {
        front_end::scoped(|| -> Outcome<()> {
            let array = Array::from_slice(&gpu, LENGTH, &pattern(round, LENGTH))?;
            let slice = stream.clone_htod(&pattern(round, LENGTH))?;
            let adopted = Array::try_from(slice)?;
            ensure(adopted.to_vec()? == pattern(round, LENGTH), || "an adopted slice".into())?;
            let left = cudarc::driver::CudaSlice::try_from(array)?;
            ensure(stream.clone_dtoh(&left)? == pattern(round, LENGTH), || "an array's slice".into())?;
            kept.push(adopted);
            if round % 3 == 0 {
                kept.clear();
            }
            Ok(())
        })?;
        if round % 7 == 0 {
            gpucache::invalidate("step");
        }
        if round % 5 == 0 {
            kept.clear();
        }
    }
    front_end::add_to(Report::default())
}

/// If the program opens a library by the number of a descriptor, it gets that library.
pub(crate) fn own_library() -> Outcome {
    let folder = std::env::var("LD_LIBRARY_PATH")?;
    let files: Vec<_> =
        (0..8).map(|_| std::fs::File::open(format!("{folder}/libcuda.so.1"))).collect::<Result<_, _>>()?;
    for file in &files {
        use std::os::fd::AsRawFd;
        // SAFETY: it is the driver's library, which any process may load.
        let library = unsafe { libloading::Library::new(format!("/proc/self/fd/{}", file.as_raw_fd()))? };
        // SAFETY: the found symbol is not used.
        let is_another = unsafe { library.get::<*const ()>(b"gpucache_hooks\0") }.is_ok();
        ensure(!is_another, || format!("another library was opened for the descriptor {}", file.as_raw_fd()))?;
    }
    let context = CudaContext::new(0)?;
    drop(front_end::scoped(|| context.default_stream().alloc_zeros::<u8>(BYTES))?);
    front_end::add_to(Report::default())
}
