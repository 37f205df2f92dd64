//! A ring never hands out live memory, and does not grow beyond the bytes that it needs.

use proptest::prelude::*;

use super::*;

/// A map of live slots, which tells whether the ring makes a mistake.
#[derive(Default)]
struct Naive {
    alive: Vec<(u32, u64, u64)>,
    regions: Vec<(u64, u64)>,
}

impl Naive {
    fn serve(&mut self, (slot, address): (u32, u64), bytes: u64) {
        let end = address + bytes;
        assert!(self.regions.iter().any(|&(start, length)| start <= address && end <= start + length), "outside");
        assert!(address.is_multiple_of(ALIGN));
        for &(other, from, to) in &self.alive {
            assert!(end <= from || to <= address, "slot {slot} over {other}");
        }
        self.alive.push((slot, address, end));
    }

    /// Whether the slots of the circle and its hand fill the regions without a gap.
    fn is_taken_up(&self, ring: &Ring) -> bool {
        let taken = ring.regions.first().map_or(Vec::new(), |&(border, _)| ring.circle.stretches(border));
        let is_whole = |(stretches, &(start, length)): (&Vec<(u64, u64)>, &(u64, u64))| {
            let end = stretches.iter().try_fold(start, |at, &(from, to)| (from == at && from < to).then_some(to));
            end == Some(start + length)
        };
        taken.len() == self.regions.len() && taken.iter().zip(&self.regions).all(is_whole)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Serve(u64),
    Drop(prop::sample::Index),
    Lengthen(prop::sample::Index, u64),
    AddRegion(u64),
    Shorten(u64),
    Lacks(u64),
    Follow(Vec<u64>),
    Pass,
    Entry,
    Evict,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..3000u64).prop_map(Step::Serve),
        4 => (1..5u64).prop_map(|units| Step::Serve(units * ALIGN)),
        6 => any::<prop::sample::Index>().prop_map(Step::Drop),
        1 => (any::<prop::sample::Index>(), 1..9u64).prop_map(|(at, units)| Step::Lengthen(at, units * ALIGN)),
        1 => (1..40u64).prop_map(|units| Step::AddRegion(units * ALIGN)),
        1 => (0..9000u64).prop_map(Step::Shorten),
        1 => (0..9000u64).prop_map(Step::Lacks),
        1 => prop::collection::vec(1..9u64, 0..9).prop_map(Step::Follow),
        1 => Just(Step::Pass),
        1 => Just(Step::Entry),
        1 => Just(Step::Evict),
    ]
}

proptest! {
    #[test]
    fn what_is_alive_is_never_served_again(steps in prop::collection::vec(step(), 1..200)) {
        let (mut ring, mut naive, mut next) = (Ring::default(), Naive::default(), 1u64 << 20);
        for step in steps {
            match step {
                Step::Serve(bytes) => {
                    let served = ring.serve_here(bytes).or_else(|| ring.serve(bytes));
                    let served = served.or_else(|| ring.serve_anywhere(bytes));
                    served.into_iter().for_each(|served| naive.serve(served, bytes));
                }
                Step::Drop(at) if !naive.alive.is_empty() => {
                    let (slot, ..) = naive.alive.swap_remove(at.index(naive.alive.len()));
                    ring.take_back(slot);
                    // The drop of an unknown slot changes nothing.
                    ring.take_back(u32::MAX);
                }
                Step::Lengthen(at, more) if !naive.regions.is_empty() => {
                    let at = at.index(naive.regions.len());
                    ring.lengthen(at, more);
                    naive.regions[at].1 += more;
                }
                Step::AddRegion(bytes) => {
                    ring.add_region(next, bytes);
                    naive.regions.push((next, bytes));
                    next += 1 << 20;
                }
                Step::Shorten(keep) => {
                    if let Some(left) = ring.shorten(keep) {
                        naive.regions[0].1 = left;
                        let end = naive.regions[0].0 + left;
                        prop_assert!(left >= keep && naive.alive.iter().all(|&(_, _, to)| to <= end));
                    }
                }
                Step::Lacks(bytes) => {
                    ring.take_lack_of_turn();
                    prop_assert!(ring.lacks(bytes) <= bytes);
                }
                Step::Follow(units) => {
                    let sizes: Vec<u64> = units.into_iter().map(|units| units * ALIGN).collect();
                    let (turns, target) = Ring::turns(&sizes, sizes.iter().sum::<u64>() + 8 * ALIGN);
                    ring.follow(turns, target, (target / ALIGN).is_multiple_of(2));
                    ring.look_ahead(target % 3 > 0);
                }
                Step::Pass => ring.pass(),
                Step::Entry => ring.begin(),
                Step::Evict => {
                    let evicted = ring.evict();
                    prop_assert_eq!(evicted.len(), naive.alive.len());
                    for carried in evicted {
                        let begin = naive.regions[carried.piece].0 + carried.offset;
                        prop_assert!(naive.alive.contains(&(carried.position, begin, begin + carried.bytes))
                            || naive.alive.iter().any(|&(slot, from, to)| slot == carried.position && from == begin
                                && to.next_multiple_of(ALIGN) == begin + carried.bytes));
                    }
                    naive = Naive::default();
                }
                Step::Drop(_) | Step::Lengthen(..) => {}
            }
            prop_assert!(naive.is_taken_up(&ring), "{ring:?} of {:?}", naive.regions);
            prop_assert_eq!(ring.live() as usize, naive.alive.len());
            prop_assert_eq!(ring.bytes(), naive.regions.iter().map(|region| region.1).sum::<u64>());
        }
    }
}

/// The bytes that a ring grows to while arrays of these sizes are replaced one by one, entry by entry.
fn replaced(sizes: impl Fn(u64) -> Vec<u64>, entries: u64) -> u64 {
    replaced_in(Ring::default(), sizes, entries)
}

fn replaced_in(mut ring: Ring, sizes: impl Fn(u64) -> Vec<u64>, entries: u64) -> u64 {
    let mut old = Vec::new();
    for entry in 0..entries {
        ring.begin();
        for (place, bytes) in sizes(entry).into_iter().enumerate() {
            let served = ring.serve_here(bytes).or_else(|| ring.serve_anywhere(bytes));
            let (slot, _) = served.unwrap_or_else(|| {
                if ring.regions() == 0 {
                    ring.add_region(0, bytes)
                } else {
                    let more = ring.lacks(bytes);
                    ring.lengthen(0, more)
                }
                ring.serve(bytes).unwrap()
            });
            match old.get_mut(place) {
                Some(old) => ring.take_back(std::mem::replace(old, slot)),
                None => old.push(slot),
            }
        }
    }
    ring.bytes()
}

#[test]
fn what_is_all_dropped_between_entries_needs_no_more_than_itself() {
    for turns in [Vec::new(), Ring::turns(&SIZES, SIZES.iter().sum()).0] {
        let mut ring = Ring::default();
        let all: u64 = SIZES.iter().sum();
        ring.follow(turns, 0, false);
        ring.add_region(1 << 20, all);
        for _ in 0..10 {
            ring.begin();
            let slots: Vec<_> = SIZES.iter().map(|&bytes| ring.serve_anywhere(bytes).expect("it fits").0).collect();
            slots.into_iter().for_each(|slot| ring.take_back(slot));
        }
        assert_eq!(ring.bytes(), all);
    }
}

/// No two of these sizes sum to a third one.
const SIZES: [u64; 5] = [5 * ALIGN, 3 * ALIGN, 17 * ALIGN, ALIGN, 11 * ALIGN];

#[test]
fn like_arrays_need_one_place_more() {
    for are_alike in [false, true] {
        let mut ring = Ring::default();
        ring.follow(Vec::new(), 0, are_alike);
        assert_eq!(replaced_in(ring, |_| vec![1024; 24], 100), 25 * 1024);
    }
}

#[test]
fn arrays_that_grow_need_little_more() {
    let size = |entry: u64| (64 + entry) * 1024;
    let most = 49 * size(511);
    let bytes = replaced(|entry| vec![size(entry); 48], 512);
    assert!(bytes <= most + most / 32, "{bytes} of {most}");
}

/// A ring begins with small regions, and then grows by steps. Without a look at the next turn, it took 1.09 and 1.11 times the live bytes.
#[test]
fn arrays_that_grow_leave_few_gaps() {
    for small in [0, 1, 3] {
        let (mut ring, mut slots, size) = (Ring::default(), vec![None; 48], |entry: u64| (13 + entry) << 14);
        ring.look_ahead(true);
        (0..small).for_each(|place| ring.add_region(place << 40, size(0) * 3u64.pow(place as u32)));
        for entry in 0..512 {
            ring.begin();
            for slot in &mut slots {
                let served = ring.serve(size(entry)).or_else(|| ring.serve_anywhere(size(entry)));
                let (new, _) = served.unwrap_or_else(|| {
                    let lacks = ring.take_lack_of_turn().unwrap_or(0).max(ring.lacks(size(entry)));
                    let more = lacks.max((ring.bytes() / 20).min(4 << 20));
                    if ring.regions() == small as usize {
                        ring.add_region(1 << 60, more);
                    } else {
                        ring.lengthen(small as usize, more);
                    }
                    ring.serve_anywhere(size(entry)).expect("the ring has grown")
                });
                slot.replace(new).into_iter().for_each(|old| ring.take_back(old));
            }
        }
        let ratio = ring.bytes() as f64 / (48 * size(511)) as f64;
        assert!(ratio <= 1.06, "{ratio:.3} with {small} small regions");
    }
}

#[test]
fn turns_that_are_planned_need_what_is_planned() {
    let sizes: Vec<u64> = (1..=20).map(|size| size * 100 * ALIGN).collect();
    let (turns, target) = Ring::turns(&sizes, sizes.iter().sum::<u64>() + sizes[19]);
    let mut ring = Ring::default();
    ring.follow(turns, target, false);
    assert!(replaced_in(ring, |_| sizes.clone(), 500) <= target);
}

/// A training replaces two moments of each parameter in turn, and many parameters have the same size as the one before. A slot that was served
/// again at once left a gap at the hand: the ring took 1.2 times its target.
#[test]
fn pairs_that_are_replaced_in_order_need_what_is_planned() {
    let layer = [96, 32, 1, 128, 128, 1, 1, 1, 4, 4].map(|units: u64| units * ALIGN);
    let sizes: Vec<u64> = layer.repeat(12).into_iter().flat_map(|bytes| [bytes; 2]).collect();
    let (turns, target) = Ring::turns(&sizes, sizes.iter().sum::<u64>() + 2 * 128 * ALIGN);
    let (mut ring, mut slots): (_, Vec<[u32; 2]>) = (Ring::default(), Vec::new());
    ring.follow(turns, target, false);
    ring.add_region(0, target);
    for step in 0..50 {
        ring.begin();
        for (place, pair) in sizes.chunks(2).enumerate() {
            let new = [pair[0], pair[1]].map(|bytes| ring.serve_anywhere(bytes).map(|(slot, _)| slot));
            let [Some(first), Some(second)] = new else { panic!("no room at {place} in step {step}") };
            match slots.get_mut(place) {
                Some(old) => std::mem::replace(old, [first, second]).into_iter().for_each(|old| ring.take_back(old)),
                None => slots.push([first, second]),
            }
        }
    }
}

#[test]
fn sizes_that_repeat_find_their_places_as_they_were() {
    let mut ring = Ring::default();
    ring.add_region(0, 100 * ALIGN);
    let sizes: Vec<u64> = (1..=13).map(|units| units * ALIGN).collect();
    let mut places = Vec::new();
    for _ in 0..100 {
        let served: Vec<(u32, u64)> = sizes.iter().filter_map(|&bytes| ring.serve(bytes)).collect();
        served.iter().for_each(|&(slot, _)| ring.take_back(slot));
        places.push(served);
        ring.circle.put_hand_behind(0);
    }
    assert_eq!(places[0].len(), sizes.len(), "all of them");
    assert!(places.iter().all(|served| *served == places[0]));
}
