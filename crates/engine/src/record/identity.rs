//! What a record belongs to, by number: an arena, a generation of its cache, the list of a key; and what its drop has to do, as one
//! number that the fast path compares once.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Names the arena that a cache's plans lie in: one block of the device's range, among all that the process ever had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ArenaId(NonZeroU64);

/// One of the times between two invalidations of a cache. Blocks of an older one are released when they return.
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
    /// The least number of an arena, far above those that stand for something else where arenas are named.
    pub(super) const FIRST_ARENA: u64 = 1 << 63;

    /// Another one than all before.
    pub(crate) fn next() -> ArenaId {
        static NEXT: AtomicU64 = AtomicU64::new(ArenaId::FIRST_ARENA);
        ArenaId(NonZeroU64::MIN.saturating_add(NEXT.fetch_add(1, Relaxed)))
    }

    pub(super) fn number(self) -> u64 {
        self.0.get()
    }
}

impl Generation {
    /// Of blocks that no list keeps, whatever is invalidated.
    pub(crate) const NEVER_KEPT: Generation = Generation(u64::MAX);
}

/// Which way a record goes when it is dropped: a live position of a plan is known by its arena's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DropPath(pub(super) u64);

const _: () = assert!(DropPath::UNPLANNED.0 < ArenaId::FIRST_ARENA);

impl DropPath {
    /// No record's, and the default: what a planner compares with that takes none back the fast way.
    pub(crate) const NOBODYS: DropPath = DropPath(0);
    /// The drop has more to do than to give the memory back: there is a view, other streams use it, or a device watches.
    pub(super) const CARE: DropPath = DropPath(1);
    /// The memory goes back to a list, to the range or to the device.
    pub(super) const UNPLANNED: DropPath = DropPath(2);

    /// Of a live position in this arena.
    pub(crate) fn of_arena(arena: ArenaId) -> DropPath {
        DropPath(arena.number())
    }
}
