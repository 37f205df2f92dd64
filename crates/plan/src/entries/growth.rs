//! Finds sizes that grow by the same step from entry to entry, as those of a text do that gets longer by one token each time.

use super::log::Log;

/// The sizes of the last recorded entry, and by how much each of them grew.
#[derive(Debug, Default)]
pub struct Growth {
    positions: Vec<Size>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Size {
    bytes: u64,
    /// By how many bytes it is larger than in the entry before.
    step: u64,
    /// In how many consecutive entries it grew by this step.
    times: u32,
}

/// After this many equal steps a size counts as growing. Sizes that vary at random sometimes grow by two equal steps, but not by three.
const REGULAR: u32 = 3;

impl Growth {
    /// Takes note of an entry that was recorded as a whole.
    pub fn observe(&mut self, log: &Log) {
        if !log.is_behind_one_as_long() || self.positions.len() != log.allocations().len() {
            self.positions.clear();
            self.positions.resize(log.allocations().len(), Size::default());
        }
        for (size, logged) in self.positions.iter_mut().zip(log.allocations()) {
            *size = size.followed_by(logged.bytes);
        }
    }

    /// The positions that grow, with their steps.
    pub(super) fn steps(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let is_growing = |(_, size): &(usize, &Size)| size.times >= REGULAR;
        self.positions.iter().enumerate().filter(is_growing).map(|(position, size)| (position, size.step))
    }
}

impl Size {
    fn followed_by(self, bytes: u64) -> Size {
        let step = if self.bytes > 0 { bytes.saturating_sub(self.bytes) } else { 0 };
        let times = match step {
            0 => 0,
            _ if step == self.step => self.times.saturating_add(1),
            _ => 1,
        };
        Size { bytes, step, times }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The positions that grow after consecutive entries of these sizes.
    fn growing<const N: usize>(entries: &[[u64; N]]) -> Vec<(usize, u64)> {
        let (mut growth, mut log) = (Growth::default(), Log::default());
        for sizes in entries {
            log.begin_entry(Some(log.len()).filter(|&len| len > 0));
            log.begin(1);
            sizes.iter().for_each(|&bytes| assert!(log.allocated(1, bytes).is_some()));
            growth.observe(&log);
        }
        growth.steps().collect()
    }

    #[test]
    fn what_grows_by_equal_steps_is_growing() {
        assert_eq!(growing(&[[7, 10], [7, 14], [7, 18]]), []);
        assert_eq!(growing(&[[7, 10], [7, 14], [7, 18], [7, 22]]), [(1, 4)]);
        assert_eq!(growing(&[[1, 1], [2, 9], [3, 17], [4, 25], [5, 33]]), [(0, 1), (1, 8)]);
    }

    #[test]
    fn what_grows_otherwise_or_no_more_is_not() {
        assert_eq!(growing(&[[1], [2], [4], [8], [16], [32]]), [], "by other steps");
        assert_eq!(growing(&[[9], [8], [7], [6], [5]]), [], "it shrinks");
        assert_eq!(growing(&[[1], [2], [3], [4], [4]]), [], "it stays");
        assert_eq!(growing(&[[1], [2], [3], [4], [1], [2], [3]]), [], "it began anew");
    }

    #[test]
    fn entries_of_another_length_or_unknown_ones_between_begin_anew() {
        let (mut growth, mut log) = (Growth::default(), Log::default());
        for (before, bytes) in [(None, 1), (Some(1), 2), (Some(1), 3), (None, 4), (Some(2), 5), (Some(1), 6)] {
            log.begin_entry(before);
            assert!(log.allocated(0, bytes).is_some());
            growth.observe(&log);
            assert_eq!(growth.steps().count(), 0);
        }
    }
}
