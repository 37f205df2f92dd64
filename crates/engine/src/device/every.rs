//! The memories of all devices of the process, in the order in which their first streams came.

use std::sync::{Arc, PoisonError, Weak};

use super::memory::Memory;
use crate::base::sync::{Mutex, MutexGuard};

fn known() -> MutexGuard<'static, Vec<Weak<Memory>>> {
    static KNOWN: Mutex<Vec<Weak<Memory>>> = Mutex::new(Vec::new());
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A device has a stream.
pub(super) fn note(memory: &Arc<Memory>) {
    let mut known = known();
    if !known.iter().any(|other| std::ptr::eq(other.as_ptr(), Arc::as_ptr(memory))) {
        known.retain(|other| other.strong_count() > 0);
        known.push(Arc::downgrade(memory));
    }
}

impl Memory {
    /// The memories of all devices of the process, in the order in which their first streams came.
    #[doc(hidden)]
    pub fn every() -> Vec<Arc<Memory>> {
        known().iter().filter_map(Weak::upgrade).collect()
    }
}
