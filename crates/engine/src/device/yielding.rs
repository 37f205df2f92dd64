//! Memory beside the range whose owners can do without it: the executables of graphs. In a shortage they give way.

#[cfg(feature = "cuda")]
use std::sync::Arc;
use std::sync::Weak;

use crate::base::amounts::total;
use crate::base::sync::{Mutex, lock};

/// An owner of memory that can do without it.
pub(super) trait Yields: Send + Sync {
    /// The bytes that it would give back now. 0 if it has none, or uses them at this moment.
    fn bytes(&self) -> u64;

    /// Whether it used its memory since the last call of this function.
    fn was_used(&self) -> bool;

    /// Gives its memory back. Returns the bytes.
    fn give_way(&self) -> u64;
}

/// The owners of a device, in the order in which they came.
#[derive(Default)]
pub(super) struct Yielding(Mutex<Vec<Weak<dyn Yields>>>);

impl Yielding {
    #[cfg(feature = "cuda")]
    pub(super) fn add(&self, owner: &Arc<impl Yields + 'static>) {
        let owner: Weak<dyn Yields> = Arc::downgrade(owner) as Weak<dyn Yields>;
        let mut owners = lock(&self.0);
        owners.retain(|owner| owner.strong_count() > 0);
        owners.push(owner);
    }

    /// Owners give way until they had `bytes` bytes. First come those that did not use their memory since the last call. None gives way if all
    /// of them together have less. Returns the bytes that they had.
    pub(super) fn give_way(&self, bytes: u64) -> u64 {
        let mut owners: Vec<_> = lock(&self.0).iter().filter_map(Weak::upgrade).collect();
        if bytes == 0 || total(owners.iter().map(|owner| owner.bytes())) < bytes {
            return 0;
        }
        owners.sort_by_cached_key(|owner| owner.was_used());
        let mut freed = 0u64;
        for owner in owners {
            freed = freed.saturating_add(owner.give_way());
            if freed >= bytes {
                break;
            }
        }
        freed
    }
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

    use super::*;

    struct Owner(AtomicU64, AtomicBool);

    impl Yields for Owner {
        fn bytes(&self) -> u64 {
            self.0.load(Relaxed)
        }

        fn was_used(&self) -> bool {
            self.1.swap(false, Relaxed)
        }

        fn give_way(&self) -> u64 {
            self.0.swap(0, Relaxed)
        }
    }

    #[test]
    fn owners_that_were_not_used_give_way_first_and_no_more_than_necessary() {
        let yielding = Yielding::default();
        let owners = [5, 7, 9].map(|bytes| Arc::new(Owner(bytes.into(), AtomicBool::new(bytes == 5))));
        owners.iter().for_each(|owner| yielding.add(owner));
        let left = || owners.each_ref().map(|owner| owner.bytes());
        assert_eq!((yielding.give_way(0), yielding.give_way(22), left()), (0, 0, [5, 7, 9]));
        assert_eq!((yielding.give_way(8), left()), (16, [5, 0, 0]));
        assert_eq!((yielding.give_way(1), left()), (5, [0, 0, 0]));
        assert_eq!(yielding.give_way(1), 0);
    }
}
