//! Low water: the lowest level of the live bytes. Most iterations begin and end there, whatever their order and their length.

use crate::entries::Log;

/// A cycle has begun once the live bytes rose by this share, 1/16, of their range. With 1/4, two steps of a recorded diffusion model counted as
/// one if the first had a small batch, and it was planned for 0.14 instead of 0.79.
const RISE: u64 = 16;
/// A cycle has ended once the live bytes are as low as ever, but for this share, 1/4096, of their range. With 1/1024, the cycles of a language
/// model with adapters ended up to three allocations too early. With 1/8192, those of a beam search were not found.
const BACK: u64 = 1 << 12;

/// A level of the live bytes, and whether they rose since they were there.
#[derive(Clone, Copy, Debug)]
pub struct LowWater {
    low: u64,
    range: u64,
    has_risen: bool,
}

impl LowWater {
    /// The live bytes are at the level `low`, and rise and fall by `range` bytes.
    pub(super) fn new(low: u64, range: u64) -> LowWater {
        LowWater { low, range, has_risen: false }
    }

    /// The same level if the live bytes are counted otherwise. They are at it now.
    #[must_use]
    pub fn counted_as(self, live: u64) -> LowWater {
        LowWater::new(live, self.range)
    }

    /// The same if the bytes are counted from another level, and so many are alive at low water.
    pub(super) fn counted_from(self, low: u64) -> LowWater {
        LowWater { low, ..self }
    }

    /// Notes that so many bytes were alive.
    pub(super) fn rise_to(&mut self, live: u64) {
        self.rise_by(live.saturating_sub(self.low));
    }

    /// Notes that a cycle ends at this level, if that is higher.
    pub fn raise(&mut self, live: u64) {
        self.low = self.low.max(live);
    }

    /// Notes that so many bytes were alive above the level.
    pub fn rise_by(&mut self, bytes: u64) {
        self.has_risen |= bytes >= self.range / RISE;
    }

    /// Whether a cycle has ended, now that so many bytes are alive.
    pub fn is_back(&mut self, live: u64) -> bool {
        self.rise_to(live);
        let is_back = self.has_risen && live.saturating_sub(self.low) <= self.range / BACK;
        self.has_risen &= !is_back;
        is_back
    }

    /// Whether so few bytes are alive that this was not the lowest level.
    pub fn is_too_high(&self, live: u64) -> bool {
        self.low.saturating_sub(live) > self.range / BACK
    }
}

/// The live bytes before each allocation from `start` on, and now, beyond those before `start`.
pub(super) fn levels(log: &Log, start: u32) -> Vec<i128> {
    let mut levels = vec![0i128; (log.len() - start) as usize + 1];
    for (born, bytes, dropped) in log.lives() {
        let bytes = i128::from(bytes);
        if let Some(since) = born.checked_sub(start) {
            levels[since as usize + 1] += bytes;
        }
        // What died before the stretch, or is alive, changes nothing in it.
        if let Some(change) = dropped.checked_sub(start).and_then(|since| levels.get_mut(since as usize)) {
            *change -= bytes;
        }
    }
    let mut live = 0;
    levels.iter_mut().for_each(|change| {
        live += *change;
        *change = live;
    });
    levels
}

#[cfg(test)]
mod tests {
    use super::LowWater;

    #[test]
    fn a_cycle_ends_once_the_live_bytes_rose_and_are_back() {
        let mut water = LowWater::new(1000, 1 << 20);
        let levels = [1000, 50_000, 1000, 400_000, 50_000, 1300, 1000, 300_000, 1200];
        let ends: Vec<u64> = levels.into_iter().filter(|&level| water.is_back(level)).collect();
        assert_eq!(ends, [1000, 1200], "50,000 bytes are no rise, and 1,300 bytes are too many");
        water.rise_by(1 << 16);
        assert!(water.is_back(900) && !water.is_back(900));
    }

    #[test]
    fn a_level_may_turn_out_too_high_or_too_low() {
        let mut water = LowWater::new(1 << 20, 1 << 22);
        assert!(!water.is_too_high((1 << 20) - 1024) && water.is_too_high((1 << 20) - 1025));
        water.raise(3 << 20);
        water.raise(2 << 20);
        water.rise_by(1 << 18);
        assert!(water.is_back(3 << 20), "more stays alive than before");
    }
}
