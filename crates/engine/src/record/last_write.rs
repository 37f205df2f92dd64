//! When work of a block's own stream last wrote it, as far as known, and whether the outcome of that work is kept elsewhere. It is one
//! word, which any thread may set.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A life begins with the default: nobody uses the bare address of the previous life any more.
#[derive(Default)]
pub(super) struct LastWrite(AtomicU32);

/// The word for an unknown epoch. The first epoch of a stream is 1.
const UNKNOWN: u32 = 0;
/// The word for a write at any time: other code has the bare address.
const ANYTIME: u32 = u32::MAX >> 1;
/// This bit is set in addition if an outcome is kept for this life.
const OUTCOME: u32 = 1 << 31;

impl LastWrite {
    /// Whether other code has the bare address in this life. Work of the block's own stream may then write it at any time, without an
    /// announcement.
    pub(super) fn is_anytime(&self) -> bool {
        self.0.load(Relaxed) & !OUTCOME == ANYTIME
    }

    /// The epoch of its stream in which the block was last written. `None` if it is written at any time, if the write was not announced, or
    /// if the epoch is too large for the word.
    pub(super) fn epoch(&self) -> Option<u64> {
        let word = self.0.load(Relaxed) & !OUTCOME;
        (word != UNKNOWN && word != ANYTIME).then_some(u64::from(word))
    }

    /// Notes an epoch, or that it is unknown. A block that may be written at any time stays so.
    #[inline]
    pub(super) fn note(&self, epoch: Option<u64>) {
        let old = self.0.load(Relaxed);
        if old & !OUTCOME != ANYTIME {
            let word = epoch.and_then(|epoch| u32::try_from(epoch).ok()).filter(|&word| word < ANYTIME);
            self.0.store(word.unwrap_or(UNKNOWN) | old & OUTCOME, Relaxed);
        }
    }

    pub(super) fn set_anytime(&self) {
        self.0.fetch_or(ANYTIME, Relaxed);
    }

    /// Whether an outcome is kept for this life.
    #[inline]
    pub(super) fn has_outcome(&self) -> bool {
        self.0.load(Relaxed) & OUTCOME != 0
    }

    /// Notes whether an outcome is kept for this life.
    pub(super) fn set_outcome(&mut self, has_outcome: bool) {
        let word = self.0.get_mut();
        *word = if has_outcome { *word | OUTCOME } else { *word & !OUTCOME };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_tells_what_was_noted() {
        let last = LastWrite::default();
        assert!(last.epoch().is_none() && !last.is_anytime());
        last.note(Some(7));
        assert_eq!(last.epoch(), Some(7));
        for epoch in [u32::MAX, u32::MAX >> 1, OUTCOME | 7] {
            last.note(Some(u64::from(epoch)));
            assert!(last.epoch().is_none() && !last.is_anytime(), "no room for it");
        }
        last.set_anytime();
        last.note(Some(8));
        assert!(last.is_anytime() && last.epoch().is_none());
    }
    #[test]
    fn an_outcome_stands_beside_every_word() {
        let mut last = LastWrite::default();
        last.set_outcome(true);
        assert!(last.has_outcome() && last.epoch().is_none());
        last.note(Some(7));
        assert!(last.has_outcome() && last.epoch() == Some(7));
        last.set_anytime();
        assert!(last.has_outcome() && last.is_anytime());
        last.set_outcome(false);
        assert!(!last.has_outcome() && last.is_anytime());
    }
}
