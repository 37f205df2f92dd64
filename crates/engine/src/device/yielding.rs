//! Memory beside the range whose owners can do without it: the executables of graphs. In a shortage they give way.

use std::sync::{Arc, Weak};

use crate::base::amounts::total;
use crate::base::sync::{Mutex, lock};

/// An owner of memory that can do without it.
pub(crate) trait Yields: Send + Sync {
    /// The bytes that it would give back now. 0 if it has none, or uses them at this moment.
    fn bytes(&self) -> u64;

    /// How often it used its memory. Uses before earlier calls of this function count less: half for each call.
    fn recent_uses(&self) -> u64;

    /// Gives its memory back. Returns the bytes.
    fn give_way(&self) -> u64;
}

/// The owners of a device, in the order in which they came.
#[derive(Default)]
pub(crate) struct Yielding(Mutex<Vec<Weak<dyn Yields>>>);

impl Yielding {
    #[cfg(feature = "cuda")]
    pub(super) fn add(&self, owner: &Arc<impl Yields + 'static>) {
        let owner: Weak<dyn Yields> = Arc::downgrade(owner) as Weak<dyn Yields>;
        let mut owners = lock(&self.0);
        owners.retain(|owner| owner.strong_count() > 0);
        owners.push(owner);
    }

    /// Owners that have memory.
    fn with_memory(&self) -> Vec<Arc<dyn Yields>> {
        let owners: Vec<_> = lock(&self.0).iter().filter_map(Weak::upgrade).collect();
        owners.into_iter().filter(|owner| owner.bytes() > 0).collect()
    }

    /// The bytes that all owners together would give back now.
    pub(crate) fn bytes(&self) -> u64 {
        total(self.with_memory().iter().map(|owner| owner.bytes()))
    }

    /// Owners give way until they had `bytes` bytes. First come those with the fewest uses lately. Returns the bytes that they had.
    pub(crate) fn give_way(&self, bytes: u64) -> u64 {
        let mut owners = self.with_memory();
        owners.sort_by_cached_key(|owner| owner.recent_uses());
        let mut freed = 0u64;
        for owner in owners {
            if freed >= bytes {
                break;
            }
            freed = freed.saturating_add(owner.give_way());
        }
        freed
    }
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    /// Its bytes, and its uses.
    struct Owner(AtomicU64, AtomicU64);

    impl Yields for Owner {
        fn bytes(&self) -> u64 {
            self.0.load(Relaxed)
        }

        fn recent_uses(&self) -> u64 {
            let uses = self.1.load(Relaxed);
            self.1.store(uses / 2, Relaxed);
            uses
        }

        fn give_way(&self) -> u64 {
            assert!(self.bytes() > 0, "it has nothing");
            self.0.swap(0, Relaxed)
        }
    }

    #[test]
    fn owners_that_were_hardly_used_give_way_first_and_no_more_than_necessary() {
        let yielding = Yielding::default();
        let owners = [(5, 100), (0, 0), (7, 1), (9, 0)].map(|(bytes, uses)| Arc::new(Owner(bytes.into(), uses.into())));
        owners.iter().for_each(|owner| yielding.add(owner));
        let left = || owners.each_ref().map(|owner| owner.bytes());
        assert_eq!((yielding.bytes(), yielding.give_way(0), left()), (21, 0, [5, 0, 7, 9]));
        assert_eq!((yielding.give_way(10), left()), (16, [5, 0, 0, 0]));
        assert_eq!((yielding.give_way(6), yielding.bytes()), (5, 0));
        assert_eq!(yielding.give_way(1), 0);
    }
}
