//! An asymmetric memory barrier: one side pays nothing, and the other side interrupts all threads of the process.
//!
//! Two threads each store a value, and then load the other's value. Without a full barrier in between, both may miss the other's
//! store (Dekker). Here, the *light* side runs all the time, and the *heavy* side runs seldom:
//!
//! - The light side has a compiler fence. It keeps the compiler from exchanging the store and the load, and is no instruction.
//! - The heavy side calls [`heavy`]. It returns only after each processor that runs a thread of this process has executed a full
//!   barrier. A thread that is not running executed one when it was taken off its processor.
//!
//! In the light thread, this full barrier falls either after the light side's store or before it. In the first case, the heavy
//! side's load sees that store. In the second case, the barrier falls before the light side's load too, so this load sees the heavy
//! side's store.
//!
//! Models have a sequentially consistent fence on both sides instead.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering::SeqCst;

use crate::base::sync::compiler_fence;

/// The barrier between a store and a load of the heavy side. Takes some microseconds. Returns false if the system has no such
/// barrier. Then nothing is known about the other side.
pub(super) fn heavy() -> bool {
    // The system call is no barrier for the compiler.
    compiler_fence(SeqCst);
    cfg!(all(loom, test)) || membarrier::interrupt()
}

#[cfg(target_os = "linux")]
mod membarrier {
    use libc::{MEMBARRIER_CMD_PRIVATE_EXPEDITED as INTERRUPT, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED as REGISTER};

    use crate::base::sync::LazyLock;

    /// A full barrier for all threads of the process, including the caller. The process registers once for it.
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
