//! Which entries are recorded though a plan serves the scope: those that may teach what deviates from it.
//!
//! A deviation has the entries after it recorded, as long as something that recurs is likely to come again: a spell. If it
//! teaches nothing, the next spell waits: the longer, and the longer it then is, the more were in vain.

use super::backoff::{Backoff, Pace};

#[derive(Debug, Default)]
pub(super) struct Curiosity {
    /// Entries of this spell that are left.
    left: u64,
    /// How long it rests between two spells.
    rest: Backoff,
}

/// Entries of the first spell: an order that comes again after at most eight others is met twice in it.
const SPELL: u64 = 16;
/// As many times a spell's entries are not recorded after it, so that at most a quarter of all are.
const REST: u64 = 3;
/// The longest spell is four times the first: orders that recur more rarely than each 32nd entry gain less from a plan than their
/// recording costs.
const PACE: Pace = Pace { first: REST * SPELL, factor: 1, longest: 4 * REST * SPELL };

impl Curiosity {
    /// Whether the next entry is to be recorded.
    pub(super) fn is_due(&self) -> bool {
        self.left > 0
    }

    /// The entry of this number ended.
    pub(super) fn ended(&mut self, entry: u64, has_deviated: bool) {
        match self.left {
            0 if has_deviated && self.rest.is_over(entry) => self.left = SPELL.max(self.rest.wait() / REST),
            0 => {}
            1 => {
                self.left = 0;
                self.rest.tried(entry, PACE);
            }
            _ => self.left -= 1,
        }
    }

    /// Something new was learned, or is to be.
    pub(super) fn renew(&mut self) {
        *self = Curiosity { left: SPELL, ..Curiosity::default() };
    }

    /// Has the next entry recorded.
    pub(super) fn record_next(&mut self) {
        self.left = self.left.max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many entries are recorded, and how many of those that deviate, which each `period`-th does.
    fn recorded(entries: u64, period: u64) -> (u64, u64) {
        let (mut curiosity, mut recorded, mut deviating) = (Curiosity::default(), 0, 0);
        for entry in 1..=entries {
            let (is_recorded, deviates) = (curiosity.is_due(), entry % period == 0);
            recorded += u64::from(is_recorded);
            deviating += u64::from(is_recorded && deviates);
            curiosity.ended(entry, deviates);
        }
        (recorded, deviating)
    }

    #[test]
    fn what_recurs_is_soon_recorded_twice() {
        for period in [1, 2, 3, 5, 8] {
            let (_, deviating) = recorded(SPELL + period, period);
            assert!(deviating >= 2, "{deviating} with period {period}");
        }
        assert!(recorded(1000, 30).1 >= 2, "a longer period in a longer spell");
    }

    #[test]
    fn what_teaches_nothing_is_recorded_seldom() {
        for period in [1, 5, 8, 40] {
            assert!(recorded(10_000, period).0 < 2_700, "period {period}");
        }
        assert_eq!(recorded(1000, 1001), (0, 0), "nothing deviates");
    }
}
