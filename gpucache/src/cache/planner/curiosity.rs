//! Which entries are recorded though a plan serves the scope: those that may teach what deviates from it.
//!
//! A deviation has the entries after it recorded, as long as something that recurs is likely to come again. If they teach
//! nothing, the next such spell waits: the longer, and the longer it then is, the more were in vain.

#[derive(Debug, Default)]
pub(super) struct Curiosity {
    /// Entries of this spell that are left.
    left: u32,
    /// Entries until the next spell may begin.
    rest: u32,
    /// Sessions that taught nothing since the last one that did.
    in_vain: u32,
}

/// Entries of the first spell.
const SPELL: u32 = 16;
/// Each one is at most so many times as long.
const LONGEST: u32 = 4;
/// As many times a spell's entries are not recorded after it.
const REST: u32 = 3;

impl Curiosity {
    /// Whether the next entry is to be recorded.
    pub(super) fn is_due(&self) -> bool {
        self.left > 0
    }

    /// An entry ended.
    pub(super) fn ended(&mut self, deviated: bool) {
        let length = SPELL * LONGEST.min(1 << self.in_vain);
        match self.left {
            0 => self.rest = self.rest.saturating_sub(1),
            1 => (self.left, self.rest, self.in_vain) = (0, REST * length, LONGEST.min(self.in_vain + 1)),
            _ => self.left -= 1,
        }
        if deviated && self.left == 0 && self.rest == 0 {
            self.left = length;
        }
    }

    /// Something new was learned, or is to be.
    pub(super) fn renew(&mut self) {
        *self = Curiosity { left: SPELL, ..Curiosity::default() };
    }

    /// Has the next entry recorded.
    pub(super) fn wonder(&mut self) {
        self.left = self.left.max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many entries are recorded, and how many of those that deviate, which each `period`-th does.
    fn recorded(entries: u32, period: u32) -> (u32, u32) {
        let (mut curiosity, mut recorded, mut deviating) = (Curiosity::default(), 0, 0);
        for entry in 1..=entries {
            let (is_recorded, deviates) = (curiosity.is_due(), entry % period == 0);
            recorded += u32::from(is_recorded);
            deviating += u32::from(is_recorded && deviates);
            curiosity.ended(deviates);
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
