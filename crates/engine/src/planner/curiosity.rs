//! Decides which entries are recorded although a plan serves the scope: entries from which the planner may learn a new order.
//!
//! After a deviation, a *spell* of entries is recorded, long enough to see a recurring order again. If a spell teaches nothing,
//! recording rests before the next spell. With each such spell, the rest and the next spell become longer.
//!
//! Many programs deviate at regular times: each tenth step evaluates the model. So an entry is recorded too if it comes as long after a
//! deviation as that came after the one before.

use super::backoff::{Backoff, Pace};

#[derive(Debug, Default)]
pub(super) struct Curiosity {
    /// How many entries of this spell are left.
    pub(super) left: u64,
    /// The rest between two spells.
    rest: Backoff,
    /// Whether a deviation began this spell or came in it. Otherwise a new plan began it, and no rest follows: the next deviation is the first
    /// one of its kind, such as a larger batch.
    has_deviated: bool,
    /// The last entry that deviated, and the entry that may deviate next.
    last: u64,
    next: u64,
    /// Whether the next entry alone is recorded, since it may deviate.
    is_guess: bool,
    /// How often an entry was expected to deviate.
    guesses: u32,
}

/// So many entries are expected to deviate, until a recording teaches something. The number was chosen, not measured.
const GUESSES: u32 = 8;
/// The number of entries in the first spell. An order that comes again after at most eight others comes twice in a spell.
const SPELL: u64 = 16;
/// After a spell, this many times its entries are not recorded, so at most a quarter of all entries are.
const REST: u64 = 3;
/// The longest spell is four times as long as the first. An order that recurs less often than in each 32nd entry gains less from a
/// plan than its recording costs.
const PACE: Pace = Pace { first: REST * SPELL, factor: 1, longest: 4 * REST * SPELL };

impl Curiosity {
    /// Whether to record the next entry.
    pub(super) fn is_due(&self) -> bool {
        self.left > 0
    }

    /// Notes that sizes grow, so later entries may deviate as well.
    pub(super) fn note_growth(&mut self) {
        self.has_deviated = true;
    }

    /// Notes that the entry of this number ended.
    pub(super) fn ended(&mut self, entry: u64, has_deviated: bool) {
        self.has_deviated |= has_deviated;
        match self.left {
            0 if has_deviated && self.rest.is_over(entry) => self.left = SPELL.max(self.rest.wait() / REST),
            0 if self.next == entry + 1 => (self.left, self.is_guess) = (1, true),
            0 => {}
            1 => self.end_spell(entry),
            _ => self.left -= 1,
        }
    }

    /// Ends a spell, or the recording of an entry that might deviate.
    fn end_spell(&mut self, entry: u64) {
        self.left = 0;
        let is_guess = std::mem::take(&mut self.is_guess);
        if std::mem::take(&mut self.has_deviated) && !is_guess {
            self.rest.tried(entry, PACE);
        }
    }

    /// Notes that the entry of this number deviates, before it ends. The entry that comes as long after it may deviate too.
    pub(super) fn deviates(&mut self, entry: u64) {
        let gap = entry - std::mem::replace(&mut self.last, entry);
        self.next = if self.guesses < GUESSES { entry + gap } else { 0 };
        self.guesses = self.guesses.saturating_add(1);
    }

    /// Begins a spell, since something new was learned or has to be learned.
    pub(super) fn renew(&mut self) {
        *self = Curiosity { left: SPELL, ..Curiosity::default() };
    }

    /// Makes the planner record the next entry.
    pub(super) fn record_next(&mut self) {
        self.left = self.left.max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `entries` entries are recorded, and how many of the recorded entries deviate. Each `period`-th entry deviates.
    fn recorded(entries: u64, period: u64) -> (u64, u64) {
        let (mut curiosity, mut recorded, mut deviating) = (Curiosity::default(), 0, 0);
        for entry in 1..=entries {
            let (is_recorded, deviates) = (curiosity.is_due(), entry % period == 0);
            recorded += u64::from(is_recorded);
            deviating += u64::from(is_recorded && deviates);
            if deviates {
                curiosity.deviates(entry);
            }
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
        for period in [10, 30, 100] {
            let (recorded, deviating) = recorded(4 * period, period);
            assert!(deviating >= 2 && recorded <= 36, "{deviating} of {recorded} with period {period}");
        }
    }

    #[test]
    fn the_first_deviation_from_a_new_plan_is_recorded_soon_unless_sizes_grow() {
        for grows in [false, true] {
            let mut curiosity = Curiosity::default();
            curiosity.renew();
            for entry in 1..=SPELL {
                if grows {
                    curiosity.note_growth();
                }
                curiosity.ended(entry, false);
            }
            curiosity.ended(SPELL + 2, true);
            assert_eq!(curiosity.is_due(), !grows);
        }
    }

    #[test]
    fn what_teaches_nothing_is_recorded_seldom() {
        for period in [1, 5, 8, 40] {
            assert!(recorded(10_000, period).0 < 2_710, "period {period}");
        }
        assert_eq!(recorded(1000, 1001), (0, 0), "nothing deviates");
    }
}
