//! Blocks of plans on their way between a range and a lease. A thread that lacks memory finds such a block in neither of the two,
//! and has to look again before it reports a shortage. The same holds for an array that leaves for the host, until its memory is free.
//!
//! Invariant: a thread that takes a block out of a lease, or out of a range for a lease, first counts a departure. It counts the
//! arrival once other threads can find the block. All counts are sequentially consistent.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread::{sleep, yield_now};
use std::time::Duration;

use crate::base::finally::{Finally, finally};
use crate::base::sync::{Mutex, lock};

static DEPARTURES: AtomicU64 = AtomicU64::new(0);
static ARRIVALS: AtomicU64 = AtomicU64::new(0);

/// The most yields while a block is on its way, some hundred microseconds in all. On its way, a block waits at most for device
/// calls, which take about as long.
const MOST_YIELDS: u32 = 1000;

/// How long a request waits in all for arrays on their way to the host. A thread that copies a GiB itself takes 0.1 to 0.4 s.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks at an array on its way.
const PAUSE: Duration = Duration::from_millis(1);

/// While this lives, a block or an array is on its way.
#[derive(Debug)]
pub struct Transit(());

impl Transit {
    /// A block or an array sets out.
    pub fn begin() -> Transit {
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

/// Waits for what is on its way, for a bounded time, and takes the time of sleep off `patience`.
pub(crate) fn wait(patience: &mut Duration) {
    (0..MOST_YIELDS).take_while(|_| !is_still()).for_each(|_| yield_now());
    while !is_still() && !patience.is_zero() {
        sleep(PAUSE);
        *patience = patience.saturating_sub(PAUSE);
    }
}

/// The devices on which threads take blocks away from plans; `None` stands for every device.
static NEEDS: Mutex<Vec<Option<u64>>> = Mutex::new(Vec::new());

/// While the returned value lives, a thread takes blocks away from plans: on this device, or on every device if the limit of the process was
/// met. Meanwhile no plan gets a block there.
pub(crate) fn take_blocks(device: Option<u64>) -> Finally<impl FnMut()> {
    lock(&NEEDS).push(device);
    finally(move || {
        let mut needs = lock(&NEEDS);
        let place = needs.iter().position(|need| *need == device);
        place.into_iter().for_each(|place| _ = needs.swap_remove(place));
    })
}

/// Whether any thread takes blocks away on this device.
pub(crate) fn are_blocks_taken(device: u64) -> bool {
    lock(&NEEDS).iter().any(|need| need.is_none_or(|needy| needy == device))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn an_array_on_its_way_is_awaited() {
        let has_come = Arc::new(AtomicBool::new(false));
        let (begun, comes) = (Transit::begin(), has_come.clone());
        let end = std::thread::spawn(move || {
            // Longer than the yields take.
            sleep(Duration::from_millis(50));
            comes.store(true, SeqCst);
            drop(begun);
        });
        // Those of other tests may be on their way too.
        wait(&mut Duration::from_secs(60));
        assert!(has_come.load(SeqCst));
        end.join().unwrap();
    }

    #[test]
    fn a_shortage_of_one_device_leaves_the_plans_of_others_alone() {
        // No device has these numbers, since devices are numbered from one.
        let (short, other) = (u64::MAX - 1, u64::MAX - 2);
        let needs = [take_blocks(Some(short)), take_blocks(Some(short))];
        assert!(are_blocks_taken(short) && !are_blocks_taken(other));
        for need in needs {
            assert!(are_blocks_taken(short));
            drop(need);
        }
        assert!(!are_blocks_taken(short));
        let _every = take_blocks(None);
        assert!(are_blocks_taken(short) && are_blocks_taken(other));
    }
}
