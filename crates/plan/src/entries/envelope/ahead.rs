//! Room for sizes that were not seen yet. Sizes that grow by a step in each entry are laid out for entries to come, each time for
//! twice as many. So a text of n tokens needs about log n layouts.

use super::{Envelope, Expected, VARIATION, are_plannable, bound};
use crate::entries::growth::Growth;

/// Sizes that vary may exceed all before by this share and still be their position's. Otherwise such a request was taken for a neighbour whose
/// sizes reach as far, and the rest of the entry lost its places: a made-up language model without a scope reserved 1.086 times its live
/// memory, and 1.011 now. The share is chosen, not measured.
const BEYOND: u64 = 64;

/// After so many further entries, the first sizes have shown whether they tell the others. The number was chosen, not measured.
const SHOWN_BY: u32 = 4;
/// The first number of entries by which growing sizes are laid out ahead: as many as it takes to see that they grow.
const FIRST: u64 = 4;

impl Envelope {
    /// Learns which positions grow. They may begin small again, with the size of one step, when another text begins.
    pub fn note_growth(&mut self, growth: &Growth) {
        if self.awaits_first(growth) {
            return;
        }
        for (position, step) in growth.steps() {
            let Some(expected) = self.positions.get_mut(position) else { continue };
            self.is_overtaken |= !expected.grows();
            expected.step = step;
            expected.least = expected.least.min(step);
        }
    }

    /// Whether the first allocation of the next entry tells how far its sizes have grown, or may turn out to. Then no place need be larger
    /// than its entry. Of entries whose arrays outlive them, such as the tokens of a text, there are too many for a layout each.
    fn awaits_first(&self, growth: &Growth) -> bool {
        let may_tell = self.is_told_by_first.unwrap_or(self.changes < SHOWN_BY);
        let grows_first = growth.steps().any(|(position, _)| position == 0);
        let [within, beyond] = [true, false].map(|is_planned| {
            let grown = growth
                .steps()
                .filter(|&(position, _)| self.at(position).is_some_and(|one| one.is_planned() == is_planned));
            grown.fold(0, |sum: u64, (_, step)| sum.saturating_add(step))
        });
        may_tell && grows_first && within >= beyond
    }

    /// Whether it is laid out ahead for growing positions.
    pub fn grows(&self) -> bool {
        self.entries_ahead > 0
    }

    /// Whether a growing position was larger than expected. The others soon will be.
    pub fn is_overtaken(&self) -> bool {
        self.is_overtaken
    }

    /// Lays growing positions out further ahead, if one of them was larger than expected. All of them get room for twice as many steps
    /// as the last time. This adds at most `most` bytes that are in use at once, or one step if that is more.
    pub fn go_ahead(&mut self, most: u64) {
        if !std::mem::take(&mut self.is_overtaken) {
            return;
        }
        let steps = self.positions.iter().map(|expected| Expected { most: expected.step, ..*expected });
        // A position without a place grows as well: its largest step counts.
        let largest = steps.clone().map(|expected| expected.most).max().unwrap_or(0);
        let step = bound(steps).max(largest).max(1);
        let entries = (2 * self.entries_ahead).max(FIRST).min(most / step).max(1);
        self.entries_ahead = entries;
        let ahead = |expected: &Expected| expected.most.saturating_add(expected.step.saturating_mul(entries));
        if !are_plannable(self.positions.iter().map(ahead)) {
            return;
        }
        for expected in &mut self.positions {
            expected.most = ahead(expected);
        }
    }
}

impl Expected {
    /// Whether the position is known to grow, and will have this many bytes in an entry to come. Without this check, a request that
    /// outgrew its place could be taken for a larger neighbour.
    pub(in crate::entries) fn grows_to(&self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.most);
        more > 0 && more.checked_rem(self.step) == Some(0) && bytes / VARIATION <= self.most
    }

    /// Whether the bytes are a little more than all that were seen at this position, where they vary.
    pub(in crate::entries) fn outgrows(&self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.most);
        more > 0 && more <= self.most / BEYOND && self.varies()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entries::log::Log;

    /// An entry of two arrays that live at once and one that outlives it. The first array always has the same size; each of the others
    /// grows by a step.
    fn entry(log: &mut Log, number: u64) {
        log.begin_entry(Some(log.len()).filter(|&len| len > 0));
        for bytes in [100_000, 512 * number, 64 * number] {
            assert!(log.allocated(0, bytes).is_some());
        }
        log.dropped(0);
        log.dropped(1);
    }

    fn grown(entries: u64) -> Envelope {
        let (mut log, mut growth) = (Log::default(), Growth::default());
        (1..=entries).for_each(|number| {
            entry(&mut log, number);
            growth.observe(&log);
        });
        let mut envelope = Envelope::of(&log, &log).unwrap();
        envelope.note_growth(&growth);
        envelope
    }

    fn most(envelope: &Envelope) -> [u64; 3] {
        [0, 1, 2].map(|position| envelope.at(position).unwrap().most)
    }

    #[test]
    fn what_grows_is_laid_out_for_twice_as_many_entries_each_time() {
        let mut envelope = grown(4);
        let mut seen = Vec::new();
        for _ in 0..4 {
            assert!(envelope.is_overtaken());
            envelope.go_ahead(u64::MAX);
            assert!(envelope.grows() && !envelope.is_overtaken());
            let [same, entries, kept] = most(&envelope);
            assert_eq!((same, kept), (100_000, 64 * [8, 16, 32, 64][seen.len()]));
            seen.push(entries / 512);
            envelope.go_ahead(u64::MAX);
            assert_eq!(most(&envelope)[1], entries, "nothing is overtaken");
            envelope.widen(1, entries + 512);
        }
        assert_eq!(seen, [8, 17, 34, 67], "by 4, 8, 16 and 32");
        assert_eq!(envelope.at(1).unwrap().least, 512, "as another text begins");
    }

    #[test]
    fn no_more_than_a_bound_is_in_use_ahead_but_for_one_step() {
        for (most_bytes, entries) in [(0, 1), (512, 1), (1024, 2), (3 * 512 - 1, 2), (1 << 20, 4)] {
            let mut envelope = grown(4);
            envelope.go_ahead(most_bytes);
            assert_eq!(most(&envelope)[1], (4 + entries) * 512, "{most_bytes} bytes");
        }
    }

    #[test]
    fn what_does_not_grow_has_no_places_ahead() {
        let mut envelope = grown(3);
        envelope.go_ahead(u64::MAX);
        assert!(!envelope.grows());
        assert_eq!(most(&envelope), [100_000, 3 * 512, 3 * 64]);
        assert!(!envelope.at(1).unwrap().grows_to(4 * 512));
    }

    #[test]
    fn sizes_to_come_are_larger_by_steps() {
        let envelope = grown(4);
        let expected = envelope.at(1).unwrap();
        for (bytes, is_to_come) in
            [(4 * 512, false), (5 * 512, true), (6 * 512, true), (5 * 512 + 1, false), (1 << 20, false)]
        {
            assert_eq!(expected.grows_to(bytes), is_to_come, "{bytes} bytes");
        }
    }

    #[test]
    fn an_entry_that_is_larger_overtakes() {
        let (mut envelope, mut log) = (grown(4), Log::default());
        envelope.go_ahead(512);
        (1..=5).for_each(|number| entry(&mut log, number));
        let known = envelope.absorb(&log).unwrap();
        assert!(!known.is_overtaken() && known.grows());
        entry(&mut log, 6);
        assert!(known.absorb(&log).unwrap().is_overtaken());
    }
}
