//! Which pieces the device was asked for.
//!
//! A handle is a contiguous piece of whole granules that can only be unmapped as a whole. Large ones make mapping and
//! moving cheap, small ones can be given back sooner; how long they are is decided in `sizing`. Handles side by side are
//! mapped and unmapped together where the device can (see `mapping`).

use std::collections::BTreeMap;

/// The pieces that are mapped: offset to bytes.
#[derive(Debug, Default)]
pub(super) struct Handles(BTreeMap<u64, u64>);

impl Handles {
    /// Takes in pieces that lie one behind the other, and returns their bytes.
    pub(super) fn insert(&mut self, mut offset: u64, pieces: &[u64]) -> u64 {
        for &bytes in pieces {
            self.0.insert(offset, bytes);
            offset += bytes;
        }
        pieces.iter().sum()
    }

    /// Takes pieces out that lie one behind the other, and returns their bytes.
    pub(super) fn remove(&mut self, mut offset: u64, pieces: &[u64]) -> u64 {
        for &bytes in pieces {
            self.0.remove(&offset);
            offset += bytes;
        }
        pieces.iter().sum()
    }

    /// The piece that has the address `offset`.
    pub(super) fn around(&self, offset: u64) -> Option<(u64, u64)> {
        let (&start, &bytes) = self.0.range(..=offset).next_back()?;
        (offset < start + bytes).then_some((start, bytes))
    }

    /// The pieces that lie between `start` and `end` whole, in order of address.
    pub(super) fn within(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let starting = self.0.range(start..end).map(|(&offset, &bytes)| (offset, bytes));
        starting.filter(move |(offset, bytes)| offset + bytes <= end)
    }
}

/// A handle without a block in it, and the free span in which it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IdleHandle {
    pub(super) span: u32,
    pub(super) offset: u64,
    pub(super) bytes: u64,
}
