//! Exceptions: `gpucache.Error`, and `gpucache.OutOfMemoryError` below it. The text is that of the error.

use pyo3::prelude::*;

/// The exception for an error.
#[cold]
pub(crate) fn raised(error: gpucache::Error) -> PyErr {
    let name = if error.is_out_of_memory() { "OutOfMemoryError" } else { "Error" };
    of_class(name, error.to_string())
}

/// The exception for a failure that is no error of gpucache, such as one of a file.
#[cold]
pub(crate) fn failed(text: impl std::fmt::Display) -> PyErr {
    of_class("Error", text.to_string())
}

fn of_class(name: &str, text: String) -> PyErr {
    Python::attach(|py| {
        let class = py.import("gpucache._errors").and_then(|module| module.getattr(name));
        match class.and_then(|class| class.call1((text,))) {
            Ok(exception) => PyErr::from_value(exception),
            // The interpreter is about to end, or the package is incomplete.
            Err(other) => other,
        }
    })
}

/// Runs `act` without the interpreter's lock.
pub(crate) fn apart<T: Send>(py: Python<'_>, act: impl FnOnce() -> gpucache::Result<T> + Send) -> PyResult<T> {
    py.detach(act).map_err(raised)
}
