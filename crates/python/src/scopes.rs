//! Scopes of the calling thread, by the numbers of their entries.

use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::errors::apart;

/// Enters a scope, and appends the number of the entry to a list. A handler of a signal runs before or after both.
#[pyfunction]
pub(crate) fn enter(py: Python<'_>, name: &str, entries: &Bound<'_, PyList>) -> PyResult<()> {
    begin(py, entries, || gpucache_capi::enter(name))
}

/// Leaves all scopes until the end of the entry, and appends the number of the entry to a list.
#[pyfunction]
pub(crate) fn enter_uncached(py: Python<'_>, entries: &Bound<'_, PyList>) -> PyResult<()> {
    begin(py, entries, gpucache_capi::enter_uncached)
}

fn begin(
    py: Python<'_>,
    entries: &Bound<'_, PyList>,
    enter: impl FnOnce() -> gpucache::Result<u64> + Send,
) -> PyResult<()> {
    let entry = apart(py, enter)?;
    entries.append(entry).inspect_err(|_| _ = apart(py, || gpucache_capi::leave(entry)))
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
