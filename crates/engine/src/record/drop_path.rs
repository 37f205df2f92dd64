//! What a record's drop has to do, as one number that the fast path compares once.

use super::identity::ArenaId;

/// Which way a record goes when it is dropped: a live position of a plan is known by its arena's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DropPath(u64);

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

    pub(super) fn number(self) -> u64 {
        self.0
    }

    pub(super) fn numbered(number: u64) -> DropPath {
        DropPath(number)
    }
}
