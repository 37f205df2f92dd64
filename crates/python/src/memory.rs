//! Memory by its address, and devices by their numbers: -1 is the host.

use pyo3::prelude::*;

use crate::errors::{apart, failed, raised};
use crate::torch;

/// Allocates memory for a stream, and returns its address.
#[pyfunction]
#[pyo3(signature = (bytes, device, stream = 0))]
pub(crate) fn allocate(py: Python<'_>, bytes: usize, device: i32, stream: usize) -> PyResult<u64> {
    apart(py, || gpucache_capi::allocate(bytes, device, stream))
}

/// Frees memory by its address.
#[pyfunction]
pub(crate) fn free(py: Python<'_>, address: u64) -> PyResult<()> {
    apart(py, || gpucache_capi::free(address))
}

/// Notes that work on another stream uses memory.
#[pyfunction]
pub(crate) fn record_stream(py: Python<'_>, address: u64, stream: usize) -> PyResult<()> {
    apart(py, || gpucache_capi::record_stream(address, stream))
}

/// Notes that the owner of a stream is about to destroy it.
#[pyfunction]
pub(crate) fn stream_ends(py: Python<'_>, device: i32, stream: usize) -> PyResult<()> {
    apart(py, || gpucache_capi::stream_ends(device, stream))
}

/// The begin and the bytes of the allocation that contains an address.
#[pyfunction]
pub(crate) fn base_address(py: Python<'_>, address: u64) -> Option<(u64, usize)> {
    py.detach(|| gpucache_capi::base_address(address))
}

/// Gives idle memory back to a device, and returns the bytes.
#[pyfunction]
pub(crate) fn trim(py: Python<'_>, device: i32) -> PyResult<u64> {
    apart(py, || gpucache_capi::trim(device))
}

/// Checks the text of a limit, and changes nothing.
#[pyfunction]
pub(crate) fn check_limit(limit: &str) -> PyResult<()> {
    limit.parse::<gpucache::Limit>().map(drop).map_err(raised)
}

/// Limits the memory of a device.
#[pyfunction]
pub(crate) fn set_limit(py: Python<'_>, device: i32, limit: &str) -> PyResult<()> {
    apart(py, || gpucache_capi::set_limit(device, limit))?;
    torch::note_limit(device);
    Ok(())
}

/// The memory of a device, as pairs of a name and a number.
#[pyfunction]
pub(crate) fn device_stats(py: Python<'_>, device: i32) -> PyResult<Vec<(&'static str, u64)>> {
    let read = || Ok((gpucache_capi::device_stats(device)?, gpucache_capi::device_calls(device)?));
    let (used, (device_allocations, device_frees)) = apart(py, read)?;
    Ok(vec![
        ("allocated_bytes", used.allocated_bytes),
        ("peak_allocated_bytes", used.peak_allocated_bytes),
        ("reserved_bytes", used.reserved_bytes),
        ("peak_reserved_bytes", used.peak_reserved_bytes),
        ("allocations", used.allocations),
        ("frees", used.frees),
        ("live_blocks", used.allocations.saturating_sub(used.frees)),
        ("out_of_memory", used.out_of_memory),
        // Of the same moment as the next two.
        ("device_calls", device_allocations + device_frees),
        ("device_allocations", device_allocations),
        ("device_frees", device_frees),
        ("total_allocated_bytes", used.total_allocated_bytes),
        ("total_freed_bytes", used.total_freed_bytes),
    ])
}

/// Has the peaks of a device begin anew.
#[pyfunction]
pub(crate) fn reset_peaks(py: Python<'_>, device: i32) -> PyResult<()> {
    apart(py, || gpucache_capi::reset_peaks(device))
}

/// Lets a pool serve these streams of a device, or all of them. It is given streams and no function of Python, since allocations ask it
/// on any thread, and must not wait for the interpreter.
#[pyfunction]
#[pyo3(signature = (device, id, streams = None))]
pub(crate) fn pool_begin(py: Python<'_>, device: i32, id: (u64, u64), streams: Option<Vec<usize>>) -> PyResult<()> {
    let filter = move |stream| streams.as_ref().is_none_or(|known| known.contains(&stream));
    apart(py, || gpucache_capi::pool_begin(device, id, Box::new(filter)))
}

/// Ends what `pool_begin` began.
#[pyfunction]
pub(crate) fn pool_end(py: Python<'_>, device: i32, id: (u64, u64)) -> PyResult<()> {
    apart(py, || gpucache_capi::pool_end(device, id))
}

/// Notes that a graph of a pool is gone.
#[pyfunction]
pub(crate) fn pool_release(py: Python<'_>, device: i32, id: (u64, u64)) -> PyResult<()> {
    apart(py, || gpucache_capi::pool_release(device, id))
}

/// The pools that the calling thread began and did not end.
#[pyfunction]
pub(crate) fn open_pools() -> Vec<(i32, (u64, u64))> {
    gpucache_capi::open_pools()
}

/// Notes that another library captures a graph.
#[pyfunction]
pub(crate) fn capture_begins() {
    gpucache_capi::capture_begins();
}

/// Undoes one `capture_begins`.
#[pyfunction]
pub(crate) fn capture_ends(py: Python<'_>) {
    py.detach(gpucache_capi::capture_ends);
}

/// Memory that is freed with its Python object, as `gpucache.allocate` returns it.
#[pyclass(frozen, weakref, module = "gpucache")]
pub(crate) struct Owned {
    /// The address of the memory.
    #[pyo3(get)]
    address: u64,
    /// The bytes of the memory.
    #[pyo3(get)]
    bytes: usize,
}

#[pymethods]
impl Owned {
    #[new]
    #[pyo3(signature = (bytes, device, stream = None))]
    fn new(bytes: &Bound<'_, PyAny>, device: &Bound<'_, PyAny>, stream: Option<&Bound<'_, PyAny>>) -> PyResult<Owned> {
        let py = bytes.py();
        let fitting = || -> PyResult<_> {
            Ok((bytes.extract()?, device.extract()?, stream.map_or(Ok(0), |stream| stream.extract())?))
        };
        let (size, number, handle) = fitting().map_err(|error| unfit(error, bytes, device, stream))?;
        Ok(Owned { address: allocate(py, size, number, handle)?, bytes: size })
    }

    fn __repr__(&self) -> String {
        format!("<{} bytes at {:#x}>", self.bytes, self.address)
    }
}

/// The exception for arguments that are no numbers of their ranges. The check in Python names the argument.
#[cold]
fn unfit(
    error: PyErr,
    bytes: &Bound<'_, PyAny>,
    device: &Bound<'_, PyAny>,
    stream: Option<&Bound<'_, PyAny>>,
) -> PyErr {
    let check = bytes.py().import("gpucache._memory").and_then(|module| module.getattr("checked"));
    let checked = check.and_then(|check| match stream {
        Some(stream) => check.call1((bytes, device, stream)),
        None => check.call1((bytes, device, 0)),
    });
    checked.err().unwrap_or(error)
}

impl Drop for Owned {
    fn drop(&mut self) {
        let free = || gpucache_capi::free(self.address);
        // At the end of the interpreter there is no lock to give up.
        let freed = Python::try_attach(|py| py.detach(free)).unwrap_or_else(free);
        if let Err(error) = freed {
            Python::try_attach(|py| failed(error).write_unraisable(py, None));
        }
    }
}
