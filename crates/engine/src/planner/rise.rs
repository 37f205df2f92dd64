//! How much an entry of a scope needs beyond what others have in use when it begins.
//!
//! A scope may have the peak of its own use when others already dropped what they had: a backward pass needs new memory while the activations
//! of the forward pass go. Then an arena of its peak, beside all that others have when the entry begins, would be more than was ever in use.

/// The need of a scope's entries, from notes at some of their requests.
#[derive(Default)]
pub(super) struct Rise {
    /// The device and the entry of the last note, and what others had in use at the first note of the entry.
    place: (u64, u64),
    begin: u64,
    /// The highest rise of an entry, and the most bytes that the scope had in use at a note.
    highest: u64,
    own: u64,
}

/// The notes say something about a peak only if the scope had 7/8 of it in use at one of them.
const NEAR: u64 = 8;

impl Rise {
    /// Notes that others have so many bytes in use on this device in this entry, and so many the scope. Counts of a scope are of all its devices,
    /// so notes of another device count no more.
    pub(super) fn note(&mut self, place: (u64, u64), others: u64, own: u64) {
        if place.0 != self.place.0 {
            *self = Rise::default();
        }
        if place != self.place {
            (self.place, self.begin) = (place, others);
        }
        self.highest = self.highest.max(others.saturating_add(own).saturating_sub(self.begin));
        self.own = self.own.max(own);
    }

    /// The highest rise: from what others had in use when an entry began to what all had in use. `None` if the notes say nothing about this peak of
    /// the scope's own use.
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
        rise.note((7, 1), 100, 10);
        rise.note((7, 1), 40, 80);
        assert_eq!([80, 91, 92].map(|peak| rise.of(peak)), [Some(20), Some(20), None]);
        rise.note((7, 2), 500, 30);
        assert_eq!(rise.of(80), Some(30));
        rise.note((7, 3), 0, 80);
        assert_eq!(rise.of(80), Some(80));
        rise.note((8, 3), 0, 20);
        assert_eq!([20, 80].map(|peak| rise.of(peak)), [Some(20), None], "another device");
    }
}
