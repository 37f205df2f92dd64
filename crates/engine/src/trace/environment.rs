//! Traces a whole run without a change of code: `GPUCACHE_TRACE` names the file.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::session;
use super::whole::Trace;
use crate::base::output::Output;
use crate::base::sync::OnceLock;

const VARIABLE: &str = "GPUCACHE_TRACE";

/// The number of events that each thread keeps. A thread with so many takes 64 MiB.
const CAPACITY: usize = 1 << 20;

/// The file, if the environment names one, and the number of the trace's session.
static ASKED: OnceLock<Option<(PathBuf, u64)>> = OnceLock::new();

/// Begins a trace at the first call, if the environment asks for one. The first device and the first scope of each name call this.
pub(crate) fn start_from_environment() {
    ASKED.get_or_init(|| {
        let path = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        path.map(|path| (path, session::begin(CAPACITY)))
    });
}

/// Writes the trace that the environment asked for, while the process exits. Prints a failure to stderr, since no caller is left to
/// get it.
pub(crate) fn write_at_exit() {
    let Some(Some((path, number))) = ASKED.get() else { return };
    if session::number() != *number {
        return tell(path, &"no trace of the whole run, since the program began or ended a trace itself");
    }
    let Some((session, unwritten)) = session::end() else { return };
    if let Err(error) = write(&Trace::of(&session, unwritten), path) {
        tell(path, &error);
    }
}

fn tell(path: &Path, what: &dyn std::fmt::Display) {
    let _ = writeln!(io::stderr(), "gpucache: {VARIABLE}={}: {what}", path.display());
}

fn write(trace: &Trace, path: &Path) -> io::Result<()> {
    trace.write_csv(BufWriter::new(Output::create(path)?))
}
