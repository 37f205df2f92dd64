//! A possible loop: a period at which a window came again, and how well the allocations since then repeat those of a period earlier.

use super::windows::Token;
use crate::entries::Log;

/// The factor by which a size may differ from the one a period earlier. A batch or a text may be four times as long.
const VARIATION: u64 = 4;
/// One allocation in this many may differ, and a few at first, since an iteration may do something more now and then.
const MISSES: u32 = 16;

/// A difference counts as much as this many allocations that do not differ. At a count of [`OFF`], the iterations have another length by
/// now: some sizes still look alike then, one position off.
const MISS: u32 = 2;
const OFF: u32 = 32;

/// A period, and the stretch that repeats at it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) period: u32,
    /// The first allocation that repeats the one a period earlier.
    from: u32,
    misses: u32,
    /// [`MISS`] for each allocation that differed lately, less one for each that did not.
    lately: u32,
    /// How many allocations have to repeat before the loop is looked at.
    pub(super) wanted: u32,
}

/// The allocations of an entry so far, in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Past<'a> {
    pub(super) log: &'a Log,
    pub(super) tokens: &'a [Token],
}

impl Past<'_> {
    /// Whether an allocation may be another one's in another iteration.
    #[inline]
    fn is_like(&self, one: u32, other: u32) -> bool {
        let bytes = |number| self.log.bytes_at(number).unwrap_or(0);
        let (one_bytes, other_bytes) = (bytes(one), bytes(other));
        let is_sized = one_bytes / VARIATION <= other_bytes && other_bytes / VARIATION <= one_bytes;
        is_sized && self.tokens[one as usize].drops() == self.tokens[other as usize].drops()
    }
}

impl Candidate {
    /// A candidate whose window ends with allocation `last`. Looks back as far as the stretch repeats, for at most `most` steps. Returns
    /// the number of steps too.
    pub(super) fn new(past: Past<'_>, last: u32, period: u32, most: u32) -> (Candidate, u32) {
        let farthest = last.saturating_sub(most).max(period);
        let mut from = last + 1;
        while from > farthest && past.is_like(from - 1, from - 1 - period) {
            from -= 1;
        }
        (Candidate { period, from, misses: 0, lately: 0, wanted: period }, last + 1 - from)
    }

    /// Compares the allocation of this number. Returns whether the stretch goes on.
    #[inline]
    pub(super) fn goes_on(&mut self, past: Past<'_>, number: u32) -> bool {
        if past.is_like(number, number - self.period) {
            self.lately = self.lately.saturating_sub(1);
            return true;
        }
        self.misses += 1;
        self.lately += MISS;
        self.misses <= slack(self.run(number)) && self.lately < OFF
    }

    /// The first allocation that was repeated.
    pub(super) fn first(&self) -> u32 {
        self.from - self.period
    }

    /// How many allocations repeat the one a period earlier, up to the one of this number. The first iteration often begins with a few
    /// that differ, since nothing of an earlier iteration was dropped before them.
    pub(super) fn run(&self, number: u32) -> u32 {
        number + 1 - self.from + slack(self.period).min(self.from - self.period)
    }
}

/// How many allocations of an iteration may differ.
fn slack(period: u32) -> u32 {
    period / MISSES + 1
}
