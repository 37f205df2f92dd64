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

/// The waits that so many frees, of so many bytes, allow.
pub(super) fn earned(frees: u64, freed: u64) -> u64 {
    frees / FREES_PER_WAIT + freed / FREED_PER_WAIT
}

impl Waits {
    /// Whether the range has waited too often, and for too long, to wait once more. `elapsed` is the time since it began.
    pub(super) fn are_too_many(self, peak_live: u64, earned: u64, elapsed: Duration) -> bool {
        let are_too_long = self.took > elapsed / SHARE_OF_TIME;
        are_too_long && self.at(peak_live, earned).times >= FREE_WAITS.saturating_add(earned)
    }

    /// Counts a wait that took so long.
    pub(super) fn count(&mut self, peak_live: u64, earned: u64, took: Duration) {
        let Waits { times, mark, .. } = self.at(peak_live, earned);
        *self = Waits { times: times + 1, mark, took: self.took.saturating_add(took) };
    }

    /// The waits that count for work with this peak of live memory.
    fn at(self, peak_live: u64, earned: u64) -> Waits {
        match is_other_work(peak_live, self.mark) {
            true => Waits { times: self.times.min(earned), mark: peak_live, ..self },
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
        let mut count = 0;
        while !waits.are_too_many(peak_live, earned, SECOND) {
            waits.count(peak_live, earned, SECOND);
            count += 1;
        }
        count
    }

    #[test]
    fn frees_and_freed_bytes_allow_more_waits() {
        let mut waits = Waits::default();
        assert_eq!(wait_all(&mut waits, 1000, 0), FREE_WAITS);
        assert_eq!(wait_all(&mut waits, 1000, 3), 3);
        let are_too_many = |freed| waits.are_too_many(1000, super::earned(4 * FREES_PER_WAIT - 1, freed), SECOND);
        assert!(are_too_many(FREED_PER_WAIT - 1) && !are_too_many(FREED_PER_WAIT));
    }

    #[test]
    fn short_waits_are_always_allowed() {
        let mut waits = Waits::default();
        wait_all(&mut waits, 1000, 0);
        let took = SECOND * FREE_WAITS as u32;
        assert!(waits.are_too_many(1000, 0, took * SHARE_OF_TIME - SECOND));
        assert!(!waits.are_too_many(1000, 0, took * SHARE_OF_TIME));
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
