//! Why a file could not be read, or a history not be replayed.

use std::io;
use std::path::PathBuf;

/// A result of this crate.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// What is wrong with a file, a run, or a device that a history was replayed on.
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
    /// The system does not give the file.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is cut off, damaged, or of another kind.
    #[error("{}:{line}: {what}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// The line that it is in, counted from 1.
        line: usize,
        /// What is wrong there.
        what: String,
    },
    /// Events of a run contradict each other, or there are none.
    #[error("event {event} of the run: {what}")]
    Inconsistent {
        /// The event, counted from 0.
        event: usize,
        /// What is wrong with it.
        what: String,
    },
    /// A device failed in a replay, by more than a lack of memory.
    #[error(transparent)]
    Device(#[from] gpucache::Error),
    /// An array of a replay did not keep what was written to it, as its memory was given to another one too.
    #[error("{0}")]
    Overwritten(String),
}
