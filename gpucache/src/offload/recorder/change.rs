//! Whether a known order no longer suits, because the room for arrays or the sizes of arrays that entries make have changed.
//!
//! The moves of an order are computed for one room and for one size of each array. A limit may change, and other memory may come or go. A
//! batch may be smaller than before.

/// A change of less than this share of the bytes is none: the moves still suit, and learning anew costs the time of some entries.
const LEAST: u64 = 16;
/// So many entries in a row have to differ, the first time. Each time that the order was learned again, twice as many have to.
const ENTRIES: u32 = 4;
/// How often that number doubles.
const MOST_DOUBLED: u32 = 10;

/// The bytes that an order was learned for, and the entries that differ.
pub(super) struct Change {
    /// The least room in the entry that was recorded, and the room when the first entry by the order began. They differ if plain arrays of
    /// the scope come and go. Their arena may be there at the beginning of later entries, or not.
    rooms: (u64, Option<u64>),
    /// The bytes of arrays that an entry makes, by the order.
    expected: u64,
    /// The bytes of arrays that this entry has made.
    made: u64,
    /// The last entries that differed.
    entries: u32,
    most_entries: u32,
}

impl Change {
    /// For an order that was recorded with so little room, whose entries make so many bytes, and that was learned again so many times.
    pub(super) fn new((least_room, expected): (u64, u64), times: u32) -> Change {
        Change {
            rooms: (least_room, None),
            expected,
            made: 0,
            entries: 0,
            most_entries: ENTRIES << times.min(MOST_DOUBLED),
        }
    }

    /// The entry makes an array of so many bytes.
    pub(super) fn note_made(&mut self, bytes: u64) {
        self.made = self.made.saturating_add(bytes);
    }

    /// An entry begins, and there is so much room. The entry before went by the order. Returns whether the order is to be learned again.
    pub(super) fn begin(&mut self, room: u64) -> bool {
        let made = std::mem::take(&mut self.made);
        let (least, Some(first)) = self.rooms else {
            self.rooms.1 = Some(room);
            return false;
        };
        let differs = |known: u64, now: u64| known.abs_diff(now) > known / LEAST;
        let is_other = differs(first, room) && differs(least, room) || differs(self.expected, made);
        self.entries = if is_other { self.entries.saturating_add(1) } else { 0 };
        self.entries >= self.most_entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After how many of these entries an order is to be learned again.
    fn after(times: u32, entries: &[(u64, u64)]) -> Option<usize> {
        let mut change = Change::new((80, 1600), times);
        entries.iter().position(|&(room, made)| {
            let is_due = change.begin(room);
            change.note_made(made);
            is_due
        })
    }

    #[test]
    fn only_lasting_changes_count() {
        assert_eq!(after(0, &[(100, 1600); 50]), None);
        assert_eq!(after(0, &[[(100, 1600)].as_slice(), &[(106, 1500); 50]].concat()), None);
        assert_eq!(after(0, &[[(100, 1600)].as_slice(), &[(107, 1600); 50]].concat()), Some(4));
        assert_eq!(after(1, &[[(100, 1600)].as_slice(), &[(93, 1600); 50]].concat()), Some(8));
        // As little room as was recorded.
        assert_eq!(after(0, &[[(100, 1600)].as_slice(), &[(80, 1600); 50]].concat()), None);
        // The bytes of an entry are known when the next one begins.
        assert_eq!(after(0, &[(100, 1499); 50]), Some(4));
        assert_eq!(after(0, &[[(100, 1600); 3], [(50, 1600); 3]].concat().repeat(9)), None);
    }
}
