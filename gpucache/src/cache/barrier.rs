//! An asymmetric barrier: one side pays nothing, the other interrupts all threads of the process.
//!
//! Two threads that each store and then load what the other stores may both miss the other's store, unless each has a full
//! barrier in between (Dekker). Here the side that runs all the time has [`light`], which keeps the compiler from exchanging
//! the two and is no instruction; the side that runs seldom has [`heavy`], which does not return before each processor
//! that runs a thread of this process has been through a full barrier. That one falls either behind the light side's store,
//! which the heavy side's load then sees, or before it, and so before its load, which then sees the heavy side's store. A
//! thread that does not run went through one when it was taken off its processor.
//!
//! Models have a sequentially consistent fence on both sides instead.
#![allow(unsafe_code)]

#[cfg(all(loom, test))]
use loom::sync::atomic::fence;
use std::sync::atomic::Ordering::SeqCst;
#[cfg(not(all(loom, test)))]
use std::sync::atomic::compiler_fence;

/// Between a store and a load of the side that runs all the time.
#[inline(always)]
pub(super) fn light() {
    #[cfg(not(all(loom, test)))]
    compiler_fence(SeqCst);
    #[cfg(all(loom, test))]
    fence(SeqCst);
}

/// Between a store and a load of the side that runs seldom. Takes some microseconds. False where the system has no such
/// barrier: then nothing is known of the other side.
pub(super) fn heavy() -> bool {
    #[cfg(all(loom, test))]
    fence(SeqCst);
    #[cfg(all(target_os = "linux", not(all(loom, test))))]
    return is_expedited();
    #[cfg(any(not(target_os = "linux"), all(loom, test)))]
    return cfg!(loom);
}

/// A process says once that it wants to be interrupted. The kernel's call is a full barrier for the caller too.
#[cfg(all(target_os = "linux", not(all(loom, test))))]
fn is_expedited() -> bool {
    use crate::base::sync::LazyLock;

    static IS_REGISTERED: LazyLock<bool> =
        LazyLock::new(|| membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED as libc::c_long));
    *IS_REGISTERED && membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED as libc::c_long)
}

#[cfg(all(target_os = "linux", not(all(loom, test))))]
fn membarrier(command: libc::c_long) -> bool {
    let (flags, cpu): (libc::c_long, libc::c_long) = (0, 0);
    // SAFETY: the call takes three numbers, and touches no memory of the process.
    unsafe { libc::syscall(libc::SYS_membarrier, command, flags, cpu) == 0 }
}
