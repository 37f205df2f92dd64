//! Shows a running program: the memory of its scopes and devices, updated once a second.
//!
//! ```text
//! GPUCACHE_WATCH=run.txt cargo run --release --example train
//! cargo run --release --example watch -- run.txt
//! ```
//!
//! Any program that uses gpucache writes the file that this variable names. The file is text, and is complete whenever it is
//! read.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Parser;

/// Shows the memory of a program that runs with GPUCACHE_WATCH=PATH, once a second.
#[derive(Debug, Parser)]
struct Options {
    /// The file that the running program writes: the value of its variable GPUCACHE_WATCH.
    path: PathBuf,
    /// Print the file once, and exit.
    #[arg(long)]
    once: bool,
}

/// The program writes once a second. If the file is older than this, the program has ended or was stopped.
const LATE: Duration = Duration::from_secs(3);

const INTERVAL: Duration = Duration::from_millis(500);

/// Clears a terminal, and continues at its top.
const CLEAR: &str = "\x1b[2J\x1b[H";

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has closed the pipe, because it has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("watch: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if options.once {
        return write!(out, "{}", std::fs::read_to_string(&options.path)?);
    }
    loop {
        write!(out, "{CLEAR}{}", shown(&options.path))?;
        out.flush()?;
        std::thread::sleep(INTERVAL);
    }
}

/// The contents of the file, with a note if they are old.
fn shown(path: &Path) -> String {
    let Ok(text) = std::fs::read_to_string(path) else {
        return format!("waiting for {}\n", path.display());
    };
    let age = std::fs::metadata(path).and_then(|file| file.modified()).ok();
    let age = age.and_then(|time| SystemTime::now().duration_since(time).ok()).unwrap_or_default();
    if age < LATE {
        return text;
    }
    format!("{text}\nwritten {} seconds ago: the program has ended, or is stopped\n", age.as_secs())
}
