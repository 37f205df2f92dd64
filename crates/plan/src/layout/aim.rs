//! Chooses the next target height. The lowest possible height comes first. If it fails too often, the next target lies halfway to
//! the best known height. Each new round allows more attempts per target.

/// Targets for one method, in rounds: the lowest target first, then bisection between failed targets and the best height.
#[derive(Clone, Debug)]
pub(super) struct Aim {
    /// Failed attempts after which a target counts as too low: the initial number, and the current one.
    least_patience: u32,
    patience: u32,
    /// Attempts left at the current target.
    left: u32,
    target: u64,
    /// The highest target that failed in this round.
    failed: Option<u64>,
}

/// A round ends when bisection has narrowed the gap to this fraction of the whole, after four halvings. Another try at the lowest
/// target, with more attempts, is worth more than a fifth halving.
const FINEST: u64 = 16;

impl Aim {
    pub(super) fn new(patience: u32) -> Self {
        Self { least_patience: patience, patience, left: 0, target: 0, failed: None }
    }

    /// The current target.
    #[cfg(feature = "exact")]
    pub(super) fn target(&self) -> u64 {
        self.target
    }

    /// The target of the next attempt: at least `low` and below `height`. All three are multiples of `grain`.
    pub(super) fn next(&mut self, low: u64, height: u64, grain: u64) -> u64 {
        if self.left > 0 && (low..height).contains(&self.target) {
            return self.target;
        }
        let finest = ((height - low) / FINEST).max(grain);
        self.target = match self.failed.map(|failed| failed.max(low)) {
            Some(failed) if failed < height && height - failed > finest => {
                failed + (height - failed) / 2 / grain * grain
            }
            Some(_) => {
                self.failed = None;
                self.patience = self.patience.saturating_mul(2);
                low
            }
            None => low,
        };
        self.left = self.patience;
        self.target
    }

    /// Notes whether the attempt at the target found a layout.
    pub(super) fn report(&mut self, found: bool) {
        self.left = if found { 0 } else { self.left.saturating_sub(1) };
        if found {
            self.patience = self.least_patience;
        } else if self.left == 0 {
            self.failed = Some(self.target);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bisects_and_then_starts_over_with_more_patience() {
        let mut aim = Aim::new(1);
        let mut fail = |low, height| {
            let target = aim.next(low, height, 10);
            aim.report(false);
            target
        };
        let targets: Vec<u64> = (0..9).map(|_| fail(100, 500)).collect();
        assert_eq!(targets, [100, 300, 400, 450, 470, 480, 100, 100, 300]);
    }

    #[test]
    fn bisects_downwards_after_success() {
        let mut aim = Aim::new(1);
        assert_eq!(aim.next(0, 64, 1), 0);
        aim.report(false);
        assert_eq!(aim.next(0, 64, 1), 32);
        aim.report(true);
        assert_eq!(aim.next(0, 30, 1), 15);
    }

    #[test]
    fn stays_below_the_height() {
        for height in 1..40 {
            let mut aim = Aim::new(1);
            for round in 0..50 {
                assert!(aim.next(0, height, 1) < height);
                aim.report(round % 7 == 3);
            }
        }
    }
}
