//! Blocks of plans on their way between a range and a lease: a thread that lacks memory finds them in neither, and has to
//! look again before it says that there is none.
//!
//! Invariant: who takes a block out of a lease, or out of a range for one, has counted itself in before, and counts itself out
//! once the block is where others find it. All counts are sequentially consistent.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread::yield_now;

static DEPARTURES: AtomicU64 = AtomicU64::new(0);
static ARRIVALS: AtomicU64 = AtomicU64::new(0);
static IN_NEED: AtomicU64 = AtomicU64::new(0);

/// Yields for what is on its way, some hundred microseconds in all: a way waits for calls of a device at most, of that order.
const MOST_YIELDS: u32 = 1000;

/// A block is on its way while this lives.
pub(crate) struct Transit(());

impl Transit {
    pub(crate) fn begin() -> Transit {
        DEPARTURES.fetch_add(1, SeqCst);
        Transit(())
    }
}

impl Drop for Transit {
    fn drop(&mut self) {
        ARRIVALS.fetch_add(1, SeqCst);
    }
}

/// How many blocks have arrived so far.
pub(super) fn arrivals() -> u64 {
    ARRIVALS.load(SeqCst)
}

/// Whether none is on its way.
pub(super) fn is_still() -> bool {
    let arrivals = arrivals();
    DEPARTURES.load(SeqCst) == arrivals
}

/// Waits for those that are on their way, for a bounded time.
pub(crate) fn wait() {
    (0..MOST_YIELDS).take_while(|_| !is_still()).for_each(|_| yield_now());
}

/// A thread takes blocks away from plans while this lives. No plan gets one meanwhile.
pub(crate) struct InNeed(());

impl InNeed {
    pub(crate) fn begin() -> InNeed {
        IN_NEED.fetch_add(1, SeqCst);
        InNeed(())
    }

    /// Whether any thread does.
    pub(crate) fn is_any() -> bool {
        IN_NEED.load(SeqCst) > 0
    }
}

impl Drop for InNeed {
    fn drop(&mut self) {
        IN_NEED.fetch_sub(1, SeqCst);
    }
}
