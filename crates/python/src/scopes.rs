//! Scopes of the calling thread, by the numbers of their entries.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

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

/// The exit of scopes, as a base class. It is no code of Python, so no handler of a signal runs in it before the thread has left.
#[pyclass(subclass, frozen, module = "gpucache._gpucache")]
pub(crate) struct Exit;

#[pymethods]
impl Exit {
    #[new]
    #[pyo3(signature = (*_args, **_named))]
    fn new(_args: &Bound<'_, PyTuple>, _named: Option<&Bound<'_, PyDict>>) -> Exit {
        Exit
    }

    /// Ends the entry that the thread began last, and closes what was opened around it.
    #[pyo3(signature = (*_raised))]
    fn __exit__(slf: &Bound<'_, Exit>, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        let entries = slf.getattr("_entries")?;
        let open = entries.getattr("open")?.cast_into::<PyList>()?;
        let Some(last) = open.len().checked_sub(1) else {
            return Err(PyErr::from_value(slf.call_method0("_not_inside")?));
        };
        let entry = open.get_item(last)?;
        let number = entry.extract()?;
        let left = leave(slf.py(), number).and(open.del_item(last));
        let around = entries.getattr("around")?.cast_into::<PyDict>()?;
        let Some(opened) = around.get_item(&entry)? else { return left };
        around.del_item(&entry)?;
        left.and(opened.call_method0("close").map(drop))
    }
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
