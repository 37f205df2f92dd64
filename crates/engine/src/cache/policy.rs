//! Pure decisions about blocks that return to a scope.

use crate::base::limit::Limit;

/// How a scope reuses freed memory.
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
    /// Keeps every block for the next request of the same type, shape, device and stream.
    Keyed,
    /// Keeps few blocks by key, up to a small share of the scope's peak. The device's range takes all others back.
    Range,
    /// Learns the order of the scope's allocations and drops, and plans them in one block of memory. `Range` serves allocations
    /// that deviate from the plan.
    #[default]
    Auto,
    /// Keeps no blocks: each allocation asks the device.
    Off,
}

/// The settings of one entry of a scope: how the scope recycles its blocks, and how much it may reserve on the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    pub(super) recycle: Recycle,
    /// A packed [`Limit`]. Each entry of a scope copies the settings. A byte of its own for the kind of the limit, beside `recycle`, made
    /// an entry take 8 ns more: it was stored alone and loaded with `recycle`.
    pub(super) limit: u64,
}

impl Terms {
    /// The default settings: the scope learns and plans, and has no limit.
    pub const fn new() -> Terms {
        Terms { recycle: Recycle::Auto, limit: Limit::NONE.packed() }
    }

    /// The same settings with another way to recycle.
    pub const fn with_recycle(self, recycle: Recycle) -> Terms {
        Terms { recycle, ..self }
    }

    /// The same settings with another limit.
    pub const fn with_limit(self, limit: Limit) -> Terms {
        Terms { limit: limit.packed(), ..self }
    }
}

impl Default for Terms {
    fn default() -> Terms {
        Terms::new()
    }
}

/// The share of the peak that may be idle in keyed lists: 1/1024.
///
/// Idle memory in a list cannot merge with its neighbours. On traces of seven training runs, the range alone reserves 1.057 × the
/// live peak on average. Lists in front of the range add to that: lists of 1/1024 of the peak make it 1.059 ×, of 1/512 1.060 ×, and
/// of 1/128 1.064 ×. Lists of all free memory make it 1.26 ×.
const LIST_SHARE: u64 = 1024;
/// Always allowed to be idle. This is only a page or two, and all that a small scope needs.
const LIST_FLOOR: u64 = 64 << 10;
/// With at most this many keys, the pieces stay large whatever is idle, so a scope may keep all memory that it does not use.
const FEW_KEYS: usize = 8;
/// But at most this much. Another thread cannot get this memory while the owner is inside the scope. A list saves some 50 ns, which
/// is nothing beside work on arrays of such a size.
const FEW_KEYS_MOST: u64 = 32 << 20;

impl Recycle {
    /// The most bytes that may be idle in the keyed lists of `keys` keys. `busy` bytes are in use now, and `demand` was the peak.
    /// Neither counts memory that a plan serves.
    #[inline]
    pub(super) fn budget(self, demand: u64, busy: u64, keys: usize) -> u64 {
        let share = (demand / LIST_SHARE).max(LIST_FLOOR);
        match self {
            Recycle::Keyed => u64::MAX,
            Recycle::Range | Recycle::Auto if keys <= FEW_KEYS => {
                share.max(demand.saturating_sub(busy).min(FEW_KEYS_MOST))
            }
            Recycle::Range | Recycle::Auto => share,
            // A scope that keeps nothing puts no block into a list.
            Recycle::Off => 0,
        }
    }
}
