//! Pools of captured graphs.

use std::ffi::c_void;

use super::status::{status, wrong};
use crate::{pool_begin, pool_end, pool_release};

/// Tells whether a pool serves a stream now.
#[allow(non_camel_case_types, reason = "a name of C")]
pub type gpucache_pool_filter = Option<unsafe extern "C" fn(stream: *mut c_void, context: *mut c_void) -> bool>;

/// Frees the context of a filter.
#[allow(non_camel_case_types, reason = "a name of C")]
pub type gpucache_drop = Option<unsafe extern "C" fn(context: *mut c_void)>;

/// A filter of C and its context, which is freed with this value.
struct Filter {
    filter: gpucache_pool_filter,
    context: *mut c_void,
    drop: gpucache_drop,
}

// SAFETY: by the contract of `gpucache_pool_begin`, any thread may call the filter and free the context.
unsafe impl Send for Filter {}
// SAFETY: by the same contract, several threads may call the filter at once.
unsafe impl Sync for Filter {}

impl Filter {
    fn serves(&self, stream: usize) -> bool {
        // SAFETY: by the contract of `gpucache_pool_begin`, the filter may be called with its context until the context is freed, which
        // happens when this value is dropped.
        self.filter.is_some_and(|filter| unsafe { filter(stream as *mut c_void, self.context) })
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        if let Some(drop) = self.drop {
            // SAFETY: by the contract of `gpucache_pool_begin`, this frees the context, once.
            unsafe { drop(self.context) };
        }
    }
}

/// Lets a pool serve the streams for which `filter` returns true, until `gpucache_pool_end`. `id0` and `id1` together name the pool, as the
/// two numbers of PyTorch's `MempoolId_t` do. The pool is made if there is none of this name. Each call counts as a graph, which ends by
/// `gpucache_pool_release`. `drop`, if it is not null, frees `context` at the end, also if the call fails.
///
/// # Safety
/// Any thread may call `filter` and `drop` with `context`, several at once `filter`. Neither of them unwinds. `context` must live until `drop`
/// is called: a call of `filter` that began before `gpucache_pool_end` may still run when that function has returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpucache_pool_begin(
    device: i32,
    id0: u64,
    id1: u64,
    filter: gpucache_pool_filter,
    context: *mut c_void,
    drop: gpucache_drop,
) -> i32 {
    let filter = Filter { filter, context, drop };
    if filter.filter.is_none() {
        return wrong("gpucache_pool_begin: `filter` is null: pass a function");
    }
    status(|| pool_begin(device, (id0, id1), Box::new(move |stream| filter.serves(stream))))
}

/// Ends what `gpucache_pool_begin` began. The pool keeps its memory for the graph. The filter is not called any more.
#[unsafe(no_mangle)]
pub extern "C" fn gpucache_pool_end(device: i32, id0: u64, id1: u64) -> i32 {
    status(|| pool_end(device, (id0, id1)))
}

/// Notes that a graph of a pool is gone. With the last one, the memory of the pool is free, except what is still in use.
#[unsafe(no_mangle)]
pub extern "C" fn gpucache_pool_release(device: i32, id0: u64, id1: u64) -> i32 {
    status(|| pool_release(device, (id0, id1)))
}
