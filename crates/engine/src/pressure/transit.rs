//! Blocks of plans on their way between a range and a lease. A thread that lacks memory finds such a block in neither of the two,
//! and has to look again before it reports a shortage.
//!
//! Invariant: a thread that takes a block out of a lease, or out of a range for a lease, first counts a departure. It counts the
//! arrival once other threads can find the block. All counts are sequentially consistent.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread::yield_now;

use crate::base::sync::{Mutex, lock};

static DEPARTURES: AtomicU64 = AtomicU64::new(0);
static ARRIVALS: AtomicU64 = AtomicU64::new(0);

/// The most yields while a block is on its way, some hundred microseconds in all. On its way, a block waits at most for device
/// calls, which take about as long.
const MOST_YIELDS: u32 = 1000;

/// While this lives, a block is on its way.
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

/// Whether no block is on its way.
pub(super) fn is_still() -> bool {
    let arrivals = arrivals();
    DEPARTURES.load(SeqCst) == arrivals
}

/// Waits for the blocks that are on their way, for a bounded time.
pub(crate) fn wait() {
    (0..MOST_YIELDS).take_while(|_| !is_still()).for_each(|_| yield_now());
}

/// While this lives, a thread takes blocks away from plans: on this device, or on every device if the limit of the process was met.
/// Meanwhile no plan gets a block there.
pub(crate) struct InNeed(Option<u64>);

static NEEDS: Mutex<Vec<Option<u64>>> = Mutex::new(Vec::new());

impl InNeed {
    pub(crate) fn begin(device: Option<u64>) -> InNeed {
        lock(&NEEDS).push(device);
        InNeed(device)
    }

    /// Whether any thread takes blocks away on this device.
    pub(crate) fn is_any(device: u64) -> bool {
        lock(&NEEDS).iter().any(|need| need.is_none_or(|needy| needy == device))
    }
}

impl Drop for InNeed {
    fn drop(&mut self) {
        let mut needs = lock(&NEEDS);
        let place = needs.iter().position(|need| *need == self.0);
        place.into_iter().for_each(|place| _ = needs.swap_remove(place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_of_one_device_leaves_the_plans_of_others_alone() {
        // No device has these numbers, since devices are numbered from one.
        let (short, other) = (u64::MAX - 1, u64::MAX - 2);
        let needs = [InNeed::begin(Some(short)), InNeed::begin(Some(short))];
        assert!(InNeed::is_any(short) && !InNeed::is_any(other));
        for need in needs {
            assert!(InNeed::is_any(short));
            drop(need);
        }
        assert!(!InNeed::is_any(short));
        let _every = InNeed::begin(None);
        assert!(InNeed::is_any(short) && InNeed::is_any(other));
    }
}
