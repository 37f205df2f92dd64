//! What happened in one entry of a scope: which bytes were allocated, in order, and how long each lived.
//!
//! Time counts allocations: one that is dropped before allocation `n` of its entry lives until `n`. The order of drops
//! between two allocations changes no load, and so no layout.

/// The longest entry that is logged, in allocations: a log takes 2 MiB at most, and longer entries go without a plan.
const LONGEST_ENTRY: usize = 1 << 17;

/// One entry, bounded whatever its length.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    stream: u64,
    allocations: Vec<Logged>,
    is_cut: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Logged {
    pub(super) bytes: u64,
    /// The number of allocations before its drop.
    pub(super) upper: u32,
}

/// The end of what outlived its entry: later than any, as an entry is no longer than [`LONGEST_ENTRY`].
pub(super) const OUTLIVES: u32 = u32::MAX;

impl Log {
    /// Begins anew, with the memory of before.
    pub(crate) fn clear(&mut self) {
        self.stream = 0;
        self.allocations.clear();
        self.is_cut = false;
    }

    /// Logs what is allocated on this stream, and nothing else.
    pub(crate) fn begin(&mut self, stream: u64) {
        self.stream = stream;
    }

    /// An allocation, and its number in the log if it has a place there.
    #[inline]
    pub(crate) fn allocated(&mut self, stream: u64, bytes: u64) -> Option<u32> {
        if stream != self.stream || bytes == 0 {
            return None;
        }
        let number = self.allocations.len();
        self.is_cut |= number == LONGEST_ENTRY;
        if self.is_cut {
            return None;
        }
        self.allocations.push(Logged { bytes, upper: OUTLIVES });
        Some(number as u32)
    }

    /// The drop of an allocation of this entry.
    #[inline]
    pub(crate) fn dropped(&mut self, number: u32) {
        let now = self.allocations.len() as u32;
        if let Some(logged) = self.allocations.get_mut(number as usize) {
            logged.upper = now;
        }
    }

    /// Whether it tells of a whole entry, and of one that allocated.
    pub(crate) fn is_whole(&self) -> bool {
        !self.is_cut && !self.allocations.is_empty()
    }

    /// Whether any allocation ended within the entry.
    pub(crate) fn has_lives(&self) -> bool {
        self.allocations.iter().any(|logged| logged.upper != OUTLIVES)
    }

    pub(crate) fn stream(&self) -> u64 {
        self.stream
    }

    pub(super) fn allocations(&self) -> &[Logged] {
        &self.allocations
    }
}
