//! The devices that a cache has served. Most caches serve one.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::base::sync::{Mutex, lock};
use crate::pressure::demand;

/// The demand of a cache counts for so many of its devices, those that came to it last. A machine has fewer. A scope that serves ever new
/// virtual devices does not take longer with each of them.
const MOST_TOLD: usize = 16;

/// The devices that a cache has served, each with the demand that was reported for it. Only the thread that owns the cache changes them. A
/// trim after an invalidation leaves the devices of other scopes alone, and they keep nothing for this one.
#[derive(Default)]
pub(crate) struct Devices {
    /// The device that was noted last, 0 for none.
    last: AtomicU64,
    all: Mutex<Vec<(u64, u64)>>,
}

/// Reports another demand for a device.
fn replace((device, told): &mut (u64, u64), bytes: u64) {
    demand::tell(*device, std::mem::replace(told, bytes), bytes);
}

impl Devices {
    /// For the owner: adds a device. It counts with the demand that was reported for the others.
    pub(crate) fn note(&self, device: u64) {
        if self.last.load(Relaxed) == device {
            return;
        }
        let mut all = lock(&self.all);
        if !all.iter().any(|(known, _)| *known == device) {
            let told = all.last().map_or(0, |(_, told)| *told);
            all.push((device, 0));
            all.last_mut().into_iter().for_each(|new| replace(new, told));
            all.iter_mut().rev().nth(MOST_TOLD).into_iter().for_each(|old| replace(old, 0));
        }
        self.last.store(device, Relaxed);
    }

    /// Whether the cache has served no device but this one.
    pub(crate) fn are_only(&self, device: u64) -> bool {
        lock(&self.all).iter().all(|(known, _)| *known == device)
    }

    /// Whether the cache has served this device.
    pub(crate) fn contain(&self, device: u64) -> bool {
        self.last.load(Relaxed) == device || lock(&self.all).iter().any(|(known, _)| *known == device)
    }

    /// For the owner: replaces the reported demand. The demand of a cache with several devices counts for each of them.
    #[cold]
    pub(crate) fn tell(&self, bytes: u64) {
        lock(&self.all).iter_mut().rev().take(MOST_TOLD).for_each(|device| replace(device, bytes));
    }

    /// For the owner: forgets all of them.
    pub(crate) fn reset(&self) {
        lock(&self.all).drain(..).for_each(|mut device| replace(&mut device, 0));
        self.last.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_contains_what_was_noted_and_nothing_else() {
        let devices = Devices::default();
        assert!(!devices.contain(7));
        for (count, device) in [7, 7, 9, 7, 11, 9].into_iter().enumerate() {
            devices.note(device);
            assert!(devices.contain(device), "device {device} after {count} notes");
        }
        assert!([7, 9, 11].into_iter().all(|device| devices.contain(device)));
        assert!(![1, 8, 10, 12].into_iter().any(|device| devices.contain(device)));
        devices.reset();
        assert!(![7, 9, 11].into_iter().any(|device| devices.contain(device)));
    }

    /// Each device of a cache keeps what the cache needs, and other devices keep nothing for it.
    #[test]
    fn the_demand_counts_for_each_of_its_devices() {
        const NUMBERS: [u64; 4] = [1 << 50, (1 << 50) + 1, (1 << 50) + 2, (1 << 50) + 3];
        let devices = Devices::default();
        let tell = |bytes| {
            devices.tell(bytes);
            NUMBERS.map(demand::of)
        };
        devices.note(NUMBERS[0]);
        assert_eq!(tell(10), [10, 0, 0, 0]);
        devices.note(NUMBERS[1]);
        assert_eq!(NUMBERS.map(demand::of), [10, 10, 0, 0]);
        devices.note(NUMBERS[2]);
        assert_eq!(tell(30), [30, 30, 30, 0]);
        devices.reset();
        assert_eq!(tell(0), [0; 4]);
        devices.note(NUMBERS[3]);
        assert_eq!(tell(5), [0, 0, 0, 5]);
        (0..MOST_TOLD as u64).for_each(|number| devices.note((1 << 51) + number));
        assert_eq!(tell(7), [0; 4], "devices that were served long ago");
        assert_eq!(demand::of(1 << 51), 7);
    }
}
