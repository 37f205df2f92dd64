//! Exceptions: `gpucache.Error`, and `gpucache.OutOfMemoryError` below it. The text is that of the error.

use std::io;
use std::path::Path;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

/// The exception for an error.
#[cold]
pub(crate) fn raised(error: gpucache::Error) -> PyErr {
    let name = if error.is_out_of_memory() { "OutOfMemoryError" } else { "Error" };
    of_class(name, gpucache_capi::message(&error, "pass device=-1"))
}

/// The exception for a failure that is no error of gpucache, such as the damaged line of a file.
#[cold]
pub(crate) fn failed(text: impl std::fmt::Display) -> PyErr {
    of_class("Error", text.to_string())
}

/// The exception for a file that is no trace, or could not be read.
#[cold]
pub(crate) fn unreadable(error: gpucache_report::Error) -> PyErr {
    let gpucache_report::Error::Unreadable { path, source } = &error else { return failed(error) };
    of_file(path, source)
}

/// The exception for a file that could not be read or written: `OSError`, or the class below it that Python has for the system's error.
#[cold]
pub(crate) fn of_file(path: &Path, source: &io::Error) -> PyErr {
    let Some(number) = source.raw_os_error() else { return failed(format_args!("{}: {source}", path.display())) };
    // Python writes the number and the path around the text, as for its own `open`.
    let text = source.to_string();
    let text = text.strip_suffix(&format!(" (os error {number})")).unwrap_or(&text).to_owned();
    PyOSError::new_err((number, text, path.as_os_str().to_owned()))
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
