//! The locks for shared values of tests. They are std's, or, under ThreadSanitizer, locks that it understands, as in the crate
//! itself.

#[cfg(gpucache_tsan)]
#[path = "../../crates/engine/src/base/sync/instrumented.rs"]
mod instrumented;

#[cfg(gpucache_tsan)]
#[path = "../../crates/engine/src/base/sync/gated.rs"]
mod gated;

#[cfg(gpucache_tsan)]
use self::instrumented::Gate;
#[cfg(gpucache_tsan)]
pub use self::{gated::*, instrumented::*};
#[cfg(not(gpucache_tsan))]
pub use std::sync::{Mutex, MutexGuard};
