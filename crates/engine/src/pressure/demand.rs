//! How much of each device's memory the scopes are likely to need again. It is kept as a sum for each device, so that giving the
//! rest back costs the same however many names there are.
//!
//! Invariant: the sum has the demand that each cache reported last. A cache reports a demand that has changed
//! when it is left, when a part of an entry ends, and when it or a scope inside it looks at its range.

use hashbrown::HashMap;

use super::reclaim;
use crate::base::sync::{LazyLock, Mutex, lock};
use crate::device::Memory;
use crate::range::{self, WaitFor};

/// By device. The sum of many scopes may need more than 64 bits. A scope subtracts exactly what it added before.
static SUMS: LazyLock<Mutex<HashMap<u64, u128>>> = LazyLock::new(Mutex::default);

/// Replaces the reported demand of a cache, or of a front end, for a device.
#[cold]
pub(crate) fn tell(device: u64, before: u64, now: u64) {
    let mut sums = lock(&SUMS);
    let sum = sums.entry(device).or_insert(0);
    *sum = *sum - u128::from(before) + u128::from(now);
    if *sum == 0 {
        sums.remove(&device);
    }
}

impl Memory {
    /// Replaces the demand that a front end reported for memory of its own.
    #[doc(hidden)]
    pub fn tell_demand(&self, before: u64, now: u64) {
        tell(self.id(), before, now);
    }
}

/// How many bytes of a device's memory the scopes are likely to need again. A scope that serves several devices counts for each of
/// them.
pub(crate) fn of(device: u64) -> u64 {
    let sum = lock(&SUMS).get(&device).copied().unwrap_or(0);
    u64::try_from(sum).unwrap_or(u64::MAX)
}

/// Gives free pages of ranges back to their devices if `serves` holds for the device, except the memory that scopes are likely to
/// need again. If `waits`, waits a moment for the work that uses the pages. Returns devices without other handles, which the caller
/// must drop where no lock is held.
pub(crate) fn trim_to_demand(waits: bool, serves: impl Fn(u64) -> bool) -> Vec<Memory> {
    let wait_for = if waits { WaitFor::AnyWork } else { WaitFor::Nothing };
    let ended = range::trim_all(|device| serves(device).then(|| of(device)), wait_for);
    // Another thread may be short of the memory that was trimmed here.
    reclaim::count_release(1);
    ended
}
