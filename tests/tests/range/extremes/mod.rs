//! Sizes, limits and counts at the ends of the number range. They give an array or an error, in every build, and never a panic.
//! Test programs are built with overflow checks. If this file is built without them, its first test reports that.
//!
//! The tests take turns, since limits and scopes belong to the whole process. `PROGRAMS=10000 cargo test -p gpucache-tests --test
//! range extremes` runs 10,000 random programs.

mod layouts;
mod programs;
mod statistics;

use std::hint::black_box;

use gpucache::device::Virtual;
use gpucache::{Array, Recycle, Scope, prelude::*, stats};
use gpucache_tests::turn;

const RECYCLES: [Recycle; 4] = [Recycle::Auto, Recycle::Range, Recycle::Keyed, Recycle::Off];

#[test]
fn arithmetic_is_checked_in_this_build() {
    let _turn = turn();
    let sum = std::panic::catch_unwind(|| black_box(u64::MAX) + black_box(1));
    assert!(sum.is_err(), "build tests with overflow checks: the dev profile has them");
}

/// One scope has nearly as many bytes in use as a `u64` can count.
#[test]
fn a_scope_that_had_all_there_is_in_use_goes_on() {
    let _turn = turn();
    for recycle in RECYCLES {
        let (device, name) = (Virtual::unchecked(usize::MAX), format!("extremes: all, {recycle:?}"));
        let scope = || Scope::new(&name).recycle(recycle);
        for _ in 0..4 {
            let arrays: Vec<_> = scope().run(|| (0..4).map(|n| device.zeros::<u8>((1 << 62) - 1000 * n)).collect());
            // A range has fewer addresses, and refuses this.
            assert!(arrays.iter().all(|array| array.is_ok() == (recycle == Recycle::Off)), "{recycle:?}");
        }
        assert!(scope().run(|| device.zeros::<u8>(8)).is_ok());
        device.set_limit(u64::MAX - 1).unwrap();
        let _ = scope().invalidate();
        device.trim();
        assert_eq!(device.memory().bytes, 0);
    }
}

/// Several devices together could have more bytes in use for one scope than a `u64` can count. The last request is refused, and the
/// sums stay right.
#[test]
fn a_scope_holds_no_more_than_a_number_says() {
    let _turn = turn();
    let devices = [(); 3].map(|()| Virtual::unchecked(usize::MAX));
    let scope = Scope::new("extremes: several devices").recycle(Recycle::Off);
    let huge = |device| Array::<u8, Virtual>::zeros(device, isize::MAX as usize);
    let (held, refused): (Vec<_>, Vec<_>) = scope.run(|| devices.iter().map(huge).partition(Result::is_ok));
    assert_eq!((held.len(), refused.len()), (2, 1));
    let refused = refused.into_iter().next().unwrap().unwrap_err();
    assert_eq!(refused.shortage().map(|shortage| shortage.bound), Some(gpucache::error::Bound::Scope), "{refused}");
    assert_eq!(stats(scope.name()).unwrap().busy_bytes, 2 * isize::MAX as u64);
    drop(held);
    assert_eq!(stats(scope.name()).unwrap().busy_bytes, 0);
    assert!(scope.run(|| huge(&devices[2])).is_ok());
    let _ = scope.invalidate();
}

/// A scope was served more bytes in total than a `u64` can count.
#[test]
fn totals_stay_at_the_most_that_a_number_says() {
    let _turn = turn();
    let device = Virtual::unchecked(1 << 62);
    for recycle in [Recycle::Auto, Recycle::Keyed, Recycle::Off] {
        let name = format!("extremes: totals, {recycle:?}");
        let step = || Scope::new(&name).recycle(recycle).run(|| (0..8).for_each(|_| drop(device.zeros::<u8>(1 << 46))));
        let served = || stats(&name).unwrap().served.all().bytes;
        let mut last = 0;
        for entry in 0..36_000 {
            step();
            if entry % 1000 == 0 {
                assert!(served() > last || last == u64::MAX, "{recycle:?}: {} after {last}", served());
                last = served();
            }
        }
        assert_eq!(served(), u64::MAX, "{recycle:?}");
        assert!(
            gpucache::stats::process().to_string().contains(&name) && !gpucache::stats::top().to_string().is_empty()
        );
        assert_eq!(gpucache::stats(&name).unwrap().served.all().bytes, u64::MAX);
    }
}

/// A dry run of huge arrays can go on without end.
#[test]
fn addresses_of_arrays_of_no_scope_serve_again() {
    let _turn = turn();
    for device in [Virtual::unchecked(usize::MAX), Virtual::new(usize::MAX)] {
        let kept = device.zeros::<u8>(1000).unwrap();
        for number in 0..20_000 {
            let arrays = [1 << 62, (1 << 61) + number, 7].map(|bytes| device.zeros::<u8>(bytes).unwrap());
            drop(arrays);
        }
        drop(kept);
        device.synchronize().unwrap();
    }
}

/// Each entry requests four times as much as the one before. The plan takes these for its own sizes that grow.
#[test]
fn sizes_that_grow_for_ever_end_in_an_error() {
    let _turn = turn();
    for kept in [false, true] {
        let (device, scope) = (Virtual::new(usize::MAX), Scope::new("extremes: growing"));
        let mut last = None;
        let mut entry = |bytes: usize| {
            let next = scope.run(|| {
                let arrays = [bytes, bytes / 2 + 1, bytes].map(|bytes| device.zeros::<u8>(bytes));
                arrays.into_iter().next().and_then(Result::ok)
            });
            last = next.filter(|_| kept);
        };
        (0..12).for_each(|_| entry(1 << 12));
        for power in (12..63).step_by(2).chain((11..63).step_by(2)).chain([12; 20]) {
            (0..3).for_each(|_| entry(1 << power));
            entry((1 << (power + 1)) - 1);
        }
        drop(last);
        let _ = scope.invalidate();
        device.trim();
        device.synchronize().unwrap();
        assert_eq!(device.memory().bytes, 0);
    }
}
