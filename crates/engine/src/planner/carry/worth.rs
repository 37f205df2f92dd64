//! Decides whether a ring is worth its memory. Pure functions of bytes.
//!
//! A ring lays arrays side by side that are dropped in the order of their births. If they are dropped in another order, live arrays
//! of different sizes leave gaps. Then the ring takes up to 2.5 × the bytes that are alive in it, and the range's best fit needs
//! only 1.1 to 1.6 ×. So a scope with a ring may reserve only a little more memory than its peak in use. If the ring needs more
//! than that, the scope gives it up, and the range serves the arrays instead. After a while the scope tries a ring again, ever more
//! rarely.

use crate::planner::backoff::Pace;

/// Entries between two looks at how much of a ring is in use. To grow again costs calls. The memory that a key cache needs for one
/// prompt is needed again by the next prompt, after some hundred tokens.
pub(super) const LOOK_IN: u32 = 1024;
/// A scope with a ring may have this share more bytes than its peak in use. The range's best fit wastes as much where sizes vary.
/// With a sixth, a state that grows and begins anew finds no room in its ring, and calls the device in one of 16 entries.
const SHARE: u64 = 4;
/// The ring goes when a request beside it would give the scope this share more. Up to this limit the ring may grow by less than half of a request, since the
/// whole request beside an idle ring would take more.
const MOST: u64 = 3;
/// As `MOST`, where sizes grow: the ring then has room for three arrays if two were in use at once.
const MOST_GROWING: u64 = 2;
/// A scope has far too much if it has this share more than its peak in use. Best fit alone reserves 1.06 times the live peak of
/// recorded runs.
const FAT: u64 = 8;
/// All of these shares are at most 64 MiB, or 1/16 if that is more. A recorded GPT-2, whose forward pass is a scope
/// of its own, has its activations in a ring. With a quarter, it reserved 1.292 times its live memory in a replay, and now 1.072 times.
const MUCH: u64 = 64 << 20;
const SHARE_OF_MUCH: u64 = 16;
/// A page of the device. Each scope may have this much more.
const LITTLE: u64 = 2 << 20;
/// A trial costs the memory of a ring for some entries, and pages that move. After three failed trials, the wait is 2^18 entries.
pub(super) const TRIALS: Pace = Pace { first: 64, factor: 64, longest: 1 << 18 };

/// The most bytes that a scope with a ring may have, if its peak in use is `in_use` and its sizes grow or not.
pub(super) fn most(in_use: u64, grows: bool) -> u64 {
    with_share(in_use, if grows { MOST_GROWING } else { MOST })
}

/// The most bytes that the scope may have after the ring grew for a request.
pub(super) fn room(in_use: u64) -> u64 {
    with_share(in_use, SHARE)
}

/// Whether so many bytes are far more than were ever in use at once.
pub(super) fn is_fat(held: u64, in_use: u64) -> bool {
    held > with_share(in_use, FAT)
}

fn with_share(in_use: u64, share: u64) -> u64 {
    let part = (in_use / share).min((in_use / SHARE_OF_MUCH).max(MUCH));
    in_use.saturating_add(part).saturating_add(LITTLE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::backoff::Backoff;

    #[test]
    fn there_is_room_for_a_page_and_a_share_of_what_is_in_use() {
        assert_eq!((room(0), room(200 << 20)), (LITTLE, (250 << 20) + LITTLE));
        assert_eq!([400, 1600].map(|mib| room(mib << 20)), [464, 1700].map(|mib| (mib << 20) + LITTLE));
        assert_eq!(room(u64::MAX), u64::MAX);
        assert_eq!([false, true].map(|grows| most(90 << 20, grows)), [120, 135].map(|mib| (mib << 20) + LITTLE));
    }

    #[test]
    fn rings_are_tried_ever_more_rarely() {
        let mut trials = Backoff::default();
        let is_tried = |&entry: &u64| {
            let is_over = trials.is_over(entry);
            if is_over {
                trials.tried(entry, TRIALS);
            }
            is_over
        };
        assert_eq!((0..100_000).filter(is_tried).collect::<Vec<_>>(), [0, 64, 4224]);
    }
}
