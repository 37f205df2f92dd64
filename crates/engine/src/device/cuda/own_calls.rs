//! Marks this crate's own calls of the driver's allocator. The driver serves these calls, even while a scope serves the allocations of
//! other crates.

use hashbrown::HashSet;

use super::Handle;
use crate::base::per_thread::{THREAD, with_flag};
use crate::base::sync::{LazyLock, Mutex, lock};

/// Makes a call that allocates from the driver.
pub(crate) fn own_call<R>(call: impl FnOnce() -> R) -> R {
    with_flag(|thread| &thread.is_own_call, call)
}

/// The addresses of memory that this crate got from the driver's allocator.
static OWN: LazyLock<Mutex<HashSet<u64>>> = LazyLock::new(Mutex::default);

/// Notes that the driver allocated memory for this crate.
pub(super) fn note_own(address: u64) {
    lock(&OWN).insert(address);
}

/// Notes that memory no longer belongs to this crate: it is being freed, or other code owns it now and frees it.
pub(crate) fn disown(address: u64) {
    lock(&OWN).remove(&address);
}

impl Handle {
    /// Whether the calling thread is in a call that the engine itself makes to the driver's allocator.
    #[inline]
    pub fn is_own_call() -> bool {
        THREAD.with(|thread| thread.is_own_call.get())
    }

    /// Whether the driver allocated memory at this address for the engine, so nobody else may free it.
    pub fn is_own_memory(address: u64) -> bool {
        lock(&OWN).contains(&address)
    }
}
