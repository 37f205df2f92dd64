//! A block of the cache of an outer scope, in which the arena of a scope inside it lies.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Door, Record};
use crate::range::RangeBlock;

/// The blocks of a cache that hold arenas of scopes inside: their number and bytes. They are no arrays of the program.
#[derive(Default)]
pub(crate) struct LentBlocks {
    blocks: AtomicU64,
    bytes: AtomicU64,
}

impl LentBlocks {
    pub(crate) fn add(&self, bytes: u64) {
        self.blocks.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn remove(&self, bytes: u64) {
        self.blocks.fetch_sub(1, Relaxed);
        self.bytes.fetch_sub(bytes, Relaxed);
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.blocks.load(Relaxed)
    }

    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
}

/// Goes home when it is dropped, on any thread.
pub(crate) struct OuterBlock {
    record: Option<Box<Record>>,
    lent: &'static LentBlocks,
}

impl OuterBlock {
    /// Of a record whose bytes were [added](LentBlocks::add) to these.
    pub(crate) fn of(record: Box<Record>, lent: &'static LentBlocks) -> OuterBlock {
        OuterBlock { record: Some(record), lent }
    }

    pub(crate) fn address(&self) -> u64 {
        self.record.as_ref().map_or(0, |record| record.address)
    }

    /// Whether [`detach`](OuterBlock::detach) may take the memory out now: no other thread is inside the scope around.
    pub(crate) fn is_reachable(&self) -> bool {
        self.record.as_ref().and_then(|record| record.door?.keeper()).is_some_and(|keeper| keeper.is_reachable())
    }

    /// Takes the memory out of the block, if it can be a block of the range. The arena in which it lies goes.
    pub(crate) fn detach(&mut self) -> Option<RangeBlock> {
        let record = self.record.as_deref_mut()?;
        record.door?.keeper()?.detach(record);
        record.take_from_range()
    }
}

impl Drop for OuterBlock {
    fn drop(&mut self) {
        let Some(record) = self.record.take() else { return };
        self.lent.remove(record.bytes as u64);
        if let Some(keeper) = record.door.and_then(Door::keeper) {
            keeper.take_back(record);
        }
    }
}
