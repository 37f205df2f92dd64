//! Waits before further tries. While tries fail, the waits grow. All waits of planning are of this kind.

/// How long to wait from one try to the next, in entries.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    /// The first entry in which the next try is allowed.
    not_before: u64,
    wait: u64,
    /// The entry of the last try.
    last: u64,
}

/// How the waits for one kind of try grow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) first: u64,
    /// Each wait is this many times the one before, plus `first`.
    pub(super) factor: u64,
    pub(super) longest: u64,
}

/// A try in at most one of this many entries costs nothing measurable, even if it takes a millisecond.
const SELDOM: u64 = 4095;
/// An arena that served for this many entries was not lost early. The range was looked at eight times meanwhile.
pub(super) const NOT_EARLY: u64 = 256;

impl Pace {
    /// For tries that cost about as much as an entry.
    pub(super) const DOUBLING: Pace = Pace { first: 1, factor: 2, longest: SELDOM };
    /// For an arena where sizes grow from entry to entry, since each entry finds another range.
    const GROWING: Pace = Pace { first: 1, factor: 1, longest: ENTRIES_BEFORE_GROWTH };
    /// For tries that cost many device calls, or the work of many entries.
    pub(super) const STEEP: Pace = Pace { first: 1, factor: 8, longest: SELDOM };
}

impl Backoff {
    /// Whether the wait is over.
    pub(super) fn is_over(&self, entry: u64) -> bool {
        entry >= self.not_before
    }

    /// Whether a try is allowed in this entry. If so, counts it as made. Within one entry, further tries are allowed too.
    pub(super) fn try_now(&mut self, entry: u64, pace: Pace) -> bool {
        let is_again = self.wait > 0 && entry == self.last;
        if !is_again && self.is_over(entry) {
            self.tried(entry, pace);
            return true;
        }
        is_again
    }

    /// Counts a try in this entry, so the next wait is longer than the last one. If tries are rare, the wait is short again.
    pub(super) fn tried(&mut self, entry: u64, pace: Pace) {
        let is_rare = entry.saturating_sub(self.not_before) > pace.factor * (self.wait / 2 + 2 * pace.first);
        let longer = pace.factor.saturating_mul(self.wait).saturating_add(pace.first);
        self.wait = if is_rare { pace.first } else { longer.min(pace.longest) };
        self.not_before = entry.saturating_add(self.wait);
        self.last = entry;
    }

    /// Ends this wait. The next one is as long as it would have been.
    pub(super) fn end(&mut self) {
        self.not_before = 0;
    }

    /// Waits for at least this many entries.
    pub(super) fn wait_for(&mut self, entry: u64, entries: u64) {
        self.not_before = self.not_before.max(entry.saturating_add(entries));
    }

    /// Halves the rest of the wait, since there is a reason to try sooner.
    pub(super) fn halve(&mut self, entry: u64) {
        self.not_before -= self.not_before.saturating_sub(entry).div_ceil(2);
    }

    /// The length of the current or last wait, in entries.
    pub(super) fn wait(&self) -> u64 {
        self.wait
    }
}

/// The range refused an arena. The planner tries again when less is needed, since fewer bytes of the range are in use or the arena became
/// smaller, or after a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    /// The bytes of the range that were in use, and those of the arena.
    needed: u64,
    /// Entries since the first refusal that began with plans and without an arena. Only these count for the wait, since plans may
    /// come and go meanwhile.
    entries: u64,
    waits: Backoff,
}

/// After a wait of more than this many entries without an arena, the range may reserve more for the arena than its peak. After a
/// shorter wait, the range would grow for a state that is soon over, such as the warm-up.
const ENTRIES_BEFORE_GROWTH: u64 = 4;

impl Refused {
    /// Notes that the range refused an arena now. `before` is the refusal before this one, if there was one. `grows` says whether
    /// sizes grow.
    pub(super) fn again(before: Option<Refused>, needed: u64, grows: bool) -> Refused {
        let Refused { entries, mut waits, .. } =
            before.unwrap_or(Refused { needed, entries: 0, waits: Backoff::default() });
        // Entries are counted when they begin, so the wait begins with the next one.
        waits.tried(entries.saturating_add(1), if grows { Pace::GROWING } else { Pace::DOUBLING });
        Refused { needed, entries, waits }
    }

    /// Notes that another entry begins without an arena.
    pub(super) fn count(&mut self) {
        self.entries = self.entries.saturating_add(1);
    }

    /// Whether a try will most likely fail while this many bytes are needed.
    pub(crate) fn is_in_vain(&self, needed: u64) -> bool {
        needed >= self.needed && !self.waits.is_over(self.entries)
    }

    /// Whether the wait was so long that the range should grow.
    pub(super) fn was_patient(&self) -> bool {
        self.waits.wait() > ENTRIES_BEFORE_GROWTH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_all_the_time_is_done_ever_more_rarely() {
        let mut backoff = Backoff::default();
        let done: Vec<u64> = (0..100).filter(|&entry| backoff.try_now(entry, Pace::DOUBLING)).collect();
        assert_eq!(done, [0, 1, 4, 11, 26, 57]);
    }

    #[test]
    fn what_comes_rarely_is_done_each_time() {
        let mut backoff = Backoff::default();
        assert!((0..800).step_by(8).all(|entry| backoff.try_now(entry, Pace::DOUBLING)));
    }

    #[test]
    fn what_was_begun_in_an_entry_goes_on_in_it() {
        let mut backoff = Backoff::default();
        let done: Vec<u64> =
            [5, 5, 5, 6, 7, 7].into_iter().filter(|&entry| backoff.try_now(entry, Pace::STEEP)).collect();
        assert_eq!(done, [5, 5, 5, 6]);
    }

    #[test]
    fn no_wait_is_longer_than_the_longest() {
        let mut backoff = Backoff::default();
        (0..20).for_each(|_| backoff.tried(0, Pace::STEEP));
        assert_eq!(backoff.wait(), Pace::STEEP.longest);
        backoff.tried(u64::MAX, Pace::STEEP);
        assert!(backoff.is_over(u64::MAX), "entries that are not counted any more");
    }

    #[test]
    fn a_try_is_made_when_less_is_in_use_or_after_ever_longer_waits() {
        let (mut refused, mut tries) = (None::<Refused>, Vec::new());
        for entry in 1..40 {
            refused.iter_mut().for_each(Refused::count);
            if refused.is_none_or(|refused| !refused.is_in_vain(100)) {
                tries.push((entry, refused.is_some_and(|refused| refused.was_patient())));
                refused = Some(Refused::again(refused, 100, false));
            }
        }
        assert_eq!(tries, [(1, false), (3, false), (7, false), (15, true), (31, true)]);
        assert!(refused.is_some_and(|refused| !refused.is_in_vain(99)));
    }
}
