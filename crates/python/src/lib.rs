//! The module `gpucache._gpucache` of the Python package. Users call the Python files around it, in `python/gpucache`.
//!
//! Rules of all functions here:
//!
//! - They give up the interpreter's lock while they work. A thread that holds a lock of gpucache never waits for the interpreter, so the
//!   two kinds of locks cannot wait for each other.
//! - They return plain numbers and texts. Statistics are JSON.
//!
//! | file | functions |
//! |---|---|
//! | `memory` | allocate and free by address, devices, pools |
//! | `scopes` | enter and leave scopes, free their memory |
//! | `stats` | statistics and diagnosis |
//! | `trace` | traces and their files |
//! | `torch` | the functions that PyTorch calls |
//! | `errors` | exceptions |

mod errors;
mod memory;
mod scopes;
mod stats;
mod torch;
mod trace;

/// The compiled part of gpucache. It is not a public interface.
#[pyo3::pymodule(gil_used = false)]
mod _gpucache {
    #[pymodule_export]
    use crate::memory::{
        Owned, allocate, base_address, capture_begins, capture_ends, check_limit, device_stats, free, open_pools,
        pool_begin, pool_end, pool_release, record_stream, reset_peaks, set_limit, stream_ends, trim,
    };
    #[pymodule_export]
    use crate::scopes::{
        Exit, enter, enter_uncached, invalidate, leave, scope_names, set_auto_scope, set_backward_helps,
    };
    #[pymodule_export]
    use crate::stats::{diagnose, process_stats, reset_scope_peaks, scope_stats, scope_text};
    #[pymodule_export]
    use crate::torch::{torch_find_error, torch_functions, torch_set_limit, torch_used_devices};
    #[pymodule_export]
    use crate::trace::{Run, trace_read, trace_start, trace_stop};
}
