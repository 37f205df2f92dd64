//! When to look at a range for memory that no scope needs.

use super::backoff::{Backoff, NOT_EARLY, Pace};
use super::needs::Needs;

/// When to look at a range that may reserve more than the scopes need.
#[derive(Default)]
pub(super) struct Trimming {
    /// Entries that went by the plan. Only they show that the arena is enough, and the waits count only them. While there is spare
    /// memory, all entries count.
    entries: u64,
    /// How many of the latest entries went by the plan, all in a row.
    in_a_row: u32,
    /// How many of these entries came before this arena.
    before: u64,
    /// The bytes of this arena.
    bytes: u64,
    waits: Backoff,
    /// How many looks are left since a ring came, a ring or the last plan was given up, or the range had no arena. These looks need no
    /// arena.
    spare_looks: u32,
    /// The entry from which looks follow because of a new ring.
    ring_look: Option<u64>,
    /// How many times in a row an arena of the same size was lost early.
    losses: u32,
    /// The range's count of frees at the last look.
    pub(super) frees: Option<u64>,
    /// How often the scope had taken memory from the device at the last look.
    taken: u64,
    /// The bytes that the range still reserved beyond all needs after the last look, since blocks lie in each of their pages.
    spare: u64,
    needs: Needs,
}

/// A look at the range: its count of frees, its spare bytes, and the bytes that it reserved before and after the look.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Look {
    pub(crate) frees: u64,
    pub(crate) spare: u64,
    pub(crate) before: u64,
    pub(crate) after: u64,
}

/// A scope that still learns loses fewer arenas in a row. But a scope where a random third of 32 arrays outlives each entry loses
/// more than 16.
const MANY_LOSSES: u32 = 128;
/// How many looks at the range follow without an arena. They spread over 15 entries; with more trims, a range without a plan grows
/// again.
const SPARE_LOOKS: u32 = 4;
/// So many entries by the plan in a row show that later ones will go by it. With three, a recorded server of answers took 3,041 instead of 2,170
/// calls: the memory around its steps went, and most steps needed it again.
const STEADY: u32 = 4;
/// The range is looked at again when a new ring has served for so many entries. With 32, a state that grows for 50 entries and begins again
/// gave its ring up for good. With 256, two of seven programs that had kept pages of older arrays still reserved 1.3 × what the range alone
/// needs; with 128 they reserve 1.2 ×.
const RING_LOOK: u64 = 128;

impl Trimming {
    /// Notes that an arena of `bytes` bytes was found. At most `in_use` bytes were in use without it since the last look. `taken` says how often
    /// memory was taken from the device for the scope so far. The next look comes soon, unless the same arena is lost early again and again, for example to a scope around this one.
    pub(super) fn renew(&mut self, bytes: u64, in_use: u64, taken: u64) {
        let was_lost_early = bytes == self.bytes && self.entries - self.before < NOT_EARLY;
        self.losses = if was_lost_early { self.losses.saturating_add(1) } else { 0 };
        self.spare_looks = 0;
        self.needs.begin(self.entries, in_use);
        self.look_soon(taken);
        (self.bytes, self.before) = (bytes, self.entries);
    }

    /// Notes that the range may reserve more than is needed: a ring came, a ring or the last plan was given up, or there is no arena.
    pub(super) fn note_spare(&mut self, taken: u64) {
        self.spare_looks = SPARE_LOOKS;
        self.look_soon(taken);
    }

    /// Notes that a ring came in this entry. Arrays that were served before lie elsewhere, and leave gaps in the range as they are dropped.
    /// Most of them are dropped soon, and some much later.
    pub(super) fn note_ring(&mut self, entry: u64, taken: u64) {
        self.note_spare(taken);
        self.ring_look = Some(entry.saturating_add(RING_LOOK));
    }

    /// The spare bytes at the last look. Beside a new ring they say nothing, since they may be needed until the ring has its size.
    pub(super) fn spare(&self) -> u64 {
        if self.ring_look.is_some() { 0 } else { self.spare }
    }

    /// Notes that an entry with the ring ends.
    pub(super) fn end_with_ring(&mut self, entry: u64, taken: u64) {
        if self.ring_look.take_if(|look| entry >= *look).is_some() {
            self.note_spare(taken);
        }
    }

    fn look_soon(&mut self, taken: u64) {
        if self.losses < MANY_LOSSES {
            (self.waits, self.frees, self.taken) = (Backoff::default(), None, taken);
        }
    }

    /// Whether to look at the range although no plan serves.
    pub(super) fn has_spare(&self) -> bool {
        self.spare_looks > 0
    }

    /// Counts an entry that went by the plan. Returns whether a look at the range is due now.
    pub(super) fn is_due(&mut self) -> bool {
        self.entries = self.entries.saturating_add(1);
        self.waits.is_over(self.entries)
    }

    /// Counts an entry that launches a graph, unless a look is due after it. An entry with a look is counted at its end.
    pub(super) fn passes(&mut self) -> bool {
        let next = self.entries.saturating_add(1);
        let is_due = self.waits.is_over(next);
        if !is_due {
            self.entries = next;
        }
        !is_due
    }

    /// Notes whether an entry went by the plan.
    pub(super) fn note_entry(&mut self, goes_by_plan: bool) {
        self.in_a_row = if goes_by_plan { self.in_a_row.saturating_add(1) } else { 0 };
    }

    /// Whether the latest entries went by the plan.
    pub(super) fn is_steady(&self) -> bool {
        self.in_a_row >= STEADY
    }

    /// Notes a look at the range. The next look comes later, and much later if the range has grown since the last look.
    pub(super) fn looked(&mut self, look: Look, taken: u64) {
        self.needs.gave_back(look.before, look.after);
        let has_grown = std::mem::replace(&mut self.taken, taken) != taken;
        self.spare_looks = self.spare_looks.saturating_sub(1);
        // The wait begins with the next entry.
        self.waits.tried(self.entries.saturating_add(1), if has_grown { Pace::STEEP } else { Pace::DOUBLING });
        (self.frees, self.spare) = (Some(look.frees), look.spare);
    }

    /// Forgets what the scope needed between arenas.
    pub(super) fn forget_needs(&mut self) {
        self.needs = Needs::default();
    }

    /// Begins a look at a range that reserves `reserved` bytes. At most `in_use` bytes were in use since the last look or arena. Returns how
    /// many bytes the scope is likely to have in use at once again.
    pub(super) fn look(&mut self, in_use: u64, reserved: u64) -> u64 {
        self.needs.note(self.entries, in_use);
        self.needs.look(reserved)
    }
}

#[cfg(test)]
mod tests {
    use super::{Look, MANY_LOSSES, Trimming};

    /// The entries, of the first 1,000, after which the range is looked at, if a new arena is found every `arena` entries.
    fn looks(arena: u64) -> Vec<u64> {
        let mut trimming = Trimming::default();
        let looks = (0..1000).filter(|entry| {
            if entry % arena == 0 {
                trimming.renew(100, 0, 0);
            }
            let is_due = trimming.is_due();
            if is_due {
                trimming.looked(Look::default(), 0);
            }
            is_due
        });
        looks.collect()
    }

    #[test]
    fn a_look_is_soon_after_an_arena_that_stays_and_rare_where_arenas_come_and_go() {
        assert_eq!(looks(1000), [0, 2, 6, 14, 30, 62, 126, 254, 510]);
        let late = looks(1).into_iter().filter(|&entry| entry > u64::from(MANY_LOSSES)).count();
        assert!(late < 10, "{late} looks where each entry has an arena of its own");
        assert_eq!(looks(500), [0, 2, 6, 14, 30, 62, 126, 254, 500, 502, 506, 514, 530, 562, 626, 754]);
        let mut trimming = Trimming::default();
        for bytes in 1..10 {
            trimming.renew(bytes, 0, 0);
            assert!(trimming.is_due(), "another arena");
            trimming.looked(Look::default(), 0);
            assert!(!trimming.is_due());
        }
    }
}
