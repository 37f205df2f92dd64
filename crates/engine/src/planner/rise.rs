//! How much an entry of a scope needs beyond what others have in use when it begins.
//!
//! A scope may have the peak of its own use when others already dropped what they had: a backward pass needs new memory while the activations
//! of the forward pass go. Then an arena of its peak, beside all that others have when the entry begins, would be more than was ever in use.

/// The need of a scope's entries, from notes at some of their requests.
#[derive(Default)]
pub(super) struct Rise {
    /// The entry of the last note, and what others had in use at its first note.
    entry: u64,
    begin: u64,
    /// The highest rise of an entry, and the most bytes that the scope had in use at a note.
    highest: u64,
    own: u64,
}

/// The notes say something about a peak if the scope had so much of it in use at one of them, 7/8.
const NEAR: u64 = 8;

impl Rise {
    /// Notes that others have so many bytes in use in this entry, and the scope.
    pub(super) fn note(&mut self, entry: u64, others: u64, own: u64) {
        if entry != self.entry {
            (self.entry, self.begin) = (entry, others);
        }
        self.highest = self.highest.max(others.saturating_add(own).saturating_sub(self.begin));
        self.own = self.own.max(own);
    }

    /// The highest rise from what others had in use at the beginning of an entry to what all had in use, if the notes say something about this
    /// peak of the scope's own use.
    pub(super) fn of(&self, peak: u64) -> Option<u64> {
        (self.own >= peak - peak / NEAR).then_some(self.highest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_rise_counts_if_the_peak_was_seen() {
        let mut rise = Rise::default();
        // The scope has 10 bytes, and later 80, when others have dropped 60 of their 100.
        rise.note(1, 100, 10);
        rise.note(1, 40, 80);
        assert_eq!([80, 91, 92].map(|peak| rise.of(peak)), [Some(20), Some(20), None]);
        rise.note(2, 500, 30);
        assert_eq!(rise.of(80), Some(30));
        rise.note(3, 0, 80);
        assert_eq!(rise.of(80), Some(80));
    }
}
