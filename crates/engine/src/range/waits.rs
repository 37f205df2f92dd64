//! How often a range may wait for the work of a stream before it grows: pure decisions.
//!
//! A wait takes what the GPU is behind, and the GPU works meanwhile. So it costs little, but a program whose sizes never repeat must not
//! wait for most of its allocations.

use std::time::Duration;

use super::exchanges::is_other_work;

/// How often a range waits at most before it grows, however many blocks were freed. A wait takes what the GPU is behind: usually less than a
/// step. A first step has about eight requests of much memory, and the order of steps is known after two or three.
const FREE_WAITS: u64 = 24;
/// The number of frees that allow one more wait: those of some steps of a training.
const FREES_PER_WAIT: u64 = 1 << 14;
/// The freed bytes that allow one more wait. A GPU takes at least 30 ms to fill and read as much. A training of GPT-2 on an H200, each step
/// longer than the one before, reserved 1.22 times its live memory without these waits, and 1.08 times with them, and was no slower.
const FREED_PER_WAIT: u64 = 32 << 30;
/// All waits so far may take this share of the time, 1/16, whatever was freed: arrays of plans are not freed one by one. Where the GPU is
/// behind by little, these are many waits. Where it is behind by a step, this is one wait in 16 steps, and the GPU works meanwhile. In replays
/// on a device that is 300 operations behind, answers of a language model reserved 1.070 times their live memory without such waits, 1.037 with
/// 1/64, and 1.025 with 1/16. They took 4% of the time there.
const SHARE_OF_TIME: u32 = 16;

/// The waits of a range so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waits {
    /// The waits for the present work.
    times: u64,
    /// The peak of live memory at the first of them.
    mark: u64,
    /// How long all waits took.
    took: Duration,
}

/// What a range may spend on waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitBudget {
    pub(super) peak_live: u64,
    pub(super) frees: u64,
    /// The bytes of these frees.
    pub(super) freed: u64,
    /// The time since the range began.
    pub(super) elapsed: Duration,
}

impl WaitBudget {
    /// The waits that frees allow.
    fn earned(self) -> u64 {
        self.frees / FREES_PER_WAIT + self.freed / FREED_PER_WAIT
    }
}

impl Waits {
    /// Whether the range has waited too often, and for too long, to wait once more.
    pub(super) fn are_too_many(self, budget: WaitBudget) -> bool {
        let are_too_long = self.took > budget.elapsed / SHARE_OF_TIME;
        are_too_long && self.at(budget).times >= FREE_WAITS.saturating_add(budget.earned())
    }

    /// Counts a wait that took so long.
    pub(super) fn count(&mut self, budget: WaitBudget, took: Duration) {
        let Waits { times, mark, .. } = self.at(budget);
        *self = Waits { times: times + 1, mark, took: self.took.saturating_add(took) };
    }

    /// The waits that count for work with this peak of live memory.
    fn at(self, budget: WaitBudget) -> Waits {
        match is_other_work(budget.peak_live, self.mark) {
            true => Waits { times: self.times.min(budget.earned()), mark: budget.peak_live, ..self },
            false => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// How often a range waits, for a second each, before it has to grow. It began a second ago.
    fn wait_all(waits: &mut Waits, peak_live: u64, earned: u64) -> u64 {
        let budget = WaitBudget { peak_live, frees: earned * FREES_PER_WAIT, freed: 0, elapsed: SECOND };
        let mut count = 0;
        while !waits.are_too_many(budget) {
            waits.count(budget, SECOND);
            count += 1;
        }
        count
    }

    #[test]
    fn frees_and_freed_bytes_allow_more_waits() {
        let mut waits = Waits::default();
        assert_eq!(wait_all(&mut waits, 1000, 0), FREE_WAITS);
        assert_eq!(wait_all(&mut waits, 1000, 3), 3);
        let budget =
            WaitBudget { peak_live: 1000, frees: 4 * FREES_PER_WAIT - 1, freed: FREED_PER_WAIT - 1, elapsed: SECOND };
        assert!(waits.are_too_many(budget) && !waits.are_too_many(WaitBudget { freed: FREED_PER_WAIT, ..budget }));
    }

    #[test]
    fn short_waits_are_always_allowed() {
        let mut waits = Waits::default();
        wait_all(&mut waits, 1000, 0);
        let took = SECOND * FREE_WAITS as u32;
        let budget = |elapsed| WaitBudget { peak_live: 1000, frees: 0, freed: 0, elapsed };
        assert!(waits.are_too_many(budget(took * SHARE_OF_TIME - SECOND)));
        assert!(!waits.are_too_many(budget(took * SHARE_OF_TIME)));
    }

    #[test]
    fn larger_work_waits_anew_and_keeps_what_frees_earned() {
        let mut waits = Waits::default();
        assert_eq!(wait_all(&mut waits, 1000, 10), FREE_WAITS + 10);
        assert_eq!(wait_all(&mut waits, 1250, 10), 0, "hardly larger");
        assert_eq!(wait_all(&mut waits, 1251, 10), FREE_WAITS, "what was earned has been used");
        assert_eq!(wait_all(&mut waits, 1 << 20, 100), FREE_WAITS + 100 - (10 + FREE_WAITS));
    }
}
