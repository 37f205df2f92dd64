//! Traces a whole run without a change of code: `GPUCACHE_TRACE` names the file.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::session;
use super::whole::Trace;
use crate::base::output::Output;
use crate::base::sync::OnceLock;

const VARIABLE: &str = "GPUCACHE_TRACE";

/// The number of events that each thread keeps. A thread with so many takes 64 MB.
const CAPACITY: usize = 1 << 20;

/// The file, if the environment names one.
static PATH: OnceLock<Option<PathBuf>> = OnceLock::new();

/// Begins a trace at the first call, if the environment asks for one.
pub(crate) fn start_from_environment() {
    PATH.get_or_init(|| {
        let path = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        path.iter().for_each(|_| session::begin(CAPACITY));
        path
    });
}

/// Writes the trace that the environment asked for, while the process exits. Prints a failure to stderr, since no caller is left to
/// get it.
pub(crate) fn write_at_exit() {
    let Some(Some(path)) = PATH.get() else { return };
    let Some((session, unwritten)) = session::end() else { return };
    let trace = Trace::of(&session, unwritten);
    if let Err(error) = write(&trace, path) {
        let _ = writeln!(io::stderr(), "gpucache: {VARIABLE}={}: {error}", path.display());
    }
}

fn write(trace: &Trace, path: &Path) -> io::Result<()> {
    trace.write_csv(BufWriter::new(Output::create(path)?))
}
