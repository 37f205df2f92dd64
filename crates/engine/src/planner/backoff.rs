//! What may be tried again, but ever more rarely while it comes to nothing. The one way in which planning waits.

/// How long to wait from one try to the next, in entries.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    /// No try before this entry.
    not_before: u64,
    wait: u64,
    /// The entry of the last try.
    last: u64,
}

/// How the waits of one matter grow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) first: u64,
    /// Each wait is so many times the one before, and `first` more.
    pub(super) factor: u64,
    pub(super) longest: u64,
}

/// What is tried at most once in so many entries costs nothing that could be measured, even if a try takes a millisecond.
const SELDOM: u64 = 4095;

impl Pace {
    /// For what costs about as much as an entry.
    pub(super) const DOUBLING: Pace = Pace { first: 1, factor: 2, longest: SELDOM };
    /// For an arena where sizes grow from entry to entry: each entry finds another range.
    const GROWING: Pace = Pace { first: 1, factor: 1, longest: PATIENT };
    /// For what costs many calls of the device, or the work of many entries.
    pub(super) const STEEP: Pace = Pace { first: 1, factor: 8, longest: SELDOM };
}

impl Backoff {
    /// Whether the wait is over.
    pub(super) fn is_over(&self, entry: u64) -> bool {
        entry >= self.not_before
    }

    /// Whether it may be tried in this entry; if so, it is. It may be tried as often as one likes within one entry.
    pub(super) fn try_now(&mut self, entry: u64, pace: Pace) -> bool {
        let is_again = self.wait > 0 && entry == self.last;
        if !is_again && self.is_over(entry) {
            self.tried(entry, pace);
            return true;
        }
        is_again
    }

    /// It was tried in this entry: waits longer than the last time. What is tried rarely need not wait long.
    pub(super) fn tried(&mut self, entry: u64, pace: Pace) {
        let is_rare = entry.saturating_sub(self.not_before) > pace.factor * (self.wait / 2 + 2 * pace.first);
        let longer = pace.factor.saturating_mul(self.wait).saturating_add(pace.first);
        self.wait = if is_rare { pace.first } else { longer.min(pace.longest) };
        self.not_before = entry.saturating_add(self.wait);
        self.last = entry;
    }

    /// Waits for so many entries at least.
    pub(super) fn wait_for(&mut self, entry: u64, entries: u64) {
        self.not_before = self.not_before.max(entry.saturating_add(entries));
    }

    /// Something speaks for trying sooner: halves what is left of the wait.
    pub(super) fn halve(&mut self, entry: u64) {
        self.not_before -= self.not_before.saturating_sub(entry).div_ceil(2);
    }

    /// How many entries the wait takes that is on now, or was the last one.
    pub(super) fn wait(&self) -> u64 {
        self.wait
    }
}

/// No arena was to be had while so much of the range was in use. Another try is made when it is less, or after a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    live: u64,
    /// Entries that began with plans and without an arena since the first refusal: only they are waited for, as plans may come
    /// and go meanwhile.
    entries: u64,
    waits: Backoff,
}

/// After a wait of so many entries, which all went without an arena, the range may reserve more for it than it ever did. Fewer
/// would have the range grow for what is over soon, as warming up is.
const PATIENT: u64 = 4;

impl Refused {
    /// No arena was to be had now, where sizes grow or not, as `before` says perhaps not for the first time.
    pub(super) fn again(before: Option<Refused>, live: u64, grows: bool) -> Refused {
        let Refused { entries, mut waits, .. } =
            before.unwrap_or(Refused { live, entries: 0, waits: Backoff::default() });
        // Entries are counted where they begin: the wait begins with the next one.
        waits.tried(entries.saturating_add(1), if grows { Pace::GROWING } else { Pace::DOUBLING });
        Refused { live, entries, waits }
    }

    /// Another entry begins without an arena.
    pub(super) fn count(&mut self) {
        self.entries = self.entries.saturating_add(1);
    }

    /// Whether a try is in vain most likely, with so much of the range in use.
    pub(crate) fn is_in_vain(&self, live: u64) -> bool {
        live >= self.live && !self.waits.is_over(self.entries)
    }

    /// Whether it waited so long that the range may rather grow.
    pub(super) fn was_patient(&self) -> bool {
        self.waits.wait() > PATIENT
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
