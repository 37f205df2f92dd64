//! Scopes of the calling thread, by the numbers of their entries.

use gpucache::__private::start_from_environment;
use pyo3::prelude::*;

use crate::errors::apart;

/// Enters a scope, and returns the number of the entry.
#[pyfunction]
pub(crate) fn enter(py: Python<'_>, name: &str) -> PyResult<u64> {
    apart(py, || {
        start_from_environment();
        gpucache_capi::enter(name)
    })
}

/// Leaves all scopes until the end of the entry.
#[pyfunction]
pub(crate) fn enter_uncached(py: Python<'_>) -> PyResult<u64> {
    apart(py, gpucache_capi::enter_uncached)
}

/// Ends an entry of this thread.
#[pyfunction]
pub(crate) fn leave(py: Python<'_>, entry: u64) -> PyResult<()> {
    apart(py, || gpucache_capi::leave(entry))
}

/// Frees the memory of a scope, or of all scopes, and returns the bytes.
#[pyfunction]
#[pyo3(signature = (name = None))]
pub(crate) fn invalidate(py: Python<'_>, name: Option<&str>) -> u64 {
    py.detach(|| gpucache_capi::invalidate(name))
}

/// The names of all scopes.
#[pyfunction]
pub(crate) fn scope_names(py: Python<'_>) -> Vec<String> {
    py.detach(|| gpucache::scopes().iter().map(|name| name.to_string()).collect())
}

/// Sets whether a scope serves allocations outside of all scopes.
#[pyfunction]
pub(crate) fn set_auto_scope(is_on: bool) {
    gpucache_capi::set_auto_scope(is_on);
}

/// Sets whether PyTorch's threads for backward passes use the scope of the thread that waits for them.
#[pyfunction]
pub(crate) fn set_backward_helps(helps: bool) {
    gpucache_capi::set_backward_helps(helps);
}
