//! When an arena is asked for again that was not to be had.

use super::backoff::{Backoff, Pace};

/// No arena was to be had while so much of the range was in use. Another try is made when it is less, or after a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    live: u64,
    /// Entries that began with plans and without an arena since the first refusal: only they are waited for, as plans may come
    /// and go meanwhile.
    entries: u64,
    waits: Backoff,
}

/// Where sizes grow from entry to entry, each entry finds another range.
const GROWING: Pace = Pace { first: 1, factor: 1, longest: PATIENT };
/// After a wait of so many entries, which all went without an arena, the range may reserve more for it than it ever did. Fewer
/// would have the range grow for what is over soon, as warming up is.
const PATIENT: u64 = 4;

impl Refused {
    /// No arena was to be had now, where sizes grow or not, as `before` says perhaps not for the first time.
    pub(super) fn again(before: Option<Refused>, live: u64, grows: bool) -> Refused {
        let Refused { entries, mut waits, .. } =
            before.unwrap_or(Refused { live, entries: 0, waits: Backoff::default() });
        // Entries are counted where they begin: the wait begins with the next one.
        waits.tried(entries.saturating_add(1), if grows { GROWING } else { Pace::DOUBLING });
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
