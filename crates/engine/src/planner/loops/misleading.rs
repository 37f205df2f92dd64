//! Known loops that mislead the search. The program does other work now, of which a part looks like a part of a known loop: a larger model has
//! more layers of the same kind. The search finds a place in that loop again and again, and each time its plan soon ends. Then the known loops
//! are left out.

use super::entries::made_and_served;
use crate::home::Shared;
use crate::planner::Planner;

/// How often in a row loops were left while plans served little.
#[derive(Default)]
pub(super) struct Misleading {
    leaves: u32,
    /// How often loops were searched without the known ones.
    tries: u32,
    /// The allocations when a loop was left last, and those of them that plans served.
    made: u64,
    served: u64,
}

/// The known loops are good enough if plans serve at least one of this many allocations. With three of four, a recorded server of prompts was
/// planned for 0.64 instead of 0.75.
const SERVED: u64 = 2;
/// After so many times in a row, loops are searched without the known ones; then after twice as many, and so on, up to 2^16 times as many.
/// The numbers were chosen, not measured.
const LEAVES: u32 = 4;
const MOST_TRIES: u32 = 16;

impl Misleading {
    /// Notes that a loop is left. Returns whether to search for another one without those that are known.
    fn leaves(&mut self, (made, served): (u64, u64)) -> bool {
        let new = made.saturating_sub(std::mem::replace(&mut self.made, made));
        let planned = served.saturating_sub(std::mem::replace(&mut self.served, served));
        self.leaves = if planned.saturating_mul(SERVED) < new { self.leaves + 1 } else { 0 };
        let misleads = self.leaves >= LEAVES << self.tries;
        if misleads {
            (self.leaves, self.tries) = (0, (self.tries + 1).min(MOST_TRIES));
        }
        misleads
    }
}

impl Planner {
    /// Whether the loop that is left, and those before, misled the search.
    pub(super) fn was_misled(&mut self, shared: &Shared) -> bool {
        self.publish(shared);
        self.loops.length.is_some() && self.loops.misleading.leaves(made_and_served(shared))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often loops are searched without the known ones, if one is left so many times, each 100 allocations after the time before, of which
    /// plans served so many.
    fn searched(leaves: u64, served: u64) -> usize {
        let mut misleading = Misleading::default();
        (1..=leaves).filter(|&time| misleading.leaves((100 * time, served * time))).count()
    }

    #[test]
    fn loops_whose_plans_serve_little_are_left_out_ever_more_rarely() {
        assert_eq!([3, 4, 11, 12, 28].map(|leaves| searched(leaves, 49)), [0, 1, 1, 2, 3]);
        assert_eq!(searched(100, 50), 0);
    }
}
