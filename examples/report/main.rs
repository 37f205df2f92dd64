//! Writes a trace of the library in the formats of other tools.
//!
//! ```text
//! GPUCACHE_TRACE=run.csv cargo run --release --example train
//! cargo run --release --example report -- run.csv --snapshot run.pickle --perfetto run.json --rmm run.log --prometheus run.txt
//! cargo run --release --example report -- run.csv --page run.html
//! ```
//!
//! The reader's way: `run.rs`, what a trace is; then a file for each format.

#[path = "../common/mod.rs"]
#[allow(dead_code, reason = "there is no device to choose")]
mod common;
mod page;
mod perfetto;
mod pickle;
mod prometheus;
mod rmm;
mod run;
mod snapshot;
#[cfg(test)]
mod viewer;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use serde_json::Value;

use crate::common::Result;

/// Writes a trace in the formats of other tools: as many of them as are asked for.
#[derive(Debug, Parser)]
struct Options {
    /// What `GPUCACHE_TRACE` or `Trace::write_csv` wrote, packed by gzip or not.
    trace: PathBuf,
    /// A memory snapshot of PyTorch's, for pytorch.org/memory_viz.
    #[arg(long, value_name = "PICKLE")]
    snapshot: Option<PathBuf>,
    /// The same as JSON.
    #[arg(long, value_name = "JSON")]
    snapshot_json: Option<PathBuf>,
    /// Chrome's trace format, for ui.perfetto.dev: scopes by thread, live bytes, arrays by scope and stream.
    #[arg(long, value_name = "JSON")]
    perfetto: Option<PathBuf>,
    /// The log of RMM's logging_resource_adaptor.
    #[arg(long, value_name = "CSV")]
    rmm: Option<PathBuf>,
    /// Prometheus's text format: what was counted by scope.
    #[arg(long, value_name = "TEXT")]
    prometheus: Option<PathBuf>,
    /// A page that shows the run's memory, which needs a browser and nothing else.
    #[arg(long, value_name = "HTML")]
    page: Option<PathBuf>,
    /// What replays under limits gave, for the page: a list of objects with `limit_bytes`, `out_of_memory`, `reserved_bytes` and
    /// `planned_share`.
    #[arg(long, value_name = "JSON", requires = "page")]
    page_limits: Option<PathBuf>,
}

fn main() -> ExitCode {
    match report(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("report: {error}");
            ExitCode::FAILURE
        }
    }
}

fn report(options: &Options) -> Result<()> {
    let run = run::read(&options.trace)?;
    if run.lost > 0 {
        eprintln!("report: the trace had no room for {} events before the first one", run.lost);
    }
    if let Some(path) = &options.snapshot {
        let bytes = pickle::pickle(&snapshot::snapshot(&run))?;
        write(path, |file| Ok(file.write_all(&bytes)?))?;
    }
    if let Some(path) = &options.snapshot_json {
        write_json(path, &snapshot::snapshot(&run))?;
    }
    if let Some(path) = &options.perfetto {
        write_json(path, &perfetto::trace(&run))?;
    }
    if let Some(path) = &options.rmm {
        write(path, |file| Ok(rmm::write(&run, file)?))?;
    }
    if let Some(path) = &options.prometheus {
        write(path, |file| Ok(prometheus::write(&run, file)?))?;
    }
    if let Some(path) = &options.page {
        let name = options.trace.file_name().unwrap_or_default().to_string_lossy();
        let limits = options.page_limits.as_deref().map_or(Ok(Vec::new()), page_limits)?;
        write(path, |file| Ok(page::write(&run, &name, &limits, file)?))?;
    }
    Ok(())
}

fn page_limits(path: &Path) -> Result<Vec<page::Limited>> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let limits = page::Limited::list(&serde_json::from_str(&text)?);
    Ok(limits.map_err(|what| format!("{}: {what}", path.display()))?)
}

fn write_json(path: &Path, value: &Value) -> Result<()> {
    write(path, |file| Ok(serde_json::to_writer(file, value)?))
}

fn write(path: &Path, contents: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    let file = File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut file = BufWriter::new(file);
    contents(&mut file)?;
    Ok(file.flush()?)
}
