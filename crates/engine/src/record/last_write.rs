//! When work of a block's own stream last wrote it, as far as known, and whether the outcome of that work is kept elsewhere. It is one
//! word, which any thread may set.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A life begins with the default: nobody uses the bare address of the previous life any more.
#[derive(Default)]
pub(super) struct LastWrite(AtomicU32);

/// When a block was last written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// The write was not announced, or its epoch is too large for the word.
    Unknown,
    /// Other code has the bare address in this life. Work of the block's own stream may write it at any time, without an announcement.
    Anytime,
    /// In this epoch of its stream.
    In(u64),
}

/// The word for an unknown epoch. The first epoch of a stream is 1.
const UNKNOWN: u32 = 0;
/// The word for a write at any time: other code has the bare address.
const ANYTIME: u32 = u32::MAX >> 1;
/// This bit is set in addition if an outcome is kept for this life.
const OUTCOME: u32 = 1 << 31;

impl LastWrite {
    pub(super) fn get(&self) -> Written {
        match self.0.load(Relaxed) & !OUTCOME {
            UNKNOWN => Written::Unknown,
            ANYTIME => Written::Anytime,
            epoch => Written::In(u64::from(epoch)),
        }
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
        assert_eq!(last.get(), Written::Unknown);
        last.note(Some(7));
        assert_eq!(last.get(), Written::In(7));
        for epoch in [u32::MAX, u32::MAX >> 1, OUTCOME | 7] {
            last.note(Some(u64::from(epoch)));
            assert_eq!(last.get(), Written::Unknown, "no room for it");
        }
        last.set_anytime();
        last.note(Some(8));
        assert_eq!(last.get(), Written::Anytime);
    }
    #[test]
    fn an_outcome_stands_beside_every_word() {
        let mut last = LastWrite::default();
        last.set_outcome(true);
        assert!(last.has_outcome() && last.get() == Written::Unknown);
        last.note(Some(7));
        assert!(last.has_outcome() && last.get() == Written::In(7));
        last.set_anytime();
        assert!(last.has_outcome() && last.get() == Written::Anytime);
        last.set_outcome(false);
        assert!(!last.has_outcome() && last.get() == Written::Anytime);
    }
}
