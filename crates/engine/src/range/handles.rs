//! The pieces that the device has mapped.
//!
//! A handle is a contiguous piece of whole granules that can only be unmapped as a whole. Large handles make mapping and moving cheap, and
//! small ones can be returned sooner; `sizing` decides their length. Neighbouring handles are mapped and unmapped together if the device
//! can do so (see `mapping`).

use std::collections::BTreeMap;

/// The mapped pieces: offset to bytes.
#[derive(Debug, Default)]
pub(super) struct Handles(BTreeMap<u64, u64>);

impl Handles {
    /// Adds pieces that lie one behind the other, and returns their bytes.
    pub(super) fn insert(&mut self, mut offset: u64, pieces: &[u64]) -> u64 {
        for &bytes in pieces {
            self.0.insert(offset, bytes);
            offset += bytes;
        }
        pieces.iter().sum()
    }

    /// Removes pieces that lie one behind the other, and returns their bytes.
    pub(super) fn remove(&mut self, mut offset: u64, pieces: &[u64]) -> u64 {
        for &bytes in pieces {
            self.0.remove(&offset);
            offset += bytes;
        }
        pieces.iter().sum()
    }

    /// The piece that contains the address `offset`.
    pub(super) fn around(&self, offset: u64) -> Option<(u64, u64)> {
        let (&start, &bytes) = self.0.range(..=offset).next_back()?;
        (offset < start + bytes).then_some((start, bytes))
    }

    /// The pieces that lie completely between `start` and `end`, in order of address.
    pub(super) fn within(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let starting = self.0.range(start..end).map(|(&offset, &bytes)| (offset, bytes));
        starting.filter(move |(offset, bytes)| offset + bytes <= end)
    }
}

/// A handle that contains no block, and the free span that contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IdleHandle {
    pub(super) span: u32,
    pub(super) offset: u64,
    pub(super) bytes: u64,
}
