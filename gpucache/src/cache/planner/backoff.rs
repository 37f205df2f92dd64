//! What may be tried again, but ever more rarely while it comes to nothing.

/// Entries to go before something is done again, `FACTOR` times as many each time.
#[derive(Default)]
pub(super) struct Backoff<const FACTOR: u32> {
    not_before: u32,
    last_wait: u32,
    /// The entry in which it was done last.
    pub(super) last: u32,
}

/// The longest wait, in entries.
pub(super) const LONGEST_WAIT: u32 = 4095;

impl<const FACTOR: u32> Backoff<FACTOR> {
    /// Whether it may be done in this entry; if so, it is.
    pub(super) fn is_over(&mut self, entry: u32) -> bool {
        let is_over = entry >= self.not_before;
        if is_over {
            self.wait(entry);
        }
        is_over
    }

    /// How long it is to wait the next time when it is done in this entry. What comes rarely need not wait long.
    pub(super) fn wait(&mut self, entry: u32) -> u32 {
        let is_rare = entry.saturating_sub(self.not_before) > FACTOR * (self.last_wait / 2 + 2);
        self.last_wait = if is_rare { 1 } else { LONGEST_WAIT.min(FACTOR * self.last_wait + 1) };
        self.not_before = entry.saturating_add(self.last_wait);
        self.last = entry;
        self.last_wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_all_the_time_is_done_ever_more_rarely() {
        let mut backoff = Backoff::<2>::default();
        let done: Vec<u32> = (0..100).filter(|&entry| backoff.is_over(entry)).collect();
        assert_eq!(done, [0, 1, 4, 11, 26, 57]);
    }

    #[test]
    fn what_comes_rarely_is_done_each_time() {
        let mut backoff = Backoff::<2>::default();
        assert!((0..800).step_by(8).all(|entry| backoff.is_over(entry)));
    }
}
