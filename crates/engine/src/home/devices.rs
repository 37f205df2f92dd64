//! The devices that a cache has served. Most caches serve one.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::base::sync::{Mutex, lock};
use crate::pressure::demand::Told;

/// The devices that a cache has served. Only the thread that owns the cache adds one.
#[derive(Default)]
pub(crate) struct Devices {
    /// The only device, 0 for none, or [`Told::SEVERAL`].
    only: AtomicU64,
    /// All devices, if there are several. So a trim after an invalidation leaves the devices of other scopes alone.
    several: Mutex<Vec<u64>>,
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
        if only != Told::SEVERAL {
            several.push(only);
        }
        if !several.contains(&device) {
            several.push(device);
        }
        self.only.store(Told::SEVERAL, Relaxed);
    }

    /// Whether the cache has served this device.
    pub(crate) fn contain(&self, device: u64) -> bool {
        match self.only.load(Relaxed) {
            Told::SEVERAL => lock(&self.several).contains(&device),
            only => only == device,
        }
    }

    /// The only device, 0 for none, or [`Told::SEVERAL`].
    pub(crate) fn told(&self) -> u64 {
        self.only.load(Relaxed)
    }

    /// For the owner: forgets all of them.
    pub(crate) fn reset(&self) {
        lock(&self.several).clear();
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
        assert_eq!(devices.told(), Told::SEVERAL);
        devices.reset();
        assert!(![7, 9, 11].into_iter().any(|device| devices.contain(device)));
    }
}
