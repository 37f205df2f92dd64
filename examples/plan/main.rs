//! Lays out buffers from CSV files: `plan FILE.. [--seconds S] [--capacity BYTES] [--out DIR] [--inclusive] [--json]`.

mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use gpucache::plan::{Layout, Solver, check};
use serde_json::json;
use table::Table;

/// Lays out buffers with known lifetimes in as little memory as it finds.
///
/// A FILE (.csv or .csv.gz) has the columns id, lower, upper and size, in any order. A buffer lives from `lower` up to, but not
/// including, `upper`.
#[derive(Debug, Parser)]
#[command(name = "plan")]
struct Args {
    /// Files of buffers to lay out, each on its own.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Seconds for each file. A layout that meets the lower bound ends sooner.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Available bytes. The search ends when the layout fits them, and the output says whether it does.
    #[arg(long)]
    capacity: Option<u64>,
    /// Write each file to this folder, with a column of offsets.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Count the time `upper` as part of the life of a buffer.
    #[arg(long)]
    inclusive: bool,
    /// Print one JSON object for each file instead of a table.
    #[arg(long)]
    json: bool,
}

/// The printed result for one file.
struct Outcome {
    file: String,
    buffers: usize,
    lower_bound: u64,
    height: u64,
    milliseconds: f64,
    fits: Option<bool>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("plan: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    ensure!(args.seconds >= 0.0, "--seconds is {}: give a number of at least 0", args.seconds);
    let budget = Duration::try_from_secs_f64(args.seconds).unwrap_or(Duration::MAX);
    let width = args.files.iter().map(|f| f.as_os_str().len()).max().unwrap_or(0).max(4);
    if !args.json {
        let fits = if args.capacity.is_some() { "  fits" } else { "" };
        println!(
            "{:width$} {:>8} {:>16} {:>16} {:>8} {:>10}{fits}",
            "file", "buffers", "lower bound", "height", "ratio", "ms"
        );
    }
    for file in &args.files {
        let table = Table::read(file, args.inclusive)?;
        let (layout, outcome) = lay_out(args, file, &table, budget)?;
        if let Some(dir) = &args.out {
            table.write(dir, file, &layout.offsets)?;
        }
        outcome.print(args.json, width);
    }
    Ok(())
}

fn lay_out(args: &Args, file: &Path, table: &Table, budget: Duration) -> Result<(Layout, Outcome)> {
    let start = Instant::now();
    let mut solver = Solver::exact(&table.buffers).with_context(|| format!("{}", file.display()))?;
    solver.improve(args.capacity.unwrap_or(0), &mut || start.elapsed() >= budget);
    let layout = solver.layout();
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    if let Err(overlap) = check(&table.buffers, &layout) {
        bail!("{}: the layout found does not hold: {overlap}", file.display());
    }
    let outcome = Outcome {
        file: file.display().to_string(),
        buffers: table.buffers.len(),
        lower_bound: gpucache::plan::lower_bound(&table.buffers),
        height: layout.height,
        milliseconds,
        fits: args.capacity.map(|c| layout.height <= c),
    };
    Ok((layout, outcome))
}

impl Outcome {
    fn ratio(&self) -> f64 {
        if self.lower_bound == 0 { 1.0 } else { self.height as f64 / self.lower_bound as f64 }
    }

    fn print(&self, as_json: bool, width: usize) {
        let Self { file, buffers, lower_bound, height, milliseconds, fits } = self;
        let ratio = self.ratio();
        if as_json {
            let mut object = json!({
                "file": file, "buffers": buffers, "lower_bound": lower_bound, "height": height,
                "ratio": ratio, "milliseconds": milliseconds,
            });
            if let Some(fits) = fits {
                object["fits"] = json!(fits);
            }
            println!("{object}");
            return;
        }
        let fits = fits.map_or("", |f| if f { "   yes" } else { "    no" });
        println!("{file:width$} {buffers:8} {lower_bound:16} {height:16} {ratio:8.5} {milliseconds:10.2}{fits}");
    }
}
