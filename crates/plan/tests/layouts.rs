//! Layouts are valid and never below the bound. They are lowest in problems whose optimum is known, and the same on every run.

#![allow(clippy::unwrap_used)]

mod exact;

use exact::buffers;
#[cfg(feature = "exact")]
use exact::optimum;
use gpucache_plan::{Buffer, Layout, LayoutError, Solver, TooLarge, check, layout, lower_bound};
use proptest::prelude::*;

/// Works until the height is proven minimal, or until `stop` was called this many times.
fn solve(buffers: &[Buffer], questions: usize) -> Solver {
    let mut solver = solver(buffers);
    let mut left = questions;
    solver.improve(0, &mut || {
        left = left.saturating_sub(1);
        left == 0
    });
    solver
}

/// The solver that tries the most methods.
fn solver(buffers: &[Buffer]) -> Solver {
    #[cfg(feature = "exact")]
    return Solver::exact(buffers).unwrap();
    #[cfg(not(feature = "exact"))]
    Solver::new(buffers).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn layout_is_valid_and_not_below_the_bound(buffers in buffers(300, 60, 1000)) {
        let found = layout(&buffers).unwrap();
        prop_assert_eq!(check(&buffers, &found), Ok(()));
        prop_assert!(found.height >= lower_bound(&buffers));
    }

    #[cfg(feature = "exact")]
    #[test]
    fn search_finds_and_proves_the_optimum(buffers in buffers(7, 10, 12)) {
        let solver = solve(&buffers, 10_000);
        let found = solver.layout();
        prop_assert_eq!(check(&buffers, &found), Ok(()));
        prop_assert_eq!(found.height, optimum(&buffers));
        prop_assert_eq!(solver.bound(), found.height);
    }

    #[test]
    fn slices_end_where_one_run_does(buffers in buffers(60, 20, 100), slice in 1usize..5) {
        let mut sliced = solver(&buffers);
        for _ in 0..200 {
            let mut left = slice;
            let done = sliced.improve(0, &mut || { left -= 1; left == 0 });
            prop_assert_eq!(check(&buffers, &sliced.layout()), Ok(()));
            if done {
                break;
            }
        }
        let whole = solve(&buffers, 200 * slice);
        prop_assert_eq!(whole.layout(), sliced.layout());
    }

    #[test]
    fn check_finds_what_overlaps(buffers in buffers(20, 10, 20), offsets in prop::collection::vec(0u64..100, 20)) {
        let offsets = offsets[..buffers.len()].to_vec();
        let live: Vec<(Buffer, u64)> = buffers.iter().copied().zip(offsets.iter().copied())
            .filter(|(b, _)| b.size > 0 && b.lower < b.upper).collect();
        let meet = |(a, x): (Buffer, u64), (b, y): (Buffer, u64)| {
            a.lower < b.upper && b.lower < a.upper && x < y + b.size && y < x + a.size
        };
        let pairs = live.iter().enumerate().flat_map(|(i, &a)| live[..i].iter().map(move |&b| (a, b)));
        let valid = !pairs.into_iter().any(|(a, b)| meet(a, b));
        let height = live.iter().map(|(b, o)| o + b.size).max().unwrap_or(0);
        prop_assert_eq!(check(&buffers, &Layout { offsets, height }).is_ok(), valid);
    }

    #[test]
    fn anything_is_laid_out_or_refused(
        raw in prop::collection::vec((any::<u32>(), any::<u32>(), prop_oneof![any::<u64>(), 0u64..1 << 40]), 0..20),
    ) {
        let buffers: Vec<Buffer> = raw.into_iter().map(|(lower, upper, size)| Buffer { lower, upper, size }).collect();
        match layout(&buffers) {
            Ok(found) => prop_assert_eq!(check(&buffers, &found), Ok(())),
            Err(TooLarge { buffers: count, .. }) => prop_assert_eq!(count, buffers.len()),
        }
    }
}

/// The problem is too large for the exact search, so weighted passes work alone.
#[test]
fn weighted_passes_lower_a_large_layout() {
    let mut state = 1u64;
    let mut next = |end: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % end
    };
    let mut buffer = || {
        let lower = next(10_000) as u32;
        Buffer { lower, upper: lower + 1 + next(300) as u32, size: 1 + next(1000) }
    };
    let buffers: Vec<Buffer> = (0..5000).map(|_| buffer()).collect();
    let fast = layout(&buffers).unwrap();
    let mut solver = Solver::new(&buffers).unwrap();
    for _ in 0..40 {
        let mut left = 50;
        solver.improve(0, &mut || {
            left -= 1;
            left == 0
        });
        assert_eq!(check(&buffers, &solver.layout()), Ok(()));
    }
    assert!(solver.height() < fast.height && solver.height() >= lower_bound(&buffers));
}

#[test]
fn nothing_needs_no_memory() {
    assert_eq!(layout(&[]), Ok(Layout::default()));
    let idle = [
        Buffer { lower: 5, upper: 5, size: 9 },
        Buffer { lower: 7, upper: 2, size: 9 },
        Buffer { lower: 0, upper: 9, size: 0 },
    ];
    assert_eq!(layout(&idle), Ok(Layout { offsets: vec![0; 3], height: 0 }));
    assert_eq!(lower_bound(&idle), 0);
}

#[test]
fn sums_past_64_bits_are_refused() {
    let whole = [Buffer { lower: 0, upper: 1, size: u64::MAX }; 3];
    assert!(matches!(layout(&whole), Err(TooLarge { buffers: 3, .. })));
    assert_eq!(lower_bound(&whole), u64::MAX);
    let most = [Buffer { lower: 0, upper: u32::MAX, size: 1 << 62 }];
    assert_eq!(layout(&most).map(|l| l.height), Ok(1 << 62));
}

#[test]
fn faults_are_told_apart() {
    let two = [Buffer { lower: 0, upper: 2, size: 4 }, Buffer { lower: 1, upper: 3, size: 4 }];
    let of = |offsets: &[u64], height| check(&two, &Layout { offsets: offsets.to_vec(), height });
    assert_eq!(of(&[0, 4], 8), Ok(()));
    assert_eq!(of(&[0, 3], 7), Err(LayoutError::Overlap { first: 0, second: 1 }));
    assert_eq!(of(&[0], 4), Err(LayoutError::Length { buffers: 2, offsets: 1 }));
    assert_eq!(of(&[0, 4], 9), Err(LayoutError::Height { stated: 9, found: 8 }));
    assert_eq!(of(&[0, u64::MAX], 9), Err(LayoutError::PastEnd { buffer: 1 }));
}

#[test]
fn a_solver_starts_from_a_valid_layout_that_it_is_given() {
    let two = [Buffer { lower: 0, upper: 2, size: 4 }, Buffer { lower: 2, upper: 3, size: 4 }];
    let given = |offsets: &[u64], height| {
        let mut solver = Solver::new(&two).unwrap();
        solver.offer(&Layout { offsets: offsets.to_vec(), height });
        solver
    };
    let mut lower = given(&[0, 2], 6);
    assert!(lower.improve(6, &mut || true));
    assert_eq!(lower.layout(), Layout { offsets: vec![0, 2], height: 6 });
    assert!(lower.improve(0, &mut || false));
    assert_eq!(lower.height(), 4);
    for (offsets, height) in [(&[0, 0][..], 2), (&[0], 4), (&[0, 4, 8], 4)] {
        assert_eq!(given(offsets, height).height(), 8, "{offsets:?}");
    }
}
