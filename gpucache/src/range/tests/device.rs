//! A device of plain numbers that refuses whatever a real one would: mapping twice, unmapping half a handle, more than
//! it has.

use std::collections::BTreeMap;

use super::super::{Pages, Place};

/// The granule of most tests: small, so that a test can look at every one.
pub(super) const GRANULE: u64 = 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// More than the device has.
    Full,
    /// The call that a test chose to fail.
    Injected,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Device {
    pub(super) granule: u64,
    /// What is mapped, offset to bytes.
    pub(super) mapped: BTreeMap<u64, u64>,
    /// Bytes that it has.
    pub(super) memory: u64,
    /// Calls so far.
    pub(super) calls: u64,
    /// Which calls fail, by number; `Some(0..)` would fail all.
    pub(super) fails: std::ops::Range<u64>,
    /// Where the next chunk may begin.
    pub(super) next_chunk: u64,
}

impl Device {
    pub(super) fn new(memory: u64) -> Self {
        Self { memory, granule: GRANULE, ..Self::default() }
    }

    pub(super) fn used(&self) -> u64 {
        self.mapped.values().sum()
    }

    /// Whether all of `bytes` at `offset` has memory behind it.
    pub(super) fn backs(&self, offset: u64, bytes: u64) -> bool {
        let mut at = offset;
        while at < offset + bytes {
            match self.mapped.range(..=at).next_back().map(|(start, bytes)| start + bytes) {
                Some(end) if end > at => at = end,
                _ => return false,
            }
        }
        true
    }

    fn call(&mut self) -> Result<(), Refusal> {
        self.calls += 1;
        if self.fails.contains(&(self.calls - 1)) { Err(Refusal::Injected) } else { Ok(()) }
    }
}

impl Pages for Device {
    type Error = Refusal;

    fn granularity(&self) -> u64 {
        self.granule
    }

    fn map(&mut self, place: Place, bytes: u64) -> Result<u64, Refusal> {
        self.call()?;
        if bytes > self.memory - self.used() {
            return Err(Refusal::Full);
        }
        let offset = match place {
            Place::At(offset) => offset,
            // Every other chunk touches the one before it: side by side, yet not one.
            Place::Anywhere => self.next_chunk + self.next_chunk / self.granule % 2 * self.granule,
        };
        assert!(
            bytes > 0 && bytes.is_multiple_of(self.granule) && offset.is_multiple_of(self.granule),
            "{place:?}, {bytes}"
        );
        let before = self.mapped.range(..offset + bytes).next_back();
        assert!(before.is_none_or(|(start, bytes)| start + bytes <= offset), "mapped twice: {place:?}, {bytes}");
        self.next_chunk = self.next_chunk.max(offset + bytes);
        self.mapped.insert(offset, bytes);
        Ok(offset)
    }

    fn unmap(&mut self, offset: u64, bytes: u64) -> Result<(), Refusal> {
        self.call()?;
        assert_eq!(self.mapped.get(&offset), Some(&bytes), "no handle of {bytes} bytes at {offset}");
        self.mapped.remove(&offset);
        Ok(())
    }
}
