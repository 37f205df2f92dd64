//! Tests of what an envelope covers, and of which orders count as the same.

use super::*;

/// Allocates `sizes` in order. Each array lives until as many allocations were made as its number in `ends` says.
fn log(sizes: &[u64], ends: &[u32]) -> Log {
    let mut log = Log::default();
    for (number, &bytes) in (0..).zip(sizes) {
        (0..).zip(ends).filter(|&(_, &end)| end == number).for_each(|(dropped, _)| log.dropped(dropped));
        assert_eq!(log.allocated(0, bytes), Some(number));
    }
    let last = sizes.len() as u32;
    (0..).zip(ends).filter(|&(_, &end)| end == last).for_each(|(dropped, _)| log.dropped(dropped));
    log
}

fn of(one: &Log, other: &Log) -> Option<Envelope> {
    Envelope::of(one, other)
}

#[test]
fn positions_hold_the_largest_and_the_longest() {
    let (one, other) = (log(&[1000, 20], &[1, 2]), log(&[400, 21], &[2, 2]));
    let envelope = of(&one, &other).unwrap();
    assert_eq!(
        envelope.at(0),
        Some(&Expected {
            least: 400,
            most: 1000,
            step: 0,
            shrank: true,
            kind: Kind::Within,
            flips: 0,
            upper: 2,
            inner: 0
        })
    );
    assert_eq!(
        envelope.buffers(),
        [Buffer { lower: 0, upper: 2, size: 1024 }, Buffer { lower: 1, upper: 2, size: 256 }]
    );
    assert!(envelope.holds(&one) && envelope.holds(&other));
    assert!(!envelope.holds(&log(&[1000, 22], &[1, 2])) && !envelope.holds(&log(&[1000], &[1])));
}

#[test]
fn what_outlives_its_entry_is_kept_out() {
    let kept = log(&[512, 256], &[OUTLIVES, 2]);
    let envelope = of(&kept, &kept).unwrap();
    assert_eq!(envelope.buffers()[0].size, 0);
    assert!(!envelope.at(0).unwrap().is_planned() && envelope.at(1).unwrap().is_planned());
    assert!(envelope.holds(&kept) && !envelope.holds(&log(&[512, 256], &[1, 2])));
    let newer = envelope.absorb(&log(&[512, 256], &[1, 2])).unwrap();
    assert!(newer.at(0).unwrap().is_planned(), "it outlives its entry no more");
}

#[test]
fn other_orders_are_told_from_other_sizes() {
    let large_first = log(&[1 << 20, 256, 256, 256], &[1, 2, 3, 4]);
    let large_last = log(&[256, 256, 256, 1 << 20], &[1, 2, 3, 4]);
    assert!(of(&large_first, &large_last).is_some(), "nothing lives at once");
    let large_first = log(&[1 << 20, 256, 256, 256], &[4, 4, 4, 4]);
    let large_last = log(&[256, 256, 256, 1 << 20], &[4, 4, 4, 4]);
    assert!(of(&large_first, &large_last).is_none(), "twice the memory");
    assert!(of(&large_first, &log(&[256], &[1])).is_none(), "another number");
}

proptest::proptest! {
    #[test]
    fn the_bound_is_that_of_any_layout(lives in proptest::collection::vec((1..100u64, 1..9u32, 0..4u32), 1..40)) {
        let last = lives.len() as u32;
        let upper = |(place, (_, length, kind)): (u32, (u64, u32, u32))| {
            if kind == 0 { OUTLIVES } else { last.min(place + length) }
        };
        let logged: Vec<Logged> = (0..).zip(lives)
            .map(|(place, life)| Logged { bytes: life.0, upper: upper((place, life)), inner: 0 })
            .collect();
        let buffers: Vec<Buffer> = (0..).zip(&logged)
            .filter(|(_, logged)| logged.upper != OUTLIVES)
            .map(|(lower, logged)| Buffer { lower, upper: logged.upper, size: logged.bytes })
            .collect();
        let lives: Vec<Expected> = logged.iter().enumerate().map(|(place, life)| Expected::of(life, place, None)).collect();
        proptest::prop_assert_eq!(bound(lives.into_iter()), crate::layout::lower_bound(&buffers));
    }
}

#[test]
fn a_position_can_be_widened() {
    let one = log(&[512], &[1]);
    let mut envelope = of(&one, &one).unwrap();
    assert!(!envelope.widen(0, 512) && envelope.widen(0, 513) && !envelope.widen(1, 1));
    assert_eq!(envelope.buffers()[0].size, 768);
}

#[test]
fn the_arena_of_a_scope_inside_is_found_ahead() {
    let mut log = Log::default();
    (0..400).for_each(|bytes| assert!(log.allocated(0, 100 + bytes).is_some()));
    [(5, 2), (6, 3), (390, 2)].into_iter().for_each(|(number, scope)| log.note_inner(number, scope));
    let envelope = Envelope::of(&log, &log).unwrap();
    let next = |position| envelope.next_inner(position, 2);
    assert_eq!([next(0), next(5), next(6), next(370)], [Some((5, 105)), Some((5, 105)), None, Some((390, 490))]);
    assert!(envelope.has_inner(3) && !envelope.has_inner(4));
}
