//! Schedules of random orders are valid in a naive model, and bounds are never above the optimum.

use proptest::prelude::*;

use super::check::{check, moved};
use super::optimum::{lower_bound, optimum};
use crate::offload::early::Times;
use crate::offload::gaps::Gaps;
use crate::offload::keep;
use crate::offload::packing::Packing;
use crate::offload::types::MOST_BYTES;
use crate::offload::{Access, Link, Offsets, Order, Schedule, Use, What};

/// Orders whose uses hold their arrays for a while, at random times.
fn orders(arrays: usize, uses: usize) -> impl Strategy<Value = Order> {
    let access = prop_oneof![3 => Just(Access::Read), 1 => Just(Access::Write), 1 => Just(Access::Fill)];
    let one = (0..arrays as u32, access, 0..4u32, 0..5u32);
    let array = (prop_oneof![4 => 1..200u64, 1 => Just(0)], prop::bool::weighted(0.3));
    (prop::collection::vec(array, arrays), prop::collection::vec(one, 0..uses)).prop_map(|(arrays, uses)| {
        let (bytes, dies) = arrays.into_iter().unzip();
        let mut order = Order { bytes, dies, ..Order::default() };
        let end = uses.len() as u32;
        for (place, (array, access, held, work)) in (0..).zip(uses) {
            order.at.push(order.length);
            order.length += f64::from(work);
            order.uses.push(Use { array, access, until: (place + held).min(end) });
        }
        order
    })
}

/// The most bytes that are held at once, which have to fit.
fn held(order: &Order) -> u64 {
    let holds = |array: usize, place: usize| {
        let is = |(at, each): (usize, &Use)| {
            at <= place && place < (each.until as usize).max(at + 1) && each.array as usize == array
        };
        order.uses.iter().enumerate().any(is)
    };
    let at = |place| (0..order.bytes.len()).filter(|&array| holds(array, place)).map(|array| order.bytes[array]).sum();
    (0..order.uses.len()).map(at).max().unwrap_or(0)
}

/// Executes two entries by the moves and drops of a schedule. Returns the first two arrays that have the same memory at a place.
fn collision(order: &Order, found: &Schedule, bytes: &[u64], offsets: &Offsets) -> Option<(usize, usize, usize)> {
    let mut at: Vec<Option<u64>> =
        (0..).zip(&found.resident_at_begin).map(|(array, &here)| here.then(|| offsets.of(array, 0))?).collect();
    for place in (0..=order.uses.len()).chain(0..=order.uses.len()) {
        let last = |array: usize| order.uses.iter().enumerate().filter(move |(_, each)| each.array as usize == array);
        for array in (0..bytes.len()).filter(|&array| order.dies[array]) {
            let dead = last(array).map(|(at, each)| (each.until as usize).max(at + 1)).max();
            at[array] = at[array].filter(|_| dead != Some(place));
        }
        for each in found.moves.iter().filter(|each| each.before as usize == place) {
            match each.what {
                What::Evict => at[each.array as usize] = None,
                What::Prefetch => at[each.array as usize] = offsets.of(each.array, place as u32),
                What::WriteBack => {}
            }
        }
        if let Some(each) = order.uses.get(place) {
            let now = &mut at[each.array as usize];
            *now = now.or_else(|| offsets.of(each.array, place as u32));
        }
        for one in 0..bytes.len() {
            let end = |array: usize| Some((at[array]?, at[array]? + bytes[array]));
            let meet = |other: &usize| end(one).zip(end(*other)).is_some_and(|(a, b)| a.0 < b.1 && b.0 < a.1);
            if let Some(other) = (0..one).find(meet) {
                return Some((place, one, other));
            }
        }
    }
    None
}

/// Gaps of no time count for a hundred times their bytes.
#[test]
fn worths_of_huge_arrays_have_a_sum() {
    let (uses, half) = (8u32, MOST_BYTES / 8 / 9 / 2);
    let each = |place| Use { array: place % 2, access: Access::Write, until: place + 1 };
    let order = Order {
        bytes: vec![half; 2],
        uses: (0..uses).map(each).collect(),
        at: vec![0.0; 8],
        length: 0.0,
        dies: vec![false; 2],
        rests: vec![],
    };
    let found = order.schedule(half, Link { bytes_per_second: 50e9, latency: 0.0 }).unwrap();
    assert_eq!(check(&order, half, &found), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// No two arrays have the same memory at the same time, arrays that may not move among them, and each one stays where it is.
    #[test]
    fn offsets_of_arrays_never_meet(order in orders(12, 60), more in 0.0..1.2f64, fixed in prop::collection::vec(1..50u64, 12)) {
        let least = held(&order);
        let budget = least + ((order.bytes.iter().sum::<u64>() - least) as f64 * more) as u64;
        let found = order.schedule(budget, Link { bytes_per_second: 50.0, latency: 0.1 }).unwrap();
        let bytes: Vec<u64> = order.bytes.iter().zip(fixed).map(|(&own, fixed)| if own > 0 { own } else { fixed }).collect();
        let first = found.offsets(&order, &bytes, u64::MAX).unwrap();
        prop_assert_eq!(collision(&order, &found, &bytes, &first), None);
        let lowest = found.offsets(&order, &bytes, 0).unwrap();
        prop_assert_eq!(collision(&order, &found, &bytes, &lowest), None);
        prop_assert!(lowest.height() <= first.height());
    }

    /// An array that rests on the host comes by a move for each use that needs it, unless another use of it ended just before.
    #[test]
    fn arrays_that_rest_on_the_host_are_prefetched(order in orders(12, 60), more in 0.0..1.2f64, rests in prop::collection::vec(any::<bool>(), 12)) {
        let order = Order { rests, ..order };
        let least = held(&order);
        let budget = least + ((order.bytes.iter().sum::<u64>() - least) as f64 * more) as u64;
        let found = order.schedule(budget, Link { bytes_per_second: 50.0, latency: 0.1 }).unwrap();
        prop_assert_eq!(check(&order, budget, &found), Ok(()));
        for gap in Gaps::of(&order).all.iter().filter(|gap| gap.rests && gap.comes_in) {
            let is_within = |place: u32| if gap.from <= gap.to { gap.from <= place && place <= gap.to } else { place >= gap.from || place <= gap.to };
            let mut moves = found.moves.iter().filter(|each| each.array == gap.array && is_within(each.before));
            prop_assert!(moves.any(|each| each.what == What::Prefetch), "{gap:?}");
        }
    }

    #[test]
    fn schedules_hold_and_repeat(order in orders(12, 60), more in 0.0..1.2f64, speed in 1.0..300.0f64) {
        let link = Link { bytes_per_second: speed, latency: 0.1 };
        let all: u64 = order.bytes.iter().sum();
        let least = held(&order);
        let budget = least + ((all - least) as f64 * more) as u64;
        let found = order.schedule(budget, link).expect("what is held fits");
        prop_assert_eq!(check(&order, budget, &found), Ok(()));
        prop_assert!(found.seconds.is_finite() && found.seconds >= order.length * 0.999);
        if budget >= all {
            let is_forced = |array: u32| order.dies[array as usize];
            prop_assert!(found.moves.iter().all(|each| each.what == What::Evict || is_forced(each.array)), "all fits");
        }
        if least > 0 {
            prop_assert_eq!(order.schedule(least - 1, link), None);
        }
    }

    #[test]
    fn the_bound_is_below_the_optimum_and_that_below_what_moves(order in orders(5, 16), more in 0.0..1.0f64) {
        let least = held(&order);
        let budget = least + ((order.bytes.iter().sum::<u64>() - least) as f64 * more) as u64;
        let fewest = optimum(&order, budget);
        let bound = lower_bound(&order, budget);
        prop_assert!(bound <= fewest as f64 + 1e-3, "{bound} of {fewest}");
        let found = order.schedule(budget, Link { bytes_per_second: 50.0, latency: 0.0 }).unwrap();
        prop_assert!(moved(&order, &found).iter().sum::<u64>() >= fewest);
    }

    /// If the sum of bytes overflows there is no schedule; otherwise no sum within a schedule overflows.
    #[test]
    fn bytes_of_any_number_are_summed_or_refused(order in orders(5, 40), shift in 40..64u32, budget in any::<u64>()) {
        let mut huge = order;
        huge.bytes.iter_mut().for_each(|bytes| *bytes |= bytes.checked_shl(shift).unwrap_or(0));
        let link = Link { bytes_per_second: 50e9, latency: 0.0 };
        for budget in [budget, u64::MAX] {
            let found = huge.schedule(budget, link);
            if let Some(found) = found {
                prop_assert!(moved(&huge, &found).iter().sum::<u64>() < MOST_BYTES);
            }
        }
    }

    /// However late arrays leave and however early they come, the settled schedule is valid.
    #[test]
    fn any_times_hold_once_they_are_settled(order in orders(12, 60), more in 0.0..0.8f64, seed in any::<u32>()) {
        let least = held(&order);
        let budget = least + ((order.bytes.iter().sum::<u64>() - least) as f64 * more) as u64;
        let gaps = Gaps::of(&order);
        let kept = keep::best(&Packing::new(&order, &gaps, budget).unwrap());
        let whole = |gap: usize| gaps.distance(gaps.all[gap].from, gaps.all[gap].to);
        let some = |gap: usize, most: u32| seed.wrapping_mul(gap as u32 * 2 + 1).rotate_left(gap as u32) % (most + 1);
        let may_last = |gap: usize| !gaps.all[gap].is_dead && gaps.all[gap].comes_in;
        let leave = |gap: usize| if may_last(gap) { some(gap, whole(gap)) } else { 0 };
        let come = |gap: usize| if may_last(gap) { some(gap + 7, whole(gap)) } else { whole(gap) };
        let mut times = Times {
            write: (0..gaps.runs.len()).map(|run| some(run, 9)).collect(),
            leave: (0..gaps.all.len()).map(leave).collect(),
            come: (0..gaps.all.len()).map(come).collect(),
        };
        times.settle(&order, &gaps, &kept, budget);
        prop_assert_eq!(check(&order, budget, &times.schedule(&order, &gaps, &kept)), Ok(()));
    }
}
