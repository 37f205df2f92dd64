//! Why a file could not be read.

use std::io;
use std::path::PathBuf;

/// What is wrong with a file of a trace.
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
}
