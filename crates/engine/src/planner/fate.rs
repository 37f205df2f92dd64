//! Pure decisions about how an entry went, and what to do with the scope's plans after it.
//!
//! **How a plan is forgotten**, here or elsewhere in this folder:
//!
//! | reason | in |
//! |---|---|
//! | the plan served too many entries badly | here (`Fate::Forget`) |
//! | less memory would do | here (`Fate::ForgetAll`) |
//! | page moves recur | `recurring` (`pause`) |
//! | the plan finds no arena after some entries, and needs more than entries ever had in use | `arena` (`refuse`) |
//! | entries are recorded as a whole | `loops/entries` (`begin_whole_or`), as `loops/whole` decided |
//! | the first cycle ends; an entry begins that has no cycles, behind one that had; or cycles are those of a loop inside of longer ones | `cycles` |
//! | a loop of the same length with other sizes was found, or a loop around the known one | `loops` (`learn_loop`) |
//! | entries go on on another stream, and no entry followed a plan lately | `ending` (`learn_plan`) |
//! | a ninth order comes: it replaces the plan that entries followed longest ago | `plans` (`add`) |
//! | a partial plan, beside which whole entries have orders that come again | `ending` (`learn_order`) |
//! | an invalidation, or another call of `Planner::forget` | `arena` (`forget`) |
//! | the cache gets another name | `cache/local` (`reset`) |

use crate::home::Deviations;

/// The counts of an entry that a plan could have served.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Course {
    /// Allocations that the plan served.
    pub(super) served: u64,
    pub(super) seen: Deviations,
    /// Whether the plan served the entry to its end.
    pub(super) is_served_through: bool,
    /// Whether the entry left out many positions of a partial plan.
    pub(super) is_off: bool,
}

/// If more than one of this many allocations deviated, the following entries are worth recording. Rarer deviations cost less than
/// the recording.
const CURIOUS: u64 = 1024;
/// A plan serves an entry well if at most one of this many allocations went beside it. With more, the range's own best fit reserves
/// less.
pub(super) const BESIDE: u64 = 8;
/// An entry that leaves out more than this share, 1/4, of a partial plan's positions is another one, or the plan lost its position.
pub(super) const LEFT_OUT: u64 = 4;

impl Course {
    /// Whether the entry had an allocation that a plan served or should have served.
    pub(super) fn is_telling(&self) -> bool {
        let Deviations { extra, blocked, larger, .. } = self.seen;
        self.served + extra + blocked + larger > 0
    }

    /// Whether the plan was the right one. Larger allocations came in order, and will fit the next time.
    pub(super) fn goes_by_plan(&self) -> bool {
        let Deviations { extra, blocked, larger, .. } = self.seen;
        let beside = extra + blocked;
        let is_mostly_planned = beside * BESIDE <= self.served + larger + beside;
        is_mostly_planned && !self.is_off && (self.is_served_through || larger > beside)
    }

    /// Whether everything went as planned.
    pub(super) fn is_plain(&self) -> bool {
        self.goes_by_plan() && self.odd() + self.seen.larger == 0
    }

    /// Whether the entry had more than a few deviations.
    pub(super) fn has_deviated(&self) -> bool {
        !self.goes_by_plan() || self.odd() * CURIOUS > self.served || self.seen.larger > 0
    }

    /// Allocations that came in another order than planned.
    fn odd(&self) -> u64 {
        self.seen.extra + self.seen.blocked + self.seen.reordered
    }
}

/// The future of the plans and their arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Keep,
    /// Forget the active plan: it served too many entries badly.
    Forget,
    /// Forget all plans at once, since less memory will do and the arena is as large as the highest plan.
    ForgetAll,
    /// Keep the plans and give the arena up, so that a new layout can be made. Arrays that are alive in the arena keep their own
    /// memory.
    Vacate,
    /// As `Vacate`, because arrays that outlived their entry are in the way of the plan. Done ever more rarely.
    Evict,
}

/// The findings after an entry, which decide the fate of the plans.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Findings {
    /// Whether the active plan lately served more entries badly than well.
    pub(super) is_of_no_use: bool,
    /// Whether the arena is larger than necessary.
    pub(super) is_too_much: bool,
    /// Whether the active plan has to hold more than it was laid out for.
    pub(super) is_outgrown: bool,
    /// Bytes that are alive in the arena after the end of the entry.
    pub(super) live: u64,
    /// Bytes of an arena that holds all plans.
    pub(super) bytes: u64,
    /// Allocations that the ring served because something alive was in their place.
    pub(super) displaced: u64,
    pub(super) course: Course,
}

/// Arrays that outlived their entry are evicted once they fill more than this share of the arena, or block more than this share of
/// the served allocations. Below that, they cost less than a new arena.
const ESCAPED: u64 = 64;

impl Findings {
    pub(super) fn fate(&self) -> Fate {
        let Findings { live, bytes, displaced, course, .. } = *self;
        let is_in_the_way = live > bytes / ESCAPED || (course.seen.blocked + displaced) * ESCAPED > course.served;
        match self {
            Findings { is_of_no_use: true, .. } => Fate::Forget,
            Findings { is_too_much: true, .. } => Fate::ForgetAll,
            Findings { live: 0, .. } => Fate::Keep,
            Findings { is_outgrown: true, .. } => Fate::Vacate,
            _ if is_in_the_way => Fate::Evict,
            _ => Fate::Keep,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(served: u64, [extra, blocked, larger]: [u64; 3], is_served_through: bool) -> Course {
        Course {
            served,
            seen: Deviations { extra, blocked, larger, ..Deviations::default() },
            is_served_through,
            is_off: false,
        }
    }

    #[test]
    fn an_entry_goes_by_its_plan_or_not() {
        // Each row: served, beside the plan (extra, blocked, larger), served to its end; then: goes by plan, plain, deviated.
        let table = [
            (course(100, [0, 0, 0], true), (true, true, false)),
            (course(100, [0, 0, 0], false), (false, false, true)),
            (course(2048, [1, 0, 0], true), (true, false, false)),
            (course(100, [1, 0, 0], true), (true, false, true)),
            (course(70, [5, 5, 0], true), (true, false, true)),
            (course(69, [5, 5, 0], true), (false, false, true)),
            (course(0, [0, 0, 1], true), (true, false, true)),
            (course(0, [0, 0, 3], false), (true, false, true)),
            (course(9, [1, 0, 1], false), (false, false, true)),
        ];
        for (course, expected) in table {
            assert_eq!((course.goes_by_plan(), course.is_plain(), course.has_deviated()), expected, "{course:?}");
            assert!(course.is_telling());
        }
        assert!(!course(0, [0, 0, 0], true).is_telling());
    }

    #[test]
    fn plans_meet_their_fate() {
        let bytes = 6400;
        let well = course(640, [0, 0, 0], true);
        let blocked = course(640, [0, 11, 0], true);
        let known = |live, is_outgrown, course| Findings { live, is_outgrown, bytes, course, ..Findings::default() };
        let table = [
            (known(0, false, well), Fate::Keep),
            (known(0, true, blocked), Fate::Keep),
            (known(100, false, well), Fate::Keep),
            (known(101, false, well), Fate::Evict),
            (known(1, false, blocked), Fate::Evict),
            (known(1, true, well), Fate::Vacate),
            (known(101, true, blocked), Fate::Vacate),
            (Findings { is_too_much: true, ..known(101, true, blocked) }, Fate::ForgetAll),
            (Findings { is_too_much: true, ..known(0, false, well) }, Fate::ForgetAll),
            (Findings { is_of_no_use: true, ..known(0, false, well) }, Fate::Forget),
            (Findings { is_of_no_use: true, is_too_much: true, ..known(101, true, blocked) }, Fate::Forget),
        ];
        for (findings, fate) in table {
            assert_eq!(findings.fate(), fate, "{findings:?}");
        }
    }
}
