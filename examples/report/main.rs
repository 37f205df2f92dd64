//! Converts a trace of gpucache to the formats of other tools.
//!
//! ```text
//! GPUCACHE_TRACE=run.csv cargo run --release --example train
//! cargo run --release --example report -- run.csv --snapshot run.pickle --perfetto run.json --rmm run.log --prometheus run.txt
//! cargo run --release --example report -- run.csv --page run.html
//! ```
//!
//! The crate `gpucache-report` does the work; programs can use it on their own.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use gpucache_report::{Run, page, perfetto, prometheus, rmm, snapshot};

/// Writes a run in one format.
type Format = fn(&Run, &str, &mut BufWriter<File>) -> io::Result<()>;

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

fn report(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let run = Run::read(&options.trace)?;
    if run.lost > 0 {
        eprintln!("report: the trace had no room for {} events before the first one", run.lost);
    }
    let name = options.trace.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let formats: [(&Option<PathBuf>, Format); 6] = [
        (&options.snapshot, |run, _, file| snapshot::write_pickle(run, file)),
        (&options.snapshot_json, |run, _, file| snapshot::write_json(run, file)),
        (&options.perfetto, |run, _, file| perfetto::write(run, file)),
        (&options.rmm, |run, _, file| rmm::write(run, file)),
        (&options.prometheus, |run, _, file| prometheus::write(run, file)),
        (&options.page, |run, name, file| page::write(run, name, file)),
    ];
    for (path, format) in formats {
        if let Some(path) = path {
            write(&run, &name, path, format).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(())
}

fn write(run: &Run, name: &str, path: &Path, format: Format) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    format(run, name, &mut file)?;
    file.flush()
}
