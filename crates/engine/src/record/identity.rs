//! The numbers of an arena, of a cache's generation, and of a key's list. Also the kind of a record's drop, as one number that the fast
//! path compares once.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number of the arena in which a cache's plans lie. An arena is one block of the device's range. No two arenas of the process have the
/// same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ArenaId(NonZeroU64);

/// The time between two invalidations of a cache. When a block of an older generation returns, it is released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Generation(pub(crate) u64);

/// The list of a key, to which the key's blocks return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListPlace {
    pub(crate) list: u32,
    /// The key's number; 0 for a block that returns to no list.
    pub(crate) key: u64,
}

impl ArenaId {
    /// The lowest number of an arena. It is far above the numbers for the other kinds of drops.
    pub(super) const FIRST_ARENA: u64 = 1 << 63;

    /// A number that no arena had before.
    pub(crate) fn next() -> ArenaId {
        static NEXT: AtomicU64 = AtomicU64::new(ArenaId::FIRST_ARENA);
        ArenaId(NonZeroU64::MIN.saturating_add(NEXT.fetch_add(1, Relaxed)))
    }

    pub(super) fn number(self) -> u64 {
        self.0.get()
    }
}

impl Generation {
    /// The generation of blocks that no list keeps, whatever is invalidated.
    pub(crate) const NEVER_KEPT: Generation = Generation(u64::MAX);
}

/// The way of a record when it is dropped. For a live position of a plan, this is its arena's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DropPath(pub(super) u64);

const _: () = assert!(DropPath::UNPLANNED.0 < ArenaId::FIRST_ARENA);

impl DropPath {
    /// The default, which no record has. A planner that compares with it takes no record back on the fast path.
    pub(crate) const NOBODYS: DropPath = DropPath(0);
    /// The drop has more to do than to return the memory: there is a view, other streams use the memory, or a device watches.
    pub(super) const CARE: DropPath = DropPath(1);
    /// The memory goes back to a list, to the range or to the device.
    pub(super) const UNPLANNED: DropPath = DropPath(2);

    /// The way of a live position in this arena.
    pub(crate) fn of_arena(arena: ArenaId) -> DropPath {
        DropPath(arena.number())
    }
}
