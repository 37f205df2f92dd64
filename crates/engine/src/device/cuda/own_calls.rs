//! Which calls of the driver's allocator are this crate's own: those are the driver's to answer, even where the memory of other
//! crates comes from a scope.

#[cfg(feature = "foreign")]
use std::sync::PoisonError;

#[cfg(feature = "foreign")]
use hashbrown::HashSet;

#[cfg(feature = "foreign")]
use crate::base::per_thread::THREAD;
use crate::base::per_thread::with_flag;
#[cfg(feature = "foreign")]
use crate::base::sync::{LazyLock, Mutex, MutexGuard};

/// Makes a call that allocates from the driver.
pub(crate) fn own_call<R>(call: impl FnOnce() -> R) -> R {
    with_flag(|thread| &thread.cuda.is_own, call)
}

/// Whether the calling thread is in such a call.
#[cfg(feature = "foreign")]
#[inline]
pub(crate) fn is_own_call() -> bool {
    THREAD.with(|thread| thread.cuda.is_own.get())
}

/// What this crate has from the driver's allocator, by address.
#[cfg(feature = "foreign")]
fn own_memory() -> MutexGuard<'static, HashSet<u64>> {
    static OWN: LazyLock<Mutex<HashSet<u64>>> = LazyLock::new(Mutex::default);
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The driver gave memory to this crate.
pub(super) fn note_own(_address: u64) {
    #[cfg(feature = "foreign")]
    own_memory().insert(_address);
}

/// Memory is not this crate's any more: it goes back, or to somebody who frees it himself.
pub(crate) fn disown(_address: u64) {
    #[cfg(feature = "foreign")]
    own_memory().remove(&_address);
}

/// Whether the driver gave memory at this address to this crate, and so nobody else may free it.
#[cfg(feature = "foreign")]
pub(crate) fn is_own_memory(address: u64) -> bool {
    own_memory().contains(&address)
}
