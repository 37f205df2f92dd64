//! A device of plain numbers that refuses the same calls as a real one: mapping twice, unmapping half a handle, and more memory than it
//! has.

use std::collections::BTreeMap;

use super::super::{Pages, Unfinished};

/// The granule of most tests. It is small, so a test can examine every granule.
pub(super) const GRANULE: u64 = 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// More memory than the device has.
    Full,
    /// The call that a test chose to fail.
    Injected,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Device {
    pub(super) granule: u64,
    /// The mapped pieces: offset to bytes.
    pub(super) mapped: BTreeMap<u64, u64>,
    /// The bytes of its memory.
    pub(super) memory: u64,
    /// Calls so far, one for each piece.
    pub(super) calls: u64,
    /// Stretches mapped or unmapped so far, however many pieces each had.
    pub(super) stretches: u64,
    /// The numbers of the calls that fail. `0..u64::MAX` would make all fail.
    pub(super) fails: std::ops::Range<u64>,
    /// The lowest address for the next chunk.
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

    /// Maps one piece, with a call of its own.
    fn map_piece(&mut self, offset: u64, bytes: u64) -> Result<(), Refusal> {
        self.call()?;
        if bytes > self.memory - self.used() {
            return Err(Refusal::Full);
        }
        let is_whole = |bytes: u64| bytes.is_multiple_of(self.granule);
        assert!(bytes > 0 && is_whole(bytes) && is_whole(offset), "{offset}, {bytes}");
        let before = self.mapped.range(..offset + bytes).next_back();
        assert!(before.is_none_or(|(start, bytes)| start + bytes <= offset), "mapped twice: {offset}, {bytes}");
        self.next_chunk = self.next_chunk.max(offset + bytes);
        self.mapped.insert(offset, bytes);
        Ok(())
    }

    fn unmap_pieces(&mut self, offset: u64, pieces: &[u64]) -> Result<(), Unfinished<Refusal>> {
        let mut at = offset + pieces.iter().sum::<u64>();
        for (before, bytes) in pieces.iter().enumerate().rev() {
            at -= bytes;
            self.call().map_err(|error| Unfinished { mapped: before + 1, error })?;
            assert_eq!(self.mapped.remove(&at), Some(*bytes), "no handle of {bytes} bytes at {at}");
        }
        Ok(())
    }
}

/// Each piece of a stretch is a call that may fail.
impl Pages for Device {
    type Error = Refusal;

    fn granularity(&self) -> u64 {
        self.granule
    }

    fn capacity(&self) -> u64 {
        self.memory
    }

    fn chunk(&mut self, bytes: u64) -> Result<u64, Refusal> {
        // Every other chunk touches the previous one: they lie side by side, but are not one chunk.
        let offset = self.next_chunk + self.next_chunk / self.granule % 2 * self.granule;
        self.map_piece(offset, bytes).map(|()| offset)
    }

    fn map(&mut self, offset: u64, pieces: &[u64]) -> Result<(), Unfinished<Refusal>> {
        self.stretches += 1;
        let mut end = offset;
        for (done, &bytes) in pieces.iter().enumerate() {
            if let Err(error) = self.map_piece(end, bytes) {
                let undone = self.unmap_pieces(offset, &pieces[..done]);
                return Err(Unfinished { mapped: undone.err().map_or(0, |left| left.mapped), error });
            }
            end += bytes;
        }
        Ok(())
    }

    fn unmap(&mut self, offset: u64, pieces: &[u64]) -> Result<(), Unfinished<Refusal>> {
        self.stretches += 1;
        self.unmap_pieces(offset, pieces)
    }
}
