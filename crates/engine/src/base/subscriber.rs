//! What all that is told by the crate `tracing` has in common: whose it is, and whether anybody hears it.
//!
//! A subscriber is code of the program, which may enter scopes and allocate. So nothing is told under a lock, or while the
//! owner's side of a cache is borrowed: it is kept until then.

use tracing::level_filters::LevelFilter;

use super::errand::run_user_code;

/// The target of every span and event.
pub const TARGET: &str = "gpucache";

/// Whether any subscriber may want events, so that one is worth keeping until it can be told: one relaxed load.
#[inline]
pub fn is_heard() -> bool {
    LevelFilter::current() >= LevelFilter::DEBUG
}

/// Tells a subscriber, if there is one, by `event`.
pub fn tell(event: impl FnOnce()) {
    run_user_code(event);
}
