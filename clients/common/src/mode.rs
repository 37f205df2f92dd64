//! The choice of the allocator that serves the client's crate.

use serde::Serialize;

use crate::scope;

/// The argument of `--mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The unmodified crate: the driver's pool frees its memory whenever the program waits for the stream.
    Plain,
    /// The driver's pool keeps all of its memory.
    Pool,
    /// The repeated work runs inside a scope of gpucache.
    Scope,
}

impl Mode {
    /// Runs the body inside the scope with this name in the mode `Scope`, and directly in the others.
    ///
    /// It takes a closure, so that a body is written once for all modes. The macro `cache_scope!` expands to the same calls.
    pub fn run<R>(self, name: &str, body: impl FnOnce() -> R) -> R {
        if self == Mode::Scope { scope::run(name, body) } else { body() }
    }
}
