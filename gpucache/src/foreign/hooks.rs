//! The driver's functions, as C code calls them. They have the names of the driver's functions, are called instead of them, and return
//! the same results.
//!
//! No panic reaches C: a panic would be a bug of this crate, and the caller gets the driver's error for unknown failures.

use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cudarc::driver::sys::{CUdeviceptr, CUgraph, CUresult, CUstream, CUstreamCaptureMode};

use super::driver::Driver;
use super::probe::{Entrance, answer};
use super::serve::{self, Answer};
use super::{captures, pool};
use gpucache_engine::cache::Block;
use gpucache_engine::device::{Handle, process_exits};

/// Runs a hook with the driver's own functions and catches panics. Planned allocations and frees do not come here: they cannot panic.
#[cold]
fn guarded(hook: impl FnOnce(&'static Driver) -> CUresult) -> CUresult {
    let Some(driver) = Driver::get() else { return CUresult::CUDA_ERROR_NOT_INITIALIZED };
    let act = || Handle::keeping_current(|| hook(driver));
    catch_unwind(AssertUnwindSafe(act)).unwrap_or(CUresult::CUDA_ERROR_UNKNOWN)
}

/// Whether the driver gave this memory to this crate, for example a chunk with blocks of scopes. A program that frees it makes a mistake,
/// such as freeing a block twice that began at the same address.
fn is_ours_alone(address: CUdeviceptr) -> bool {
    !Handle::is_own_call() && Handle::is_own_memory(address)
}

/// Passes a request on to the driver. If the driver has no memory, it first gets all idle memory, and then the request again.
fn passed_on(bytes: usize, handle: Handle, call: impl Fn() -> CUresult) -> CUresult {
    pool::keep();
    let answer = call();
    let is_short = answer == CUresult::CUDA_ERROR_OUT_OF_MEMORY;
    let succeeds = || call() == CUresult::CUDA_SUCCESS;
    if is_short && serve::retry(bytes, handle, succeeds) { CUresult::CUDA_SUCCESS } else { answer }
}

/// Memory for the address of an allocation.
type Place = MaybeUninit<CUdeviceptr>;

/// The result of an allocation. If the caller gave no memory for the address, the driver decides what to return.
fn answered(
    place: Option<&mut Place>,
    (bytes, handle): (usize, Handle),
    answer: impl FnOnce() -> Answer,
    call: impl Fn() -> CUresult,
) -> CUresult {
    let Some(place) = place else { return passed_on(bytes, handle, call) };
    match answer() {
        Answer::Served(served) => {
            place.write(served);
            CUresult::CUDA_SUCCESS
        }
        Answer::Exhausted => CUresult::CUDA_ERROR_OUT_OF_MEMORY,
        Answer::PassOn => passed_on(bytes, handle, call),
    }
}

/// Does the same as the driver's function with this name.
///
/// # Safety
/// As for the driver's.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuMemAllocAsync(address: *mut CUdeviceptr, bytes: usize, stream: CUstream) -> CUresult {
    let handle = Handle(stream as usize);
    // SAFETY: it is null, or memory for an address that nobody else uses meanwhile, as the driver's function requires.
    let mut place = unsafe { address.cast::<Place>().as_mut() };
    if let Some(place) = &mut place
        && let Some(served) = serve::allocate_planned(bytes, handle)
    {
        place.write(served);
        return CUresult::CUDA_SUCCESS;
    }
    guarded(|driver| {
        // SAFETY: the driver's own function gets the caller's arguments for it.
        let call = || unsafe { (driver.alloc_async)(address, bytes, stream) };
        answered(place, (bytes, handle), || serve::allocate(bytes, handle), call)
    })
}

/// Does the same as the driver's function with this name.
///
/// # Safety
/// As for the driver's.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuMemFreeAsync(address: CUdeviceptr, stream: CUstream) -> CUresult {
    let handle = Handle(stream as usize);
    if let Some(block) = Block::take_at(address) {
        let Some(block) = serve::free_here(block, handle) else { return CUresult::CUDA_SUCCESS };
        return guarded(|_| {
            serve::free_elsewhere(block, handle);
            CUresult::CUDA_SUCCESS
        });
    }
    guarded(|driver| match is_ours_alone(address) {
        true => CUresult::CUDA_ERROR_INVALID_VALUE,
        // SAFETY: the memory is not this crate's, so the driver's own function gets the caller's arguments for it.
        false => unsafe { (driver.free_async)(address, stream) },
    })
}

/// Does the same as the driver's function with this name.
///
/// # Safety
/// As for the driver's.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize) -> CUresult {
    // SAFETY: as the caller promises the driver, it is null, or memory for an address that nobody else uses meanwhile.
    let place = unsafe { address.cast::<Place>().as_mut() };
    guarded(|driver| {
        // SAFETY: the caller's arguments go to the function that they were meant for.
        let call = || unsafe { (driver.alloc)(address, bytes) };
        answered(place, (bytes, Handle(0)), || serve::allocate_for_host(bytes), call)
    })
}

/// Does the same as the driver's function with this name.
///
/// # Safety
/// As for the driver's.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuMemFree_v2(address: CUdeviceptr) -> CUresult {
    guarded(|driver| match serve::free_for_host(address) {
        true => CUresult::CUDA_SUCCESS,
        false if is_ours_alone(address) => CUresult::CUDA_ERROR_INVALID_VALUE,
        // SAFETY: the memory was not served here, so it is the driver's, or an error that the driver reports.
        false => unsafe { (driver.free)(address) },
    })
}

/// Does the same as the driver's function with this name, except that idle memory of scopes counts as free.
///
/// # Safety
/// As for the driver's.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> CUresult {
    // SAFETY: the caller provides memory for two numbers, as the driver's function requires.
    unsafe { memory_info(Entrance::Linked, free, total) }
}

/// Like [`cuMemGetInfo_v2`], for calls through the library in front of the driver.
unsafe extern "C" fn loaded_memory_info(free: *mut usize, total: *mut usize) -> CUresult {
    // SAFETY: callers through that library provide what the driver's function requires: memory for two numbers.
    unsafe { memory_info(Entrance::Loaded, free, total) }
}

/// # Safety
/// Each pointer is null, or points to memory for a number.
unsafe fn memory_info(entrance: Entrance, free: *mut usize, total: *mut usize) -> CUresult {
    // SAFETY: it is null, or memory for a number. The driver writes two numbers to two places. So only this crate's own question passes
    // the same place for both, and that place contains an initialized number.
    if free == total && unsafe { free.as_mut() }.is_some_and(|question| answer(question, entrance)) {
        return CUresult::CUDA_SUCCESS;
    }
    // SAFETY: the caller promises memory for both numbers, to which the driver writes, and lends it until this returns.
    guarded(|driver| unsafe {
        let answer = (driver.info)(free, total);
        if answer == CUresult::CUDA_SUCCESS
            && !Handle::is_own_call()
            && let Some((total, free)) = total.as_ref().copied().zip(free.as_mut())
        {
            *free = free.saturating_add(pool::idle()).min(total);
        }
        answer
    })
}

/// Does the same as the driver's function with this name.
///
/// # Safety
/// As for the driver's.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuStreamDestroy_v2(stream: CUstream) -> CUresult {
    guarded(|driver| {
        if !process_exits() {
            captures::forget(Handle(stream as usize), None);
            Handle(stream as usize).ends();
        }
        // SAFETY: the driver's own function gets the stream that the caller destroys.
        unsafe { (driver.stream_destroy)(stream) }
    })
}

/// Does the same as the driver's function with this name. Until the capture ends, the stream's allocations get memory that the graph alone
/// has.
///
/// # Safety
/// As for the driver's.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuStreamBeginCapture_v2(stream: CUstream, mode: CUstreamCaptureMode) -> CUresult {
    guarded(|driver| {
        let mut answer = CUresult::CUDA_ERROR_UNKNOWN;
        captures::begin(Handle(stream as usize), || {
            // SAFETY: the caller gives a stream of its own and a mode, as the driver's function requires.
            answer = unsafe { (driver.begin_capture)(stream, mode) };
            answer == CUresult::CUDA_SUCCESS
        });
        answer
    })
}

/// Does the same as the driver's function with this name.
///
/// # Safety
/// As for the driver's.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph) -> CUresult {
    guarded(|driver| {
        // SAFETY: as the driver's function requires, `graph` is null or has room for a handle.
        let answer = unsafe { (driver.end_capture)(stream, graph) };
        captures::end(Handle(stream as usize));
        answer
    })
}

/// The functions above, with the names under which the library in front of the driver exports them.
pub(super) const HOOKS: [(&str, *const ()); 8] = [
    ("cuMemAllocAsync", cuMemAllocAsync as *const ()),
    ("cuMemFreeAsync", cuMemFreeAsync as *const ()),
    ("cuMemAlloc_v2", cuMemAlloc_v2 as *const ()),
    ("cuMemFree_v2", cuMemFree_v2 as *const ()),
    ("cuMemGetInfo_v2", loaded_memory_info as *const ()),
    ("cuStreamBeginCapture_v2", cuStreamBeginCapture_v2 as *const ()),
    ("cuStreamEndCapture", cuStreamEndCapture as *const ()),
    ("cuStreamDestroy_v2", cuStreamDestroy_v2 as *const ()),
];
