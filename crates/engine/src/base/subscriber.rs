//! What all that is told by the crate `tracing` has in common: whose it is, and whether anybody hears it.
//!
//! A subscriber is code of the program, which may enter scopes and allocate. So nothing is told under a lock, or while the
//! owner's side of a cache is borrowed: it is kept until then.

use tracing::level_filters::LevelFilter;

use super::errand::{after_errands, run_user_code};
use super::held::assert_nothing_held;

/// The target of every span and event.
pub const TARGET: &str = "gpucache";

/// Whether any subscriber may want events, so that one is worth keeping until it can be told: one relaxed load.
#[inline]
pub fn is_heard() -> bool {
    LevelFilter::current() >= LevelFilter::DEBUG
}

/// Whether there is any subscriber. Without one no errand of the thread is paused to tell it.
fn is_there() -> bool {
    assert_nothing_held();
    LevelFilter::current() > LevelFilter::OFF
}

/// Tells a subscriber, if there is one, by `event`.
pub fn tell(event: impl FnOnce()) {
    if is_there() {
        run_user_code(event);
    }
}

/// The same, once the thread is at no errand that others wait for.
pub fn tell_after_errands(event: impl FnOnce() + 'static) {
    if is_there() {
        after_errands(event);
    }
}
