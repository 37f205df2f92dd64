//! Writes a trace of gpucache in the formats of other tools, or compares it with another trace.
//!
//! ```text
//! GPUCACHE_TRACE=run.csv cargo run --release --example train
//! cargo run --release --example report -- run.csv --page run.html
//! cargo run --release --example report -- run.csv --snapshot run.pickle --perfetto run.json --rmm run.log --prometheus run.txt
//! cargo run --release --example report -- run.csv --against before.csv
//! ```
//!
//! The crate `gpucache-report` has the functions behind it, for use in your own program.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser};
use gpucache_report::{Run, compare, page, perfetto, prometheus, rmm, snapshot};

/// Writes a run in one format.
type Format = fn(&Run, &str, &mut BufWriter<File>) -> io::Result<()>;

/// Writes a trace in the formats of other tools, or compares it with another trace. Name at least one output.
#[derive(Debug, Parser)]
struct Options {
    /// The trace: a file of `GPUCACHE_TRACE` or `Trace::write_csv`, packed by gzip or not.
    trace: PathBuf,
    #[command(flatten)]
    outputs: Outputs,
}

/// The outputs: at least one of these.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct Outputs {
    /// A page that shows the memory of the run in a browser. It needs no network.
    #[arg(long, value_name = "HTML")]
    page: Option<PathBuf>,
    /// Print which arrays use more or less memory at the peak than in this earlier trace, by source line.
    #[arg(long, value_name = "TRACE")]
    against: Option<PathBuf>,
    /// A memory snapshot for PyTorch's viewer, pytorch.org/memory_viz.
    #[arg(long, value_name = "PICKLE")]
    snapshot: Option<PathBuf>,
    /// The same snapshot as JSON.
    #[arg(long, value_name = "JSON")]
    snapshot_json: Option<PathBuf>,
    /// Chrome's trace format, for ui.perfetto.dev: scopes by thread, live bytes, arrays by scope and stream.
    #[arg(long, value_name = "JSON")]
    perfetto: Option<PathBuf>,
    /// The log format of RMM's logging_resource_adaptor.
    #[arg(long, value_name = "CSV")]
    rmm: Option<PathBuf>,
    /// Prometheus's text format: counters by scope.
    #[arg(long, value_name = "TEXT")]
    prometheus: Option<PathBuf>,
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

fn report(Options { trace, outputs }: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let run = read(trace)?;
    let name = trace.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if let Some(before) = &outputs.against {
        write!(io::stdout(), "{}", compare(&read(before)?, &run))?;
    }
    let formats: [(&Option<PathBuf>, Format); 6] = [
        (&outputs.snapshot, |run, _, file| snapshot::write_pickle(run, file)),
        (&outputs.snapshot_json, |run, _, file| snapshot::write_json(run, file)),
        (&outputs.perfetto, |run, _, file| perfetto::write(run, file)),
        (&outputs.rmm, |run, _, file| rmm::write(run, file)),
        (&outputs.prometheus, |run, _, file| prometheus::write(run, file)),
        (&outputs.page, |run, name, file| page::write(run, name, file)),
    ];
    for (path, format) in formats {
        if let Some(path) = path {
            if is_same(path, trace) {
                return Err(
                    format!("{}: this is the trace itself: name another file for the output", path.display()).into()
                );
            }
            write(&run, &name, path, format).map_err(|error| format!("{}: {error}", path.display()))?;
            eprintln!("report: wrote {}", path.display());
        }
    }
    Ok(())
}

/// Whether both are one file. A file that does not exist yet is no other one.
fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

fn read(path: &Path) -> Result<Run, gpucache_report::Error> {
    let run = Run::read(path)?;
    if run.lost > 0 {
        eprintln!("report: {}: the trace lost its first {} events for lack of room", path.display(), run.lost);
    }
    Ok(run)
}

fn write(run: &Run, name: &str, path: &Path, format: Format) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    format(run, name, &mut file)?;
    file.flush()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_command_without_an_output_says_which_there_are() {
        let error = Options::try_parse_from(["report", "run.csv"]).unwrap_err().to_string();
        for output in ["--page", "--against", "--snapshot", "--perfetto", "--rmm", "--prometheus"] {
            assert!(error.contains(output), "{error}");
        }
        let options = Options::try_parse_from(["report", "run.csv", "--page", "run.html", "--rmm", "run.log"]).unwrap();
        assert!(options.outputs.page.is_some() && options.outputs.against.is_none());
    }

    #[test]
    fn the_trace_is_not_overwritten() {
        let trace = std::env::temp_dir().join(format!("gpucache-report-{}.csv", std::process::id()));
        gpucache::trace::Trace::default().write_csv(File::create(&trace).unwrap()).unwrap();
        let before = std::fs::read(&trace).unwrap();
        let path = trace.display().to_string();
        let options = Options::try_parse_from(["report", &path, "--page", &path]).unwrap();
        assert!(report(&options).unwrap_err().to_string().contains("this is the trace itself"));
        assert_eq!(std::fs::read(&trace).unwrap(), before);
        std::fs::remove_file(trace).unwrap();
    }
}
