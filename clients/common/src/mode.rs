//! Who serves what a client's crate allocates.

use serde::Serialize;

use crate::scope;

/// The argument of `--mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The crate as it comes: the driver's pool gives its memory back whenever the stream is waited for.
    Plain,
    /// The driver's pool keeps all that it ever had.
    Pool,
    /// The repeated work inside of a scope of gpucache's.
    Scope,
}

impl Mode {
    /// The body inside of the scope of this name, or as it is.
    ///
    /// A closure rather than `cache_scope!`, so that the body is written once for all modes; the macro expands to the same.
    pub fn run<R>(self, name: &str, body: impl FnOnce() -> R) -> R {
        if self == Mode::Scope { scope::run(name, body) } else { body() }
    }
}
