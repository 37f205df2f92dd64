//! How much the range may reserve for an arena: pure functions.

use crate::base::amounts::total;

/// For an arena that no other way finds, the range may reserve more than its peak, by this share or by some pages. A scope that goes
/// without a plan for good costs more: without a plan, a range reserves a tenth more than is alive.
const SLACK: u64 = 16;
/// Arrays that stay alive take a page each from an arena that begins or ends beside them. Four pages for an arena that is known to be needed had
/// two effects. Made-up programs with a scope around the step were planned for 0.8 points more, and reserved 0.09 points more. A program with a
/// new ring reserved 1.256 times as much as the range alone.
const PAGES: u64 = 2;
/// The range may reserve this share more than is known to be needed, and some pages: as much as an order may exceed its largest entry. The
/// second share is for an arena that is known to be needed, and for sizes that grow from entry to entry. Without these limits, a mixture
/// of experts, whose sizes change with its data, reserved more memory from step to step.
const BEYOND: u64 = 32;
const BEYOND_KNOWN: u64 = 16;
/// An arena counts as known to be needed up to this share more: other scopes' live memory varies by a little.
const KNOWN_SLACK: u64 = 64;
/// For an arena of graphs, the range grows up to this share more than the arena and the live memory: a page seldom ends where they do.
const FOR_A_GRAPH: u64 = 64;

/// A scope whose entries need this share less than its own peak in use has that peak when others already dropped what they had. In ten recorded
/// trainings, the forward and the backward pass are scopes of their own. With this rule they reserved 1.066 instead of 1.159 times their live
/// memory. Plans served 0.43 instead of 0.58 of their allocations. With 1/4, it was 1.079 times and 0.45. Rings have other limits since then
/// (`carry/worth`).
const FAR: u64 = 8;

/// The need of a scope's entries beyond what others have in use when they begin. The scope had `peak` bytes in use at once, and entries needed at
/// most `rise` more than others had, where that is known.
pub(super) fn own_need(peak: u64, rise: Option<u64>) -> u64 {
    rise.filter(|&rise| rise < peak - peak / FAR).unwrap_or(peak)
}

/// The need of an arena, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Need {
    /// The arena, and what is in use beside it.
    pub(super) needed: u64,
    /// The bytes that the scope needs at once ([`own_need`]), and those in use beside it.
    pub(super) known: u64,
    /// The bytes that the range reserves now, and the most that it ever reserved.
    pub(super) reserved: u64,
    pub(super) peak_reserved: u64,
    /// The size of a page.
    pub(super) page: u64,
    /// Whether sizes grow from entry to entry.
    pub(super) grows: bool,
    /// Whether no other way found the arena, so that the range may grow beyond its peak.
    pub(super) may_grow: bool,
}

impl Need {
    /// The most bytes that the range may reserve for the arena.
    pub(super) fn most(&self) -> u64 {
        let Need { known, reserved, peak_reserved, grows, .. } = *self;
        let is_known = self.is_known();
        let share = known / if grows || is_known { BEYOND_KNOWN } else { BEYOND };
        let bound = total([known, share, self.pages()]);
        let peak = peak_reserved.saturating_add(self.slack());
        peak.max(if is_known { bound } else { 0 }).min(bound).max(reserved)
    }

    /// The most bytes that the range may reserve for an arena of graphs.
    pub(super) fn most_for_a_graph(&self) -> u64 {
        self.most().max(total([self.needed, self.needed / FOR_A_GRAPH, self.pages()]))
    }

    /// Whether as much was in use before.
    fn is_known(&self) -> bool {
        self.needed <= self.known.saturating_add(self.known / KNOWN_SLACK)
    }

    fn pages(&self) -> u64 {
        self.page.saturating_mul(PAGES)
    }

    fn slack(&self) -> u64 {
        if self.may_grow { (self.peak_reserved / SLACK).max(self.pages()) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 100;

    fn need(needed: u64, known: u64, peak_reserved: u64, may_grow: bool) -> Need {
        Need { needed, known, reserved: 0, peak_reserved, page: PAGE, grows: false, may_grow }
    }

    #[test]
    fn what_was_in_use_before_may_be_reserved_again_with_some_pages() {
        assert_eq!(need(6400, 6400, 6000, false).most(), 6400 + 400 + 2 * PAGE);
        assert_eq!(need(6400, 6400, 6000, true).most(), 6400 + 400 + 2 * PAGE);
        assert_eq!(need(640, 640, 640, true).most(), 640 + 40 + 2 * PAGE);
    }

    #[test]
    fn a_peak_that_comes_when_others_dropped_theirs_is_not_added_to_what_they_have() {
        assert_eq!([None, Some(350), Some(349), Some(0)].map(|rise| own_need(400, rise)), [400, 400, 349, 0]);
        assert_eq!(own_need(0, Some(0)), 0);
    }

    #[test]
    fn more_than_was_in_use_before_only_replaces_what_was_reserved() {
        assert_eq!(need(9000, 6400, 6500, false).most(), 6500);
        assert_eq!(need(9000, 6400, 6500, true).most(), 6400 + 200 + 2 * PAGE);
        assert_eq!(need(9000, 6400, 6500, true).most_for_a_graph(), 9000 + 9000 / 64 + 2 * PAGE);
    }
}
