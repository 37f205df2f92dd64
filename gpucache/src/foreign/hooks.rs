//! The driver's functions, as C calls them. The names are those of the driver's library, in whose place they are called; what they
//! answer is what the driver would.
//!
//! No panic crosses C: one would be a fault of this crate, and is answered as the driver answers faults of its own.

use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cudarc::driver::sys::{CUdeviceptr, CUresult, CUstream};

use super::driver::Driver;
use super::probe::{Entrance, answer};
use super::serve::{self, Answer, Freed};
use super::{info, pool};
use gpucache_engine::device::{Handle, process_exits};

/// Runs what a hook does with the driver's own functions, but for what a plan serves and gets back, where nothing can panic.
#[cold]
fn guarded(hook: impl FnOnce(&'static Driver) -> CUresult) -> CUresult {
    let Some(driver) = Driver::get() else { return CUresult::CUDA_ERROR_NOT_INITIALIZED };
    let act = || Handle::keeping_current(|| hook(driver));
    catch_unwind(AssertUnwindSafe(act)).unwrap_or(CUresult::CUDA_ERROR_UNKNOWN)
}

/// Whether the driver gave this crate the memory, in which something of a scope may lie: to free it is a mistake of somebody else's,
/// as a second free of what had its beginning.
fn is_ours_alone(address: CUdeviceptr) -> bool {
    !Handle::is_own_call() && Handle::is_own_memory(address)
}

/// What the driver answers to a request that is its own, once everything idle went back to it if it had no memory.
fn passed_on(bytes: usize, handle: Handle, call: impl Fn() -> CUresult) -> CUresult {
    pool::keep();
    let answer = call();
    let is_short = answer == CUresult::CUDA_ERROR_OUT_OF_MEMORY;
    let succeeds = || call() == CUresult::CUDA_SUCCESS;
    if is_short && serve::retry(bytes, handle, succeeds) { CUresult::CUDA_SUCCESS } else { answer }
}

/// Room for the address of what is allocated.
type Place = MaybeUninit<CUdeviceptr>;

/// What the driver answers to an allocation. Without a place for the address that is the driver's affair.
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

/// As the driver's function of this name.
///
/// # Safety
/// As for the driver's.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuMemAllocAsync(address: *mut CUdeviceptr, bytes: usize, stream: CUstream) -> CUresult {
    let handle = Handle(stream as usize);
    // SAFETY: null, or room for an address, which nobody else uses meanwhile, as the driver's function asks.
    let mut place = unsafe { address.cast::<Place>().as_mut() };
    if let Some(place) = &mut place
        && let Some(served) = serve::allocate_planned(bytes, handle)
    {
        place.write(served);
        return CUresult::CUDA_SUCCESS;
    }
    guarded(|driver| {
        // SAFETY: the driver's own function gets what the caller gave for it.
        let call = || unsafe { (driver.alloc_async)(address, bytes, stream) };
        answered(place, (bytes, handle), || serve::allocate(bytes, handle), call)
    })
}

/// As the driver's function of this name.
///
/// # Safety
/// As for the driver's.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuMemFreeAsync(address: CUdeviceptr, stream: CUstream) -> CUresult {
    let handle = Handle(stream as usize);
    let block = match serve::take_back(address, handle) {
        Freed::Done => return CUresult::CUDA_SUCCESS,
        Freed::Elsewhere(block) => Some(block),
        Freed::Unknown => None,
    };
    guarded(|driver| match block {
        Some(block) => {
            serve::free_elsewhere(block, handle);
            CUresult::CUDA_SUCCESS
        }
        None if is_ours_alone(address) => CUresult::CUDA_ERROR_INVALID_VALUE,
        // SAFETY: it is no memory of ours, so that the driver's own function gets what the caller gave for it.
        None => unsafe { (driver.free_async)(address, stream) },
    })
}

/// As the driver's function of this name.
///
/// # Safety
/// As for the driver's.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize) -> CUresult {
    // SAFETY: as its caller promises the driver, there is room for an address that is nobody else's, or the pointer is null.
    let place = unsafe { address.cast::<Place>().as_mut() };
    guarded(|driver| {
        // SAFETY: the caller's arguments go to the function that they were meant for.
        let call = || unsafe { (driver.alloc)(address, bytes) };
        answered(place, (bytes, Handle(0)), || serve::allocate_for_host(bytes), call)
    })
}

/// As the driver's function of this name.
///
/// # Safety
/// As for the driver's.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuMemFree_v2(address: CUdeviceptr) -> CUresult {
    guarded(|driver| match serve::free_for_host(address) {
        true => CUresult::CUDA_SUCCESS,
        false if is_ours_alone(address) => CUresult::CUDA_ERROR_INVALID_VALUE,
        // SAFETY: what was not served here is the driver's, or an error that it answers.
        false => unsafe { (driver.free)(address) },
    })
}

/// As the driver's function of this name, but that memory which scopes keep idle counts as free.
///
/// # Safety
/// As for the driver's.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> CUresult {
    // SAFETY: the caller gives room for two numbers, as the driver's function asks.
    unsafe { memory_info(Entrance::Linked, free, total) }
}

/// As [`cuMemGetInfo_v2`], for calls by the library in front of the driver.
unsafe extern "C" fn loaded_memory_info(free: *mut usize, total: *mut usize) -> CUresult {
    // SAFETY: who calls by that library gives what the driver's function asks for: room for two numbers.
    unsafe { memory_info(Entrance::Loaded, free, total) }
}

/// # Safety
/// Each address is null, or there is room for a number.
unsafe fn memory_info(entrance: Entrance, free: *mut usize, total: *mut usize) -> CUresult {
    // SAFETY: null, or room for a number. The driver writes two numbers to two places, so that only a question of this crate's own has one
    // place for both, in which a number stands.
    if free == total && unsafe { free.as_mut() }.is_some_and(|question| answer(question, entrance)) {
        return CUresult::CUDA_SUCCESS;
    }
    // SAFETY: the caller promises room for both, to which the driver writes, and lends them until this returns.
    guarded(|driver| unsafe {
        let answer = (driver.info)(free, total);
        if answer == CUresult::CUDA_SUCCESS
            && !Handle::is_own_call()
            && let Some((total, free)) = total.as_ref().copied().zip(free.as_mut())
        {
            *free = free.saturating_add(info::idle()).min(total);
        }
        answer
    })
}

/// As the driver's function of this name.
///
/// # Safety
/// As for the driver's.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn cuStreamDestroy_v2(stream: CUstream) -> CUresult {
    guarded(|driver| {
        if !process_exits() {
            Handle(stream as usize).ends();
        }
        // SAFETY: the driver's own function gets the stream that the caller destroys.
        unsafe { (driver.stream_destroy)(stream) }
    })
}

/// The functions above by the names under which the library in front of the driver shows them.
pub(super) const HOOKS: [(&str, *const ()); 6] = [
    ("cuMemAllocAsync", cuMemAllocAsync as *const ()),
    ("cuMemFreeAsync", cuMemFreeAsync as *const ()),
    ("cuMemAlloc_v2", cuMemAlloc_v2 as *const ()),
    ("cuMemFree_v2", cuMemFree_v2 as *const ()),
    ("cuMemGetInfo_v2", loaded_memory_info as *const ()),
    ("cuStreamDestroy_v2", cuStreamDestroy_v2 as *const ()),
];
