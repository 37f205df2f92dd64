//! The functions for C. `include/gpucache.h` declares them; a test compares the two.
//!
//! Each function that can fail returns a status, and writes results through pointers. If a call fails, [`gpucache_last_error`] has the
//! message. No function unwinds into C. All functions may be called from any thread, also while the thread or the process ends.
//!
//! | file | functions |
//! |---|---|
//! | `memory` | allocate, free, uses on other streams |
//! | `scopes` | enter and leave scopes, invalidate, report |
//! | `devices` | trim, limits, statistics |
//! | `pools` | memory of captured graphs |
//! | `status` | the status of a call, and its message |
#![allow(unsafe_code)]

mod devices;
mod memory;
mod pools;
mod scopes;
mod status;

pub use devices::{gpucache_device_stats, gpucache_reset_peaks, gpucache_set_limit, gpucache_trim};
pub use memory::{
    gpucache_allocate, gpucache_base_address, gpucache_free, gpucache_record_stream, gpucache_stream_ends,
};
pub use pools::{gpucache_drop, gpucache_pool_begin, gpucache_pool_end, gpucache_pool_filter, gpucache_pool_release};
pub use scopes::{
    gpucache_enter, gpucache_enter_uncached, gpucache_invalidate, gpucache_leave, gpucache_report,
    gpucache_set_auto_scope, gpucache_set_backward_helps, gpucache_string_free,
};
pub use status::{
    GPUCACHE_ABI_VERSION, GPUCACHE_DEVICE_FAILURE, GPUCACHE_INVALID_ARGUMENT, GPUCACHE_OK, GPUCACHE_OUT_OF_MEMORY,
    GPUCACHE_UNAVAILABLE, gpucache_abi_version, gpucache_last_error, last_error,
};
