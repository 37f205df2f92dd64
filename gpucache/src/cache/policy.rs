//! What a scope does with blocks that come back: pure decisions.

/// How a scope recycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recycle {
    /// Keeps every block for the next request of its key.
    Keyed,
    /// Keeps blocks by key up to a small share of the high-water mark; the device's range has the rest.
    #[default]
    Range,
    /// Keeps none: each allocation asks the device.
    Off,
}

/// The share of the high-water mark that may be idle in keyed lists.
///
/// Idle memory in a list cannot merge with its neighbours. Measured on traces of seven training runs, 1/128 costs no more
/// than 0.01 of the live peak on any of them and serves most small blocks; see `DESIGN.md`.
const SHARE: u64 = 1024;
/// What may be idle in any case: as little as a page or two, and all that a small scope needs.
const FLOOR: u64 = 64 << 10;

impl Recycle {
    /// The most bytes that may be idle in keyed lists, when `high_water` bytes were in use at most.
    #[inline]
    pub(super) fn budget(self, high_water: u64) -> u64 {
        match self {
            Recycle::Keyed => u64::MAX,
            Recycle::Range => (high_water / SHARE).max(FLOOR),
            // Its own blocks never reach a list.
            Recycle::Off => 0,
        }
    }
}
