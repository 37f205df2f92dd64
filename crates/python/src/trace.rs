//! Traces, and the files that are made of them.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use gpucache_report::{Op, page, perfetto, snapshot};
use pyo3::prelude::*;

use crate::errors::{failed, of_file, unreadable};

/// Starts a trace that keeps up to so many events.
#[pyfunction]
pub(crate) fn trace_start(py: Python<'_>, events: usize) {
    py.detach(|| gpucache::trace::start(events));
}

/// Ends the trace, and returns it.
#[pyfunction]
pub(crate) fn trace_stop(py: Python<'_>) -> Run {
    py.detach(|| Run::of(gpucache::trace::stop()))
}

/// Reads the file of a trace.
#[pyfunction]
pub(crate) fn trace_read(py: Python<'_>, path: PathBuf) -> PyResult<Run> {
    let run = py.detach(|| gpucache_report::Run::read(path)).map_err(unreadable)?;
    Ok(Run { run, trace: None })
}

/// The events of a trace.
#[pyclass(frozen, module = "gpucache._gpucache")]
pub(crate) struct Run {
    run: gpucache_report::Run,
    /// `None` if it comes from a file.
    trace: Option<gpucache::trace::Trace>,
}

impl Run {
    fn of(trace: gpucache::trace::Trace) -> Run {
        Run { run: (&trace).into(), trace: Some(trace) }
    }

    /// How many events of this kind there are.
    fn count(&self, op: Op) -> usize {
        self.run.events.iter().filter(|event| event.op == op).count()
    }
}

#[pymethods]
impl Run {
    /// The number of events.
    fn __len__(&self) -> usize {
        self.run.events.len()
    }

    /// Allocations.
    #[getter]
    fn allocations(&self) -> usize {
        self.count(Op::Allocate)
    }

    /// Frees.
    #[getter]
    fn frees(&self) -> usize {
        self.count(Op::Free)
    }

    /// Events that the trace had no room for.
    #[getter]
    fn lost(&self) -> u64 {
        self.run.lost
    }

    /// Writes the events as CSV, as `GPUCACHE_TRACE` does.
    fn write_csv(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let Some(trace) = &self.trace else {
            return Err(failed("this trace was read from a file: copy that file instead of writing it again"));
        };
        to_file(py, path, |file| trace.write_csv(file))
    }

    /// Writes the page.
    fn write_page(&self, py: Python<'_>, path: PathBuf, name: &str) -> PyResult<()> {
        to_file(py, path, |file| page::write(&self.run, name, file))
    }

    /// Writes a snapshot for PyTorch's viewer.
    fn write_snapshot(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        to_file(py, path, |file| snapshot::write_pickle(&self.run, file))
    }

    /// Writes a file for Perfetto.
    fn write_perfetto(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        to_file(py, path, |file| perfetto::write(&self.run, file))
    }
}

fn to_file(
    py: Python<'_>,
    path: PathBuf,
    write: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()> + Send,
) -> PyResult<()> {
    let written = py.detach(|| {
        let mut file = BufWriter::new(File::create(&path)?);
        write(&mut file)?;
        file.flush()
    });
    written.map_err(|error| of_file(&path, &error))
}
