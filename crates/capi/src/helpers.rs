//! Threads that run a backward pass of PyTorch for another thread, which waits for them meanwhile.
//!
//! Their allocations continue the other thread's order, so they work in the name of its caller. If one thread is inside a scope, that is
//! the one. If none is, it is the one that allocated last. If several are, nobody knows which one waits, and the helper works for itself.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use parking_lot::Mutex;

use crate::shared::SharedCaller;

/// How PyTorch names these threads; the number of the device follows.
const NAME: &[u8] = b"pt_autograd_";

/// The system keeps at most this many bytes of a thread's name, with a zero at the end.
const NAME_BYTES: usize = 16;

static HELPS: AtomicBool = AtomicBool::new(true);

/// The callers that are inside scopes.
static INSIDE: Mutex<Vec<&'static SharedCaller>> = Mutex::new(Vec::new());

/// The only caller inside scopes; `None` if it is not the only one.
static ONLY: AtomicPtr<SharedCaller> = AtomicPtr::new(null_mut());

/// Whether no caller is inside a scope.
static IS_NONE_INSIDE: AtomicBool = AtomicBool::new(true);

/// The caller outside of scopes that allocated last for itself.
static LAST: AtomicPtr<SharedCaller> = AtomicPtr::new(null_mut());

/// Sets whether threads of PyTorch that run a backward pass use the scope of the thread that waits for them. They do unless this is
/// switched off, for programs that run backward passes on the calling thread.
///
/// ```
/// gpucache_capi::set_backward_helps(true);
/// ```
pub fn set_backward_helps(helps: bool) {
    HELPS.store(helps, Relaxed);
}

/// Whether the calling thread is one that runs backward passes. Rust does not know the names of threads that other code started.
#[allow(unsafe_code)]
pub(crate) fn is_helper() -> bool {
    let mut name = [0u8; NAME_BYTES];
    // SAFETY: the thread is the calling one, which is alive. The system writes no more bytes than the array has.
    let failed = unsafe { libc::pthread_getname_np(libc::pthread_self(), name.as_mut_ptr().cast(), name.len()) };
    failed == 0 && name.starts_with(NAME)
}

/// The caller that this thread, a helper, works for now.
#[inline]
pub(crate) fn helped() -> Option<&'static SharedCaller> {
    if !HELPS.load(Relaxed) {
        return None;
    }
    let only = ONLY.load(Acquire);
    let found = if only.is_null() && IS_NONE_INSIDE.load(Relaxed) { LAST.load(Acquire) } else { only };
    reference(found)
}

/// Notes that a caller outside of scopes allocates for itself.
#[inline]
pub(crate) fn note_last(caller: &'static SharedCaller) {
    let caller = std::ptr::from_ref(caller).cast_mut();
    if LAST.load(Relaxed) != caller {
        LAST.store(caller, Release);
    }
}

/// The callers that are inside scopes.
pub(crate) fn inside() -> Vec<&'static SharedCaller> {
    INSIDE.lock().clone()
}

/// Notes that a caller is inside a scope now.
pub(crate) fn entered(caller: &'static SharedCaller) {
    let mut inside = INSIDE.lock();
    inside.push(caller);
    tell(&inside);
}

/// Notes that a caller is inside no scope any more.
pub(crate) fn left(caller: &'static SharedCaller) {
    let mut inside = INSIDE.lock();
    inside.retain(|other| !std::ptr::eq(*other, caller));
    tell(&inside);
}

/// Notes that the thread of a caller ends. Nobody works for the caller until another thread takes it over.
pub(crate) fn ended(caller: &'static SharedCaller) {
    left(caller);
    let caller = std::ptr::from_ref(caller).cast_mut();
    let _ = LAST.compare_exchange(caller, null_mut(), Release, Relaxed);
}

fn tell(inside: &[&'static SharedCaller]) {
    let only = if let [only] = inside { std::ptr::from_ref(*only).cast_mut() } else { null_mut() };
    ONLY.store(only, Release);
    IS_NONE_INSIDE.store(inside.is_empty(), Relaxed);
}

#[allow(unsafe_code)]
#[inline]
fn reference(caller: *mut SharedCaller) -> Option<&'static SharedCaller> {
    // SAFETY: only references to callers are stored in `ONLY` and `LAST`, and a caller lives as long as the process.
    unsafe { caller.as_ref() }
}
