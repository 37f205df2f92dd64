//! What a scope does with blocks that come back: pure decisions.

/// How a scope recycles.
///
/// ```
/// use gpucache::{Recycle, Scope, prelude::*};
///
/// let keyed = Scope::new("keyed").recycle(Recycle::Keyed);
/// for _ in 0..3 {
///     keyed.run(|| Host::new().zeros::<u8>(4096))?;
/// }
/// assert_eq!(keyed.stats().unwrap().hits, 2);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recycle {
    /// Keeps every block for the next request of its key.
    Keyed,
    /// Keeps blocks by key up to a small share of the high-water mark; the device's range has the rest.
    Range,
    /// Learns the order of its allocations and drops, and lays them out in one block; what deviates is served as by `Range`.
    #[default]
    Auto,
    /// Keeps none: each allocation asks the device.
    Off,
}

/// What an entry says of its scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What serves its blocks.
    pub recycle: Recycle,
    /// The most bytes that it may hold on the thread; `u64::MAX` for any number.
    pub limit: u64,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms { recycle: Recycle::Auto, limit: u64::MAX }
    }
}

/// The share of the high-water mark that may be idle in keyed lists.
///
/// Idle memory in a list cannot merge with its neighbours. Measured on traces of seven training runs, the range alone
/// reserves 1.057 of the live peak on average; with lists of 1/1024 of the mark in front of it 1.059, of 1/512 1.060, of
/// 1/128 1.064, and of all that is not in use 1.26.
const LIST_SHARE: u64 = 1024;
/// What may be idle in any case: as little as a page or two, and all that a small scope needs.
const LIST_FLOOR: u64 = 64 << 10;
/// With so few keys the pieces stay large whatever is idle, and a scope may keep all that it does not use.
const FEW_KEYS: usize = 8;
/// But no more than this: another thread cannot have it while the owner is inside the scope, and what a list saves, some 50 ns,
/// is nothing beside work on such arrays.
const FEW_KEYS_MOST: u64 = 32 << 20;

impl Recycle {
    /// The most bytes that may be idle in keyed lists of so many `keys`, where `busy` bytes are in use, and `demand` were at most since
    /// the last invalidation, but for what a plan serves.
    #[inline]
    pub(super) fn budget(self, demand: u64, busy: u64, keys: usize) -> u64 {
        let share = (demand / LIST_SHARE).max(LIST_FLOOR);
        match self {
            Recycle::Keyed => u64::MAX,
            Recycle::Range | Recycle::Auto if keys <= FEW_KEYS => {
                share.max(demand.saturating_sub(busy).min(FEW_KEYS_MOST))
            }
            Recycle::Range | Recycle::Auto => share,
            // Its own blocks never reach a list.
            Recycle::Off => 0,
        }
    }
}
