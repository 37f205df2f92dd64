//! The part of a placed array's slot that every thread reads without a lock.

use std::sync::atomic::AtomicU64;

use super::placement::Chosen;

/// The number, the size, the placement and the last use of a slot.
#[derive(Debug)]
pub(super) struct Tag {
    /// Never used again for another slot.
    pub(super) id: u64,
    pub(super) bytes: u64,
    pub(super) placement: Chosen,
    /// The time of the last fetch, by the clock of the pool.
    pub(super) used: AtomicU64,
    /// The recorded entry that made it, and its place among those that this one made.
    pub(super) born_in: AtomicU64,
    pub(super) born_as: AtomicU64,
}
