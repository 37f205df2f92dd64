//! Events for subscribers of the crate `tracing`: their target, and whether there is a subscriber for them.
//!
//! A subscriber is code of the program, which may enter scopes and allocate. So the engine sends no event under a lock, or while the
//! owner's side of a cache is borrowed. It keeps the event until then. A panic of a subscriber ends here: the call that caused the event may
//! have entered a scope, or may be a drop.

use tracing::level_filters::LevelFilter;

use super::errand::{after_errands, run_user_code};
use super::held::assert_nothing_held;
use super::panics::panic_of;

/// The target of every span and event.
pub const TARGET: &str = "gpucache";

/// Whether any subscriber may want events, so that it is worth keeping an event to send later. The cost is one relaxed load.
#[inline]
pub fn is_heard() -> bool {
    LevelFilter::current() >= LevelFilter::DEBUG
}

/// Whether there is any subscriber. Without one, no errand of the thread needs to be paused.
fn is_there() -> bool {
    assert_nothing_held();
    LevelFilter::current() > LevelFilter::OFF
}

/// Sends an event, if there is a subscriber. `event` runs as code of the program.
pub fn tell(event: impl FnOnce()) {
    if is_there() {
        run_user_code(|| calm(event));
    }
}

/// Calls a subscriber, and ends its panic.
pub fn calm(call: impl FnOnce()) {
    let _ = panic_of(call);
}

/// The same, once the thread has no errand that other threads wait for.
pub fn tell_after_errands(event: impl FnOnce() + 'static) {
    if is_there() {
        after_errands(|| calm(event));
    }
}
