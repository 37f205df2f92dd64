//! The cache that serves this thread now: that of the innermost scope.
//!
//! Invariant: a cache stands here only while this thread is inside its scope, and so owns it. Only [`set`] changes it,
//! and only the thread's stack of scopes calls that.
#![allow(unsafe_code)]

use std::cell::Cell;

use super::block::Record;
use super::owner::Cache;
use super::supply;
use crate::base::error::Result;
use crate::base::key::Request;
use crate::device::Stream;

/// A scope that is entered: its cache, and whether blocks allocated in it are kept for their next use.
#[derive(Clone, Copy)]
pub(crate) struct Current {
    pub(crate) cache: &'static Cache,
    pub(crate) keeps: bool,
}

thread_local! {
    // Without a destructor, so that it can be asked at any time of a thread's end.
    static CURRENT: Cell<Option<Current>> = const { Cell::new(None) };
}

/// Makes `current` serve this thread, or nobody.
///
/// # Safety
/// This thread has entered the cache and does not leave it before another call replaces it.
pub(crate) unsafe fn set(current: Option<Current>) {
    CURRENT.set(current);
}

/// A record for `request`: from the innermost scope, or straight from the device where there is none.
#[inline]
pub(super) fn allocate(stream: &Stream, request: &Request<'_>) -> Result<Box<Record>> {
    match CURRENT.get() {
        // SAFETY: a cache that stands in `CURRENT` was entered by this thread.
        Some(Current { cache, keeps }) => unsafe { cache.allocate(stream, request, keeps) },
        None => supply::from_device(stream, request),
    }
}
