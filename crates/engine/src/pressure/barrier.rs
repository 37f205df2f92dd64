//! An asymmetric barrier: one side pays nothing, the other interrupts all threads of the process.
//!
//! Two threads that each store and then load what the other stores may both miss the other's store, unless each has a full
//! barrier in between (Dekker). Here the side that runs all the time has a compiler fence, which keeps the compiler from
//! exchanging the two and is no instruction; the side that runs seldom has [`heavy`], which does not return before each processor
//! that runs a thread of this process has been through a full barrier. That one falls either behind the light side's store,
//! which the heavy side's load then sees, or before it, and so before its load, which then sees the heavy side's store. A
//! thread that does not run went through one when it was taken off its processor.
//!
//! Models have a sequentially consistent fence on both sides instead.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering::SeqCst;

use crate::base::sync::compiler_fence;

/// Between a store and a load of the side that runs seldom. Takes some microseconds. False where the system has no such
/// barrier: then nothing is known of the other side.
pub(super) fn heavy() -> bool {
    // The kernel's call is no barrier for the compiler.
    compiler_fence(SeqCst);
    cfg!(all(loom, test)) || membarrier::interrupt()
}

#[cfg(target_os = "linux")]
mod membarrier {
    use libc::{MEMBARRIER_CMD_PRIVATE_EXPEDITED as INTERRUPT, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED as REGISTER};

    use crate::base::sync::LazyLock;

    /// A full barrier for all threads of the process, the caller among them. The process says once that it will want it.
    pub(super) fn interrupt() -> bool {
        static IS_REGISTERED: LazyLock<bool> = LazyLock::new(|| call(REGISTER as libc::c_long));
        *IS_REGISTERED && call(INTERRUPT as libc::c_long)
    }

    fn call(command: libc::c_long) -> bool {
        let (flags, processor): (libc::c_long, libc::c_long) = (0, 0);
        // SAFETY: the call takes three numbers, and touches no memory of the process.
        unsafe { libc::syscall(libc::SYS_membarrier, command, flags, processor) == 0 }
    }
}

#[cfg(not(target_os = "linux"))]
mod membarrier {
    pub(super) fn interrupt() -> bool {
        false
    }
}
