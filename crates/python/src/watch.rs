//! Starts what `GPUCACHE_WATCH` asks for. gpucache starts it when a thread first enters a scope of Rust, and the scopes of Python are not
//! entered that way.

use std::io::{self, Write};
use std::sync::Once;
use std::thread::Builder;

use gpucache::Scope;

const VARIABLE: &str = "GPUCACHE_WATCH";

/// The scope of allocations outside of all others. A thread enters it once, so its entries count threads, and this adds one.
const SCOPE: &str = "auto";

/// Starts the writing of the file at the first call, if the variable is set.
#[inline]
pub(crate) fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(begin);
}

#[cold]
fn begin() {
    let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) else { return };
    // When a thread ends, the next thread that enters the scope goes on with its cache. The calling thread would keep that cache.
    match Builder::new().spawn(|| drop(Scope::new(SCOPE).enter())) {
        // The block of the thread cannot fail.
        Ok(thread) => drop(thread.join()),
        Err(error) => tell(&path.to_string_lossy(), &error),
    }
}

/// If stderr is closed, nobody reads it.
fn tell(path: &str, error: &io::Error) {
    let _ = writeln!(io::stderr(), "gpucache: {VARIABLE}={path}: {error}");
}
