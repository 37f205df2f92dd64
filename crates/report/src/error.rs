//! The errors of this crate.

use std::io;
use std::path::PathBuf;

/// A result of this crate.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// A problem of a file, of a run, or of the device of a replay.
///
/// ```
/// use gpucache_report::{Error, Run};
///
/// let error = Run::read("missing.csv").unwrap_err();
/// assert!(matches!(error, Error::Unreadable { .. }));
/// assert!(error.to_string().starts_with("missing.csv: "));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file is cut off, damaged, or of another kind.
    #[error("{}:{line}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The problem in that line.
        what: String,
    },
    /// Events of a run contradict each other, or there are none.
    #[error("event {event} of the run: {what}")]
    Inconsistent {
        /// The event, counted from 0.
        event: usize,
        /// The problem of that event.
        what: String,
    },
    /// The device of a replay failed. A lack of memory is no failure: a replay counts it.
    #[error(transparent)]
    Device(#[from] gpucache::Error),
    /// An array of a replay lost its contents, because another array had the same memory.
    #[error("{0}")]
    Overwritten(String),
}
