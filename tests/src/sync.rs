//! The locks of what tests share: std's, or those that ThreadSanitizer understands where it watches, as in the crate itself.

#[cfg(gpucache_tsan)]
#[path = "../../crates/engine/src/base/sync/instrumented.rs"]
mod instrumented;

#[cfg(gpucache_tsan)]
pub use self::instrumented::*;
#[cfg(not(gpucache_tsan))]
pub use std::sync::{Mutex, MutexGuard};
