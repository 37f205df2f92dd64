//! How a ring gives back what its turns do not need, once.

use super::LOOK_IN;
use crate::home::Shared;
use crate::planner::Planner;

/// Whether a ring may become shorter.
#[derive(Default)]
pub(super) struct Shortening {
    /// The entry that shortened it last.
    shortened: Option<u64>,
    /// How long it became when it grew again soon after that. The plans that it serves need so much.
    needed: u64,
}

/// What is free at the end of the ring goes back if it is more than this share of what the turns need.
const SLACK: u64 = 64;

impl Shortening {
    /// The ring grew in this entry, to so many bytes. If it was shortened not long before, its turns need more than was computed. It keeps
    /// what it has then, as it would otherwise shrink and grow in each turn.
    pub(super) fn note_growth(&mut self, entry: u64, bytes: u64) {
        if self.shortened.take().is_some_and(|shortened| entry.wrapping_sub(shortened) <= u64::from(LOOK_IN)) {
            self.needed = bytes;
        }
    }
}

impl Planner {
    /// Gives back what is free at the ring's end and not needed for its turns.
    pub(super) fn shorten_ring(&mut self, shared: &Shared) {
        let (ring, target) = (&mut self.carry.ring, self.carry.plan.target);
        let (bytes, keep) = (ring.bytes(), target.max(self.carry.shortening.needed));
        if target > 0
            && bytes > keep + keep / SLACK
            && let Some(left) = ring.shorten(keep)
        {
            self.carry.shortening.shortened = Some(self.entry.number);
            self.effects.shorten = Some(left);
            shared.counters.ring_shrank(bytes - left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_that_soon_grows_again_keeps_its_length() {
        let mut shortening = Shortening::default();
        shortening.note_growth(5, 100);
        assert_eq!(shortening.needed, 0, "it was not shortened");
        shortening.shortened = Some(10);
        shortening.note_growth(11 + u64::from(LOOK_IN), 100);
        assert_eq!(shortening.needed, 0, "long ago");
        shortening.shortened = Some(10);
        shortening.note_growth(11, 100);
        assert_eq!(shortening.needed, 100);
    }
}
