//! The functions that PyTorch calls. They are in C++, since some of their arguments are C++ objects and running out of memory is a C++
//! exception. Python passes their addresses to PyTorch.
//!
//! | file | content |
//! |---|---|
//! | `hooks.cpp` | the functions |
//! | `raise.cpp` | the exception of PyTorch for out of memory, without PyTorch's headers |

#[cfg(feature = "torch")]
mod linked;
#[cfg(not(feature = "torch"))]
mod missing;

#[cfg(feature = "torch")]
use linked as shim;
#[cfg(not(feature = "torch"))]
use missing as shim;

use pyo3::prelude::*;

use crate::errors::{apart, raised};

/// The addresses of the functions, by the names of PyTorch's setters. `malloc` and `free` are passed to its constructor, and for a pool
/// `pool_malloc` and `free`.
#[pyfunction]
pub(crate) fn torch_functions() -> PyResult<Vec<(&'static str, usize)>> {
    shim::functions().map_err(raised)
}

/// Looks up PyTorch's exception for out of memory in an open library. Returns whether the library has it.
#[pyfunction]
pub(crate) fn torch_find_error(path: &str) -> bool {
    shim::find_error(path)
}

/// The limit that each device gets when PyTorch first allocates there; `None` for no limit.
#[pyfunction]
#[pyo3(signature = (limit = None))]
pub(crate) fn torch_set_limit(py: Python<'_>, limit: Option<&str>) -> PyResult<()> {
    let limit: gpucache::Limit = limit.unwrap_or("none").parse().map_err(raised)?;
    apart(py, || shim::set_limit(&limit.to_string()))
}

/// Notes that the program has limited a device. The limit that PyTorch's first allocation there would set does not replace it.
pub(crate) fn note_limit(device: i32) {
    shim::note_limit(device);
}

/// The devices on which PyTorch has allocated.
#[pyfunction]
pub(crate) fn torch_used_devices() -> Vec<u32> {
    let mask = shim::used_devices();
    (0..u64::BITS).filter(|device| mask >> device & 1 == 1).collect()
}
