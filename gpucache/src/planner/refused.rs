//! When an arena is asked for again that was not to be had.

use super::backoff::{Backoff, Pace};

/// No arena was to be had while so much of the range was in use. Another try is made when it is less, or after a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    live: u64,
    waits: Backoff,
    is_over: bool,
}

/// After a wait of so many entries, which all went without an arena, the range may reserve more for it than it ever did. Fewer
/// would have the range grow for what is over soon, as warming up is.
const PATIENCE: u32 = 4;

impl Refused {
    /// No arena was to be had in this entry, as `before` says perhaps not for the first time.
    pub(super) fn again(before: Option<Refused>, entry: u32, live: u64) -> Refused {
        let mut waits = before.map(|before| before.waits).unwrap_or_default();
        waits.tried(entry, Pace::DOUBLING);
        Refused { live, waits, is_over: false }
    }

    /// As it is seen in this entry.
    pub(super) fn seen_in(self, entry: u32) -> Refused {
        Refused { is_over: self.waits.is_over(entry), ..self }
    }

    /// Whether a try is in vain most likely, with so much of the range in use.
    pub(crate) fn is_in_vain(&self, live: u64) -> bool {
        live >= self.live && !self.is_over
    }

    /// Whether it waited so long that the range may rather grow.
    pub(crate) fn was_patient(&self) -> bool {
        self.waits.wait() > PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_try_is_made_when_less_is_in_use_or_after_ever_longer_waits() {
        let (mut refused, mut tries) = (None, Vec::new());
        for entry in 1..40 {
            let seen = refused.map(|refused: Refused| refused.seen_in(entry));
            if seen.is_none_or(|seen| !seen.is_in_vain(100)) {
                tries.push((entry, seen.is_some_and(|seen| seen.was_patient())));
                refused = Some(Refused::again(refused, entry, 100));
            }
        }
        assert_eq!(tries, [(1, false), (2, false), (5, false), (12, true), (27, true)]);
        assert!(refused.is_some_and(|refused| !refused.is_in_vain(99)));
    }
}
