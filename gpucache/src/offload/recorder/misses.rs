//! The response to entries whose moves leave no room where an array needs it, so that fetches bring arrays on demand.
//!
//! Either free memory is not contiguous: then all arrays leave once, and come back side by side. Or the schedule expects more room than
//! there is: then it is computed for less. Both cost time, so neither happens without end.

/// If more of eight entries than this fetch arrays that are not there, the schedule uses less room. That costs more copies in each entry.
const MOST_MISSED: u32 = 2;

/// How often arrays are made contiguous for one order. Each time takes about as long as an entry.
const MOST_TIDIED: u32 = 16;

/// How often they are made contiguous for the same moves. If pages still go, the moves are for more room than there is.
const MOST_TIDIED_FOR_ONE: u32 = 2;

/// The action before the next entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Remedy {
    Nothing,
    /// All arrays leave once.
    Tidy,
    /// The schedule is computed for less room.
    LessRoom,
}

/// The last entries by an order, and what was done about them.
#[derive(Default)]
pub(super) struct Misses {
    /// One bit for each of the last entries with these moves: whether a fetch had to bring an array.
    missed: u8,
    /// How often arrays were made contiguous for this order.
    tidied: u32,
    /// How often they were for these moves.
    tidied_for_these: u32,
    /// Whether all arrays are to leave once, when the next entry begins.
    is_apart: bool,
    /// How often pages of the device had gone before this entry.
    pages: u64,
    /// Whether a fetch of this entry had to bring an array.
    misses: bool,
}

impl Misses {
    /// An entry begins. Pages of the device went so often by now.
    pub(super) fn begin(&mut self, pages: u64) {
        (self.pages, self.misses) = (pages, false);
    }

    /// A fetch of this entry had to bring an array.
    pub(super) fn note(&mut self) {
        self.misses = true;
    }

    /// An entry by these moves has ended.
    pub(super) fn end(&mut self, pages: u64) -> Remedy {
        self.missed = self.missed << 1 | u8::from(self.misses);
        if self.may_be_apart(pages) && self.tidied_for_these < MOST_TIDIED_FOR_ONE && self.tidy() {
            (self.missed, self.tidied_for_these) = (0, self.tidied_for_these + 1);
            Remedy::Tidy
        } else if self.missed.count_ones() > MOST_MISSED {
            self.missed = 0;
            Remedy::LessRoom
        } else {
            Remedy::Nothing
        }
    }

    /// Whether free memory may not be contiguous: pages went in this entry, or an array had to be brought for the first time.
    fn may_be_apart(&self, pages: u64) -> bool {
        self.missed != 0 && self.tidied == 0 || pages > self.pages
    }

    /// Has all arrays leave once when the next entry begins, unless they did so often. Returns whether they will.
    pub(super) fn tidy(&mut self) -> bool {
        let may = self.tidied < MOST_TIDIED;
        if may && !self.is_apart {
            (self.is_apart, self.tidied) = (true, self.tidied + 1);
        }
        may
    }

    /// Other moves are made from now on.
    pub(super) fn note_other_moves(&mut self) {
        self.tidied_for_these = 0;
    }

    /// Whether all arrays are to leave now. The next call says no.
    pub(super) fn take_tidy(&mut self) -> bool {
        std::mem::take(&mut self.is_apart)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The remedies of entries in which so many pages go and so many arrays are demanded.
    fn remedies(entries: &[(u64, u64)]) -> Vec<Remedy> {
        let (mut misses, mut gone) = (Misses::default(), 0);
        let entry = |&(pages, demanded): &(u64, u64)| {
            misses.take_tidy();
            misses.begin(gone);
            (0..demanded).for_each(|_| misses.note());
            gone += pages;
            misses.end(gone)
        };
        entries.iter().map(entry).collect()
    }

    #[test]
    fn entries_that_find_their_arrays_need_nothing() {
        assert_eq!(remedies(&[(0, 0); 20]), [Remedy::Nothing; 20]);
    }

    #[test]
    fn the_first_miss_may_be_for_memory_that_is_not_contiguous() {
        assert_eq!(remedies(&[(0, 0), (0, 1), (0, 0)]), [Remedy::Nothing, Remedy::Tidy, Remedy::Nothing]);
    }

    #[test]
    fn later_misses_lead_to_less_room() {
        let found = remedies(&[(0, 1); 5]);
        assert_eq!(found, [Remedy::Tidy, Remedy::Nothing, Remedy::Nothing, Remedy::LessRoom, Remedy::Nothing]);
    }

    #[test]
    fn pages_that_go_again_and_again_lead_to_less_room() {
        let found = remedies(&[(1, 1); 6]);
        assert_eq!(found[..4], [Remedy::Tidy, Remedy::Tidy, Remedy::Nothing, Remedy::Nothing]);
        assert_eq!(found[4..], [Remedy::LessRoom, Remedy::Nothing]);
    }

    #[test]
    fn arrays_do_not_leave_without_end() {
        let mut misses = Misses::default();
        let tidied = (0..100).filter(|_| misses.tidy() && misses.take_tidy()).count();
        assert_eq!(tidied, MOST_TIDIED as usize);
    }
}
