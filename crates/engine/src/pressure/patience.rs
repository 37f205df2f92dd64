//! How long an allocation waits for other threads to drop something, as the program says of a device.

use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::base::sync::{Mutex, MutexGuard};
use crate::device::{Device, Memory};

type Known = Vec<(Weak<Memory>, Duration)>;

fn known() -> MutexGuard<'static, Known> {
    static KNOWN: Mutex<Known> = Mutex::new(Vec::new());
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets an allocation that finds no memory on the device wait for other threads to drop arrays or to leave scopes, for so long at
/// most; [`Duration::ZERO`], the default, for not at all.
///
/// It waits once nothing that is idle serves it, and before any handler of [`on_pressure`](crate::on_pressure) is called, and looks
/// again every two milliseconds at the latest. Nobody can tell whether those whom it waits for wait, in turn, for this
/// thread: then the time passes in vain, and the allocation is an error as without. A request of more than there is in all
/// does not wait, nor does one that the limit of its scope refuses.
///
/// ```
/// use std::time::Duration;
/// use gpucache::{Rung, climbs, device::Virtual, prelude::*};
///
/// let device = Virtual::new(8 << 20);
/// gpucache::patience(&device, Duration::from_secs(10));
/// let held = device.zeros::<u8>(6 << 20)?;
/// let other = std::thread::spawn(move || {
///     std::thread::sleep(Duration::from_millis(10)); // works on it
///     drop(held);
/// });
/// let array = device.zeros::<u8>(4 << 20)?;
/// assert_eq!(climbs(&device).failed, 0);
/// # drop(array);
/// # other.join().unwrap();
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn patience(device: &impl Device, most: Duration) {
    let memory = device.stream_handle().memory();
    let mut known = known();
    // Not by an upgrade, which might drop the memory here, under the lock.
    known.retain(|(other, _)| other.strong_count() > 0 && !std::ptr::eq(other.as_ptr(), Arc::as_ptr(memory)));
    if most > Duration::ZERO {
        known.push((Arc::downgrade(memory), most));
    }
}

/// The first pause, and the longest: each is twice as long as the one before. What is dropped is found 2 ms late at most, by 500
/// looks in a second.
const PAUSES: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(2));

/// The pauses of one allocation.
pub(super) struct Pauses {
    most: Duration,
    /// Since the first one began.
    start: Option<Instant>,
    next: Duration,
}

impl Pauses {
    /// As long in all as the device's patience is now.
    pub(super) fn of(memory: &Arc<Memory>) -> Pauses {
        let most =
            known().iter().find(|(other, _)| std::ptr::eq(other.as_ptr(), Arc::as_ptr(memory))).map(|(_, most)| *most);
        Pauses { most: most.unwrap_or_default(), start: None, next: PAUSES.0 }
    }

    /// Sleeps a while. False, and at once, if the time is over.
    pub(super) fn pause(&mut self) -> bool {
        if self.most.is_zero() {
            return false;
        }
        let left = self.most.saturating_sub(self.start.get_or_insert_with(Instant::now).elapsed());
        std::thread::sleep(self.next.min(left));
        self.next = PAUSES.1.min(2 * self.next);
        !left.is_zero()
    }
}
