//! What a yard knows of a slot, and asks of it.

use std::sync::atomic::AtomicU64;

use super::placement::Chosen;
use crate::base::error::{Error, Result};

/// What a yard knows of a slot, whatever its elements and device.
pub(super) trait Rests: Send + Sync {
    fn tag(&self) -> &Tag;

    /// Copies the array to the host if it was written since it was there, and keeps it on the device. Nothing where somebody has it
    /// locked.
    fn write_back(&self) -> Result<()>;

    /// Has the array leave the device, once it is copied if need be. Returns the bytes that are free then: none where somebody has
    /// it locked, or where it is away.
    fn evict(&self) -> Result<u64>;

    /// Has the array come, if it is away and nobody has it locked. Returns whether it came.
    fn bring(&self) -> Result<bool>;

    /// Keeps what a move met that nobody asked for, for the next fallible call on the array's stream; a host without room is
    /// no failure.
    fn keep(&self, error: Error);
}

/// What is known of a slot without its lock.
#[derive(Debug)]
pub(super) struct Tag {
    /// Never given again.
    pub(super) id: u64,
    pub(super) bytes: u64,
    pub(super) placement: Chosen,
    /// When it was fetched last, by the yard's clock.
    pub(super) used: AtomicU64,
}
