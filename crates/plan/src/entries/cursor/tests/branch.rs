//! Two plans that begin alike: an entry leaves one and goes on by the other.

use proptest::prelude::*;

use super::*;
use crate::layout::Layout;

/// Two plans with common first places, and what is alive in the active one.
struct Pair {
    envelopes: [Envelope; 2],
    cursors: [Cursor; 2],
    active: usize,
    alive: Vec<Alive>,
    now: usize,
}

impl Pair {
    /// Plans of two orders, the first `common` allocations of which are those of the same program.
    fn new(orders: [&[Life]; 2]) -> Pair {
        let envelope = |entry: &[Life]| {
            let log = log(entry);
            Envelope::of(&log, &log).unwrap()
        };
        let [mut one, mut other] = orders.map(envelope);
        let common = one.shares(&other);
        one.share(&mut other, common);
        let first = layout(&one.buffers()).unwrap();
        let second = Layout::extend(&other.buffers(), &first.offsets[..common]).unwrap();
        let cursors = [Cursor::new(&one, &one.buffers(), &first), Cursor::new(&other, &other.buffers(), &second)];
        Pair { envelopes: [one, other], cursors, active: 0, alive: Vec::new(), now: 0 }
    }

    fn branch(&mut self) -> bool {
        let [one, other] = &mut self.cursors;
        let (before, after) = if self.active == 0 { (one, other) } else { (other, one) };
        let has_branched = after.continue_entry(before);
        self.active ^= usize::from(has_branched);
        has_branched
    }

    fn suits_other(&self, bytes: u64) -> bool {
        let [before, after] = [self.active, 1 - self.active].map(|plan| &self.cursors[plan]);
        after.suits_better(before, &self.envelopes[self.active], bytes)
    }

    /// Runs an entry from the active plan, and tries to go on by the other one where it suits, or where `tries` says. Returns how many of its
    /// allocations were served.
    fn run(&mut self, entry: &[Life], tries: &[usize]) -> usize {
        self.cursors[self.active].begin(!self.alive.is_empty());
        let mut number = 0;
        for (place, &(bytes, length)) in entry.iter().enumerate() {
            self.drop_until(self.now);
            if self.suits_other(bytes) || tries.contains(&place) {
                self.branch();
            }
            let cursor = &mut self.cursors[self.active];
            let served =
                cursor.serve(bytes).or_else(|| match cursor.serve_off_order(bytes, &self.envelopes[self.active]) {
                    Answer::Served(served, _) => Some(served),
                    Answer::Beside(_) | Answer::Carried(_) | Answer::Irregular(_) => None,
                });
            if let Some(Served { position, offset, .. }) = served {
                let place = offset..offset + bytes;
                let clash = self.alive.iter().find(|one| one.place.start < place.end && place.start < one.place.end);
                assert!(clash.is_none(), "position {position} lies where {} is alive", clash.unwrap().position);
                self.alive.push(Alive { position, place, bytes, end: self.now.saturating_add(length) });
                number += 1;
            }
            self.now += 1;
        }
        number
    }

    fn drop_until(&mut self, now: usize) {
        let (due, alive): (Vec<Alive>, Vec<Alive>) =
            std::mem::take(&mut self.alive).into_iter().partition(|alive| alive.end <= now);
        self.alive = alive;
        due.into_iter().for_each(|array| self.cursors[self.active].take_back(array.position));
        assert_eq!(self.cursors[self.active].live(), self.alive.len() as u64);
        assert_eq!(self.cursors[1 - self.active].live(), 0);
    }
}

/// Two orders whose first allocations are the same, and the number of these.
fn orders() -> impl Strategy<Value = ([Vec<Life>; 2], usize)> {
    (entry(), entry(), entry()).prop_map(|(common, one, other)| {
        let order = |rest: &[Life]| [&common[..], rest].concat();
        ([order(&one), order(&other)], common.len())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_alive_is_served_whatever_deviates_and_wherever_plans_change(
        (orders, _) in orders(),
        entries in prop::collection::vec((any::<bool>(), changes(), prop::collection::vec(0..60usize, 0..4), any::<bool>()), 1..8),
    ) {
        let mut pair = Pair::new([&orders[0], &orders[1]]);
        for (which, changes, tries, leaves) in &entries {
            pair.run(&changed(&orders[usize::from(*which)], changes), tries);
            if *leaves {
                pair.drop_until(usize::MAX - 1);
            }
        }
        let live: Vec<_> = pair.cursors[pair.active].evict().iter().map(|live| (live.offset, live.bytes.next_multiple_of(ALIGN))).collect();
        let mut alive: Vec<_> = pair.alive.iter().map(|array| (array.place.start, array.bytes.next_multiple_of(ALIGN))).collect();
        alive.sort_unstable();
        prop_assert_eq!(live, alive, "each keeps its own bytes");
    }

    #[test]
    fn what_outlives_the_entries_of_one_order_is_served_alike_in_both((orders, _) in orders()) {
        let arranged = |entry: &[Life]| {
            let log = log_across_the_seam(entry);
            Envelope::of(&log, &log).unwrap().arranged()
        };
        let (mut one, mut other) = (arranged(&orders[0]), arranged(&orders[1]));
        let common = one.shares(&other);
        one.share(&mut other, common);
        for position in 0..common {
            let [by_one, by_other] = [&one, &other].map(|envelope| {
                let expected = envelope.at(position).unwrap();
                (expected.is_planned(), expected.is_carried(), expected.least, expected.most)
            });
            prop_assert!(by_one.0 == by_other.0 && by_one.1 == by_other.1 && by_one.3 == by_other.3);
        }
        for envelope in [&one, &other] {
            prop_assert_eq!(envelope.carried().0.len(), (0..envelope.len()).filter(|&place| envelope.at(place).unwrap().is_carried()).count());
        }
        let first = layout(&one.buffers()).unwrap();
        prop_assert!(Layout::extend(&other.buffers(), &first.offsets[..common]).is_some(), "the common places do not overlap in the other order");
    }

    /// The allocation after the common ones has another size in each order, which no other position has.
    #[test]
    fn an_entry_of_either_order_is_served_whole_from_either_plan((mut orders, common) in orders(), turns in prop::collection::vec(any::<bool>(), 1..6)) {
        (orders[0][common].0, orders[1][common].0) = (100_000, 1_000_000);
        let mut pair = Pair::new([&orders[0], &orders[1]]);
        prop_assert!(pair.envelopes[0].shares(&pair.envelopes[1]) == common);
        for turn in turns {
            let entry = &orders[usize::from(turn)];
            prop_assert_eq!(pair.run(entry, &[]), entry.len());
            pair.drop_until(usize::MAX - 1);
        }
    }
}

#[test]
fn a_size_near_the_expected_one_is_no_other_order() {
    let order = |last: u64| -> Vec<Life> { vec![(1000, 2), (2000, 2), (last, 1)] };
    let suits = |bytes: u64| {
        let (mut before, other) = (Program::new(&order(4000)), Program::new(&order(bytes)));
        before.run(&order(4000)[..2]);
        other.cursor.suits_better(&before.cursor, &before.envelope, bytes)
    };
    assert!(!suits(4000) && !suits(4500) && !suits(3500), "one more size of the same order");
    assert!(suits(4600) && suits(3400));
}

/// The common first positions of an order with this size and of one with these sizes, which part behind it.
fn shared(bytes: u64, others: [u64; 2]) -> usize {
    let order = |sizes: [u64; 2], last: u64| -> Envelope {
        let [one, other] = sizes.map(|bytes| log(&[(1000, 1), (bytes, 1), (last, 1)]));
        Envelope::of(&one, &other).unwrap()
    };
    order([bytes; 2], 1 << 20).shares(&order(others, 1 << 30))
}

#[test]
fn orders_share_a_position_whose_sizes_take_one_place() {
    assert_eq!(shared(1, [136, 136]), 2, "both take one unit");
    assert_eq!(shared(1, [3 * ALIGN, 3 * ALIGN]), 2);
    assert_eq!(shared(1, [8 * ALIGN, 8 * ALIGN]), 1);
}

#[test]
fn orders_share_a_position_whose_sizes_overlap() {
    assert_eq!(shared(1 << 20, [1 << 22, 1 << 24]), 2, "four times as large, as in one order");
    assert_eq!(shared(1 << 22, [1 << 22, 1 << 24]), 2);
    assert_eq!(shared(1 << 19, [1 << 22, 1 << 24]), 1);
}
