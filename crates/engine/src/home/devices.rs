//! The devices that a cache has served. Most caches serve one.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::base::sync::{Mutex, lock};
use crate::pressure::demand::{self, Told};

/// The demand of a cache counts for so many of its devices, those that came to it last. A machine has fewer. A scope that serves ever new
/// virtual devices does not take longer with each of them.
const MOST_TOLD: usize = 16;

/// The devices that a cache has served. Only the thread that owns the cache adds one.
#[derive(Default)]
pub(crate) struct Devices {
    /// The only device, 0 for none, or [`Told::SEVERAL`] and their number.
    only: AtomicU64,
    /// All devices, if there are several, each with the demand that was reported for it. So a trim after an invalidation leaves the devices of
    /// other scopes alone, and they keep nothing for this one.
    several: Mutex<Vec<Told>>,
}

impl Devices {
    /// For the owner: adds a device.
    pub(crate) fn note(&self, device: u64) {
        let only = self.only.load(Relaxed);
        if only == device {
            return;
        }
        if only == 0 {
            self.only.store(device, Relaxed);
            return;
        }
        let mut several = lock(&self.several);
        if !Told::are_several(only) {
            several.push(Told { device: only, bytes: 0 });
        }
        if !several.iter().any(|told| told.device == device) {
            several.push(Told { device, bytes: 0 });
            several.iter_mut().rev().nth(MOST_TOLD).into_iter().for_each(|told| told.replace(0));
        }
        self.only.store(Told::SEVERAL + several.len() as u64, Relaxed);
    }

    /// Whether the cache has served this device.
    pub(crate) fn contain(&self, device: u64) -> bool {
        match self.only.load(Relaxed) {
            several if Told::are_several(several) => lock(&self.several).iter().any(|told| told.device == device),
            only => only == device,
        }
    }

    /// The only device, 0 for none, or [`Told::SEVERAL`] and their number.
    pub(crate) fn told(&self) -> u64 {
        self.only.load(Relaxed)
    }

    /// For the owner: replaces the reported demand. The demand of a cache with several devices counts for each of them.
    pub(crate) fn tell(&self, before: Told, now: Told) {
        let of_one = |told: Told| if Told::are_several(told.device) { Told::default() } else { told };
        demand::tell(of_one(before), of_one(now));
        if Told::are_several(now.device) {
            lock(&self.several).iter_mut().rev().take(MOST_TOLD).for_each(|told| told.replace(now.bytes));
        }
    }

    /// For the owner: forgets all of them.
    pub(crate) fn reset(&self) {
        lock(&self.several).drain(..).for_each(|mut told| told.replace(0));
        self.only.store(0, Relaxed);
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
        assert_eq!(devices.told(), Told::SEVERAL + 3);
        devices.reset();
        assert!(![7, 9, 11].into_iter().any(|device| devices.contain(device)));
    }

    /// Each device of a cache keeps what the cache needs, and other devices keep nothing for it.
    #[test]
    fn the_demand_counts_for_each_of_its_devices() {
        const NUMBERS: [u64; 4] = [1 << 50, (1 << 50) + 1, (1 << 50) + 2, (1 << 50) + 3];
        let (devices, mut told) = (Devices::default(), Told::default());
        let mut tell = |bytes| {
            let now = Told { device: devices.told(), bytes };
            devices.tell(std::mem::replace(&mut told, now), now);
            NUMBERS.map(demand::of)
        };
        devices.note(NUMBERS[0]);
        assert_eq!(tell(10), [10, 0, 0, 0]);
        devices.note(NUMBERS[1]);
        assert_eq!(tell(10), [10, 10, 0, 0]);
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
