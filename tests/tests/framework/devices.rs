//! A framework uses several GPUs, or forks processes: each call works on the device that it names, and changes nothing else of the thread.
//!
//! Each test runs in a process of its own, since the number of devices is read once. With another driver than the made-up one, calls for
//! GPUs that do not exist fail, and must change nothing either.

use std::ffi::{CStr, c_int};
use std::panic::catch_unwind;
use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, result, sys::CUcontext};
use gpucache_capi::{
    allocate, device_stats, enter, free, give_context, invalidate, leave, pool_begin, pool_end, pool_release,
    record_stream, reset_peaks, set_auto_scope, set_limit, stream_ends, trim,
};
use gpucache_tests::alone::alone;
use gpucache_tests::gpu::{Gpu, is_made_up};
use gpucache_tests::madeup;

const BYTES: usize = 3 << 20;
const DEVICES: &str = "12";

fn gpu() -> Option<Gpu> {
    // SAFETY: no other thread of this process runs code of this crate, and the driver has not read the variable yet.
    unsafe { std::env::set_var("MADEUP_DEVICES", DEVICES) };
    Gpu::get()
}

/// Checks that the same context is current after a call as before: a GPU's, or none.
fn keeps_current(context: CUcontext, what: &str, call: impl FnOnce()) {
    // SAFETY: the context is null, or that of a device that the program uses.
    unsafe { result::ctx::set_current(context) }.unwrap();
    call();
    let now = result::ctx::get_current().unwrap().unwrap_or(null_mut());
    assert_eq!(now, context, "{what} has changed the current context");
}

/// The first use of a GPU makes its context. Each call here is the first one for its GPU.
#[test]
fn the_first_use_of_a_gpu_keeps_the_current_context() {
    alone(60, || {
        let Some(gpu) = gpu() else { return };
        let context = gpu.cuda.stream().context().cu_ctx();
        keeps_current(context, "device_stats", || _ = device_stats(1));
        keeps_current(context, "set_limit", || _ = set_limit(2, "1GiB"));
        keeps_current(context, "reset_peaks", || _ = reset_peaks(3));
        keeps_current(context, "trim", || _ = trim(4));
        keeps_current(context, "allocate", || _ = allocate(BYTES, 5, 0));
        keeps_current(context, "stream_ends", || _ = stream_ends(6, 4096));
        keeps_current(context, "pool_begin", || _ = pool_begin(7, (1, 1), Box::new(|_| false)));
        keeps_current(null_mut(), "device_stats", || _ = device_stats(8));
        keeps_current(null_mut(), "allocate", || _ = allocate(BYTES, 9, 0));
        keeps_current(null_mut(), "set_limit", || _ = set_limit(10, "80%"));
        keeps_current(null_mut(), "trim", || _ = trim(11));
    });
}

/// A thread that has a context keeps it.
#[test]
fn a_thread_without_a_context_is_given_that_of_a_gpu() {
    alone(60, || {
        let Some(gpu) = gpu() else { return };
        let context = gpu.cuda.stream().context().cu_ctx();
        keeps_current(context, "give_context", || _ = give_context(1));
        // SAFETY: no context is always accepted.
        unsafe { result::ctx::set_current(null_mut()) }.unwrap();
        give_context(-1).unwrap();
        assert_eq!(result::ctx::get_current().unwrap(), None);
        give_context(0).unwrap();
        assert_eq!(result::ctx::get_current().unwrap(), Some(context));
    });
}

/// PyTorch copies between GPUs by plain copies. If the driver refuses the access of other GPUs, each one uses its own memory.
#[test]
fn gpus_that_a_framework_uses_reach_the_memory_of_each_other() {
    alone(60, || {
        let Some(_) = gpu().filter(|_| is_made_up()) else { return };
        let granted = || madeup::calls(c"cuMemSetAccess");
        let first = allocate(BYTES, 0, 0).unwrap();
        let before = granted();
        let second = allocate(BYTES, 1, 0).unwrap();
        // Each GPU for the pages of the other, and the second one for its new pages.
        assert!(granted() >= before + 3, "{} and {before}", granted());
        madeup::fail(c"cuMemSetAccess", 1, 1, 1);
        let third = allocate(8 * BYTES, 1, 0).unwrap();
        [first, second, third].into_iter().for_each(|memory| free(memory).unwrap());
    });
}

/// Leaves idle memory on GPU 1, inside an entry.
fn idle_memory() -> Option<u64> {
    let entry = enter("step").unwrap();
    for _ in 0..3 {
        let all: Option<Vec<u64>> = (0..9).map(|_| allocate(BYTES, 1, 0).ok()).collect();
        all?.into_iter().for_each(|address| free(address).unwrap());
    }
    Some(entry)
}

#[test]
fn calls_that_return_memory_keep_the_current_context() {
    alone(60, || {
        let Some(gpu) = gpu() else { return };
        let context = gpu.cuda.stream().context().cu_ctx();
        for context in [context, null_mut()] {
            let Some(entry) = idle_memory() else { return };
            keeps_current(context, "trim", || assert!(trim(1).unwrap() > 0));
            leave(entry).unwrap();
            let Some(entry) = idle_memory() else { return };
            keeps_current(context, "invalidate", || assert!(invalidate(None) > 0));
            leave(entry).unwrap();
            let Some(entry) = idle_memory() else { return };
            keeps_current(context, "set_limit", || set_limit(1, "1MiB").unwrap());
            set_limit(1, "none").unwrap();
            keeps_current(context, "leave", || leave(entry).unwrap());
            keeps_current(context, "allocate and free", || free(allocate(BYTES, 1, 0).unwrap()).unwrap());
        }
    });
}

/// A stream of another GPU, if there is one.
fn other_stream() -> Option<Arc<CudaStream>> {
    CudaContext::new(1).ok()?.new_stream().ok()
}

#[test]
fn a_stream_of_another_gpu_is_refused() {
    alone(60, || {
        let Some(gpu) = gpu() else { return };
        let Some(other) = other_stream() else { return };
        let handle = other.cu_stream() as usize;
        let check = || {
            let error = allocate(BYTES, 0, handle).unwrap_err();
            assert!(error.is_unavailable(), "{error}");
            assert!(error.to_string().contains("it is a stream of device 1"), "{error}");
            assert!(error.to_string().contains("pass the device of the stream"), "{error}");
        };
        check();
        let memory = allocate(BYTES, 1, handle).unwrap();
        // Also once the handle is known.
        check();
        free(memory).unwrap();
        assert_eq!(device_stats(0).unwrap().allocations, 0);
        // Copies between GPUs use memory of another device.
        let memory = allocate(BYTES, 0, 0).unwrap();
        record_stream(memory, handle).unwrap();
        free(memory).unwrap();
        // The per-thread stream is that of the device, whichever context is current.
        gpu.cuda.stream().context().bind_to_thread().unwrap();
        let before = device_stats(1).unwrap().allocated_bytes;
        let memory = allocate(BYTES, 1, 2).unwrap();
        assert_eq!(device_stats(1).unwrap().allocated_bytes, before + BYTES as u64);
        free(memory).unwrap();
    });
}

/// A stream of another GPU may copy memory of this one, inside a scope and outside of all.
#[test]
fn memory_that_a_stream_of_another_gpu_used_comes_back() {
    alone(60, || {
        let Some(gpu) = gpu() else { return };
        let Some(other) = other_stream() else { return };
        set_auto_scope(false);
        let reserved = || {
            gpu.cuda.stream().context().synchronize().unwrap();
            trim(0).unwrap();
            device_stats(0).unwrap().reserved_bytes
        };
        let before = reserved();
        for name in [None, Some("copies")] {
            let entry = name.map(|name| enter(name).unwrap());
            let first = allocate(BYTES, 0, 0).unwrap();
            record_stream(first, other.cu_stream() as usize).unwrap();
            free(first).unwrap();
            entry.into_iter().for_each(|entry| leave(entry).unwrap());
            name.into_iter().for_each(|name| assert_eq!(invalidate(Some(name)), BYTES as u64));
            assert_eq!(reserved(), before, "{name:?}");
        }
        assert_eq!(device_stats(0).unwrap().allocated_bytes, 0);
    });
}

#[test]
fn a_stream_that_does_not_exist_is_refused() {
    alone(60, || {
        let Some(_gpu) = gpu() else { return };
        // Other drivers end the process.
        if is_made_up() {
            let error = allocate(BYTES, 0, 0x123_4567).unwrap_err();
            assert!(error.is_unavailable() && error.to_string().contains("the driver knows no such stream"), "{error}");
        }
    });
}

unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
}

/// Runs a function in a forked child. Returns whether the function returned.
fn in_child(act: fn([u64; 2]), parents: [u64; 2]) -> bool {
    // SAFETY: no other thread of this process holds a lock now. The child runs the function, and ends without exit handlers.
    let process = unsafe { fork() };
    if process == 0 {
        let is_done = catch_unwind(|| act(parents)).is_ok();
        // SAFETY: the function has no conditions.
        unsafe { _exit(c_int::from(!is_done)) };
    }
    let mut status = -1;
    // SAFETY: the system writes one number, for which there is room.
    let ended = unsafe { waitpid(process, &mut status, 0) };
    ended == process && status == 0
}

/// A child of a data loader uses host memory, and gets an error for the GPU.
fn child([on_gpu, on_host]: [u64; 2]) {
    record_stream(on_gpu, 0).unwrap();
    free(on_gpu).unwrap();
    free(on_host).unwrap();
    let before = device_stats(-1).unwrap();
    for _ in 0..100 {
        let entry = enter("work").unwrap();
        free(allocate(BYTES, -1, 0).unwrap()).unwrap();
        leave(entry).unwrap();
    }
    let (after, work) = (device_stats(-1).unwrap(), gpucache::stats("work").unwrap());
    assert_eq!(after.allocated_bytes, before.allocated_bytes);
    assert!(after.reserved_bytes <= before.reserved_bytes + 4 * BYTES as u64, "{after:?}");
    assert_eq!((work.busy_bytes, work.allocations()), (0, 100));
    // The parent has used this stream, so the thread knows it.
    for error in [allocate(4096, 0, 0).unwrap_err(), trim(0).unwrap_err(), device_stats(0).unwrap_err()] {
        assert!(error.is_unavailable(), "{error}");
        assert!(error.to_string().contains("a forked child cannot use the GPU"), "{error}");
        assert!(error.to_string().contains("spawn"), "{error}");
    }
}

#[test]
fn a_forked_child_uses_host_memory_and_no_gpu() {
    alone(60, || {
        let Some(_gpu) = gpu() else { return };
        let entry = enter("step").unwrap();
        let parents = [allocate(BYTES, 0, 0).unwrap(), allocate(BYTES, -1, 0).unwrap()];
        free(allocate(BYTES, 0, 0).unwrap()).unwrap();
        assert!(in_child(child, parents));
        let again = allocate(BYTES, 0, 0).unwrap();
        parents.into_iter().chain([again]).for_each(|address| free(address).unwrap());
        leave(entry).unwrap();
    });
}

/// Calls of the driver that would work on the parent's memory. They are counted by the made-up driver.
const ON_MEMORY: [&CStr; 5] = [c"cuCtxSynchronize", c"cuMemUnmap", c"cuMemRelease", c"cuMemFree_v2", c"cuMemFreeAsync"];

/// A child frees idle memory, and a garbage collector there drops the last graph of a pool.
fn child_of_graphs(_: [u64; 2]) {
    let before = is_made_up().then(|| ON_MEMORY.map(madeup::calls));
    assert_eq!(invalidate(Some("step")), 0);
    let entry = enter("of the child").unwrap();
    free(allocate(BYTES, -1, 0).unwrap()).unwrap();
    leave(entry).unwrap();
    assert_eq!(invalidate(Some("of the child")), BYTES as u64);
    let entry = enter("of the child").unwrap();
    free(allocate(BYTES, -1, 0).unwrap()).unwrap();
    leave(entry).unwrap();
    assert_eq!(invalidate(None), BYTES as u64);
    pool_release(0, (1, 1)).unwrap();
    pool_end(0, (2, 2)).unwrap();
    pool_release(0, (2, 2)).unwrap();
    pool_release(-1, (3, 3)).unwrap();
    assert_eq!(is_made_up().then(|| ON_MEMORY.map(madeup::calls)), before);
}

#[test]
fn a_forked_child_leaves_the_memory_of_scopes_and_graphs_to_the_parent() {
    alone(60, || {
        let Some(_gpu) = gpu() else { return };
        let entry = enter("step").unwrap();
        free(allocate(BYTES, 0, 0).unwrap()).unwrap();
        leave(entry).unwrap();
        for (device, pool) in [(0, (1, 1)), (-1, (3, 3)), (0, (2, 2))] {
            pool_begin(device, pool, Box::new(|_| true)).unwrap();
            free(allocate(BYTES, device, 0).unwrap()).unwrap();
            if pool != (2, 2) {
                pool_end(device, pool).unwrap();
            }
        }
        assert!(in_child(child_of_graphs, [0, 0]));
        pool_end(0, (2, 2)).unwrap();
        [(0, (1, 1)), (-1, (3, 3)), (0, (2, 2))]
            .into_iter()
            .for_each(|(device, pool)| pool_release(device, pool).unwrap());
        assert!(invalidate(Some("step")) > 0);
    });
}
