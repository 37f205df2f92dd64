//! Which pieces the device was asked for.
//!
//! One call maps one handle: a contiguous piece of whole granules that can only be unmapped as a whole. Large handles
//! make mapping and moving cheap, small ones can be given back sooner; how long they are is decided in `growth`.

use std::collections::BTreeMap;

/// The pieces that are mapped: offset to bytes.
#[derive(Debug, Default)]
pub(super) struct Handles(BTreeMap<u64, u64>);

impl Handles {
    pub(super) fn insert(&mut self, offset: u64, bytes: u64) {
        self.0.insert(offset, bytes);
    }

    pub(super) fn remove(&mut self, offset: u64) {
        self.0.remove(&offset);
    }

    /// The first piece that lies between `start` and `end` whole.
    pub(super) fn first_within(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let (&offset, &bytes) = self.0.range(start..end).next()?;
        (offset + bytes <= end).then_some((offset, bytes))
    }

    /// The pieces that lie between `start` and `end` whole, in order of address.
    pub(super) fn within(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let starting = self.0.range(start..end).map(|(&offset, &bytes)| (offset, bytes));
        starting.filter(|(offset, bytes)| offset + bytes <= end).collect()
    }
}
