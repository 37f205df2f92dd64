//! Soft limits, limits of all devices together, and fractions of a device.
//!
//! The tests take turns, because they share scopes and the limit of the process.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use fastrand::Rng;
use gpucache::device::{Device, Virtual};
use gpucache::prelude::*;
use gpucache::{Array, Limit, Recycle, Scope, error::Bound, stats, stats::ReclaimStep};
use gpucache_tests::faulty::Faulty;
use gpucache_tests::{seeds, turn};

use super::{Limited, PAGE, held_pages, idle_pages, leave_idle};

fn softly_limited(pages: usize) -> Virtual {
    let device = Virtual::new(1 << 40);
    device.set_limit(Limit::soft((pages * PAGE) as u64)).unwrap();
    device
}

#[test]
fn what_is_idle_goes_back_first_and_then_more_is_held() {
    let _turn = turn();
    let device = softly_limited(12);
    leave_idle(&device, "soft: idle", 10);
    let first = Scope::new("soft: work").run(|| device.zeros::<u8>(4 * PAGE).unwrap());
    assert_eq!((held_pages(&device), idle_pages("soft: idle")), (10, 6), "as much as was asked for");
    let second = Scope::new("soft: work").run(|| device.zeros::<u8>(10 * PAGE).unwrap());
    assert_eq!((held_pages(&device), idle_pages("soft: idle")), (14, 0));
    // The same holds outside scopes.
    let third = device.zeros::<u8>(3 * PAGE).unwrap();
    assert_eq!(held_pages(&device), 17);
    let reclaim = device.stats().reclaim;
    assert_eq!(
        (reclaim.step(ReclaimStep::OtherScopes).served, reclaim.beyond_soft, reclaim.failed),
        (1, 2, 0),
        "{reclaim}"
    );
    assert_eq!(device.memory().soft_limit, Some(12 * PAGE as u64));
    drop((first, second, third));
    ["soft: idle", "soft: work"].iter().for_each(|name| _ = invalidate(name));
}

#[test]
fn a_lower_soft_limit_takes_what_is_idle_at_once() {
    let _turn = turn();
    let device = softly_limited(16);
    leave_idle(&device, "soft: lowered", 10);
    device.set_limit(Limit::soft(4 * PAGE as u64)).unwrap();
    assert_eq!((held_pages(&device), idle_pages("soft: lowered")), (4, 4));
    device.set_limit(Limit::soft(u64::MAX)).unwrap();
    leave_idle(&device, "soft: lowered", 10);
    assert_eq!((held_pages(&device), device.memory().soft_limit), (10, None));
    let _ = invalidate("soft: lowered");
}

/// A request beyond the hard limit reclaims nothing. A request within the hard limit succeeds, even if it is beyond the
/// soft limit.
#[test]
fn the_hard_limit_counts_beside_the_soft_one() {
    let _turn = turn();
    let device = softly_limited(4);
    device.set_limit(8 * PAGE as u64).unwrap();
    leave_idle(&device, "soft: spared", 4);
    let error = device.zeros::<u8>(9 * PAGE).unwrap_err();
    assert_eq!((error.shortage().unwrap().bound, error.shortage().unwrap().most_bytes), (Bound::Limit, Some(16 << 20)));
    assert_eq!(idle_pages("soft: spared"), 4);
    let array = device.zeros::<u8>(8 * PAGE).unwrap();
    assert!(device.zeros::<u8>(PAGE).is_err());
    drop(array);
    let _ = invalidate("soft: spared");
}

/// A scope with a plan that needs more than the soft limit makes no calls of the device once it is warm.
#[test]
fn a_warm_scope_beyond_the_limit_makes_no_calls() {
    let _turn = turn();
    let device = softly_limited(4);
    let step = || drop([3, 4, 2].map(|pages| device.zeros::<u8>(pages * PAGE).unwrap()));
    (0..20).for_each(|_| Scope::new("soft: warm").run(step));
    let (memory, begun) = (device.memory(), device.stats().reclaim.shortages());
    (0..20).for_each(|_| Scope::new("soft: warm").run(step));
    assert_eq!((device.memory(), device.stats().reclaim.shortages()), (memory, begun));
    let stats = gpucache::stats("soft: warm").unwrap();
    assert!(stats.served.planned.allocations >= 60, "{stats}");
    let _ = invalidate("soft: warm");
}

/// Scopes of every kind come and go. No request fails. Whenever the device reserves more than the limit, no other scope keeps
/// idle memory.
fn play(seed: u64) {
    let rng = &mut Rng::with_seed(seed);
    let most = rng.usize(2..20);
    let device = softly_limited(most);
    let names: Vec<String> = (0..3).map(|number| format!("soft: random {number}")).collect();
    let mut kept: Vec<Array<u8, Virtual>> = Vec::new();
    for _ in 0..rng.usize(5..30) {
        let inside = rng.usize(0..names.len());
        let recycle = [Recycle::Auto, Recycle::Range, Recycle::Keyed][inside];
        let _inside = Scope::new(&names[inside]).recycle(recycle).enter();
        let mut live = Vec::new();
        for _ in 0..rng.usize(1..6) {
            let before = held_pages(&device);
            live.push(device.zeros::<u8>(rng.usize(1..6 * PAGE)).expect("a soft limit refuses nothing"));
            if held_pages(&device) > before.max(most) {
                let others = names.iter().enumerate().filter(|&(number, _)| number != inside);
                let idle: u64 = others.filter_map(|(_, name)| stats(name)).map(|stats| stats.idle_bytes).sum();
                assert_eq!(idle, 0, "{before} pages were held, {} are, of {most}", held_pages(&device));
            }
            if rng.bool() {
                live.pop();
            }
        }
        kept.extend(live.pop().filter(|_| rng.usize(0..4) == 0));
        kept.truncate(2);
    }
    drop(kept);
    names.iter().for_each(|name| _ = invalidate(name));
    device.trim();
    device.synchronize().unwrap();
    assert_eq!((device.memory().bytes, device.stats().reclaim.failed), (0, 0));
}

#[test]
fn nobody_is_refused_and_nothing_stays_idle_beyond_the_limit() {
    let _turn = turn();
    seeds::each(1000, 1, play);
}

#[test]
fn the_process_has_one_limit_over_all_devices() {
    let _turn = turn();
    let (one, other) = (Virtual::new(1 << 40), Virtual::new(1 << 40));
    leave_idle(&one, "process: one", 6);
    leave_idle(&other, "process: other", 6);
    let _limited = Limited::to(10);
    assert_eq!(held_pages(&one) + held_pages(&other), 10, "what was too much went back at once");
    let array = Scope::new("process: work").run(|| one.zeros::<u8>(7 * PAGE).unwrap());
    assert!(held_pages(&one) + held_pages(&other) <= 10);
    let more = other.zeros::<u8>(3 * PAGE).expect("all that is idle goes back, wherever it is");
    assert_eq!((held_pages(&one), held_pages(&other)), (7, 3));
    let error = Scope::new("process: work").run(|| other.zeros::<u8>(PAGE).unwrap_err());
    let shortage = error.shortage().unwrap();
    let pages = |bytes| bytes as usize / PAGE;
    assert_eq!((shortage.bound, shortage.most_bytes.map(pages)), (Bound::Process, Some(10)));
    assert_eq!((pages(shortage.process_bytes), pages(shortage.held_bytes)), (10, 3));
    let text = error.to_string();
    assert!(text.contains("the process's limit is 20.00 MiB; gpucache reserves 20.00 MiB of all devices"), "{text}");
    assert!(text.contains("gpucache reserves 6.00 MiB of the device"), "{text}");
    drop((array, more));
    assert!(other.zeros::<u8>(10 * PAGE).is_ok());
    assert!(other.zeros::<u8>(11 * PAGE).is_err());
    ["process: one", "process: other", "process: work"].iter().for_each(|name| _ = invalidate(name));
}

/// Threads on their own devices reach the limit at the same time.
#[test]
fn threads_on_several_devices_stay_within_the_limit_and_are_served() {
    const THREADS: usize = 4;
    let _turn = turn();
    let _limited = Limited::to(THREADS * 6);
    std::thread::scope(|threads| {
        for thread in 0..THREADS {
            threads.spawn(move || {
                let (rng, device) = (&mut Rng::with_seed(thread as u64), Virtual::new(1 << 40));
                let name = format!("process: thread {thread}");
                for _ in 0..300 {
                    let recycle = [Recycle::Keyed, Recycle::Auto][thread % 2];
                    let _inside = Scope::new(&name).recycle(recycle).enter();
                    let arrays = [rng.usize(1..=2), 2].map(|pages| device.zeros::<u8>(pages * PAGE));
                    for array in arrays {
                        array.unwrap_or_else(|error| panic!("{error}"));
                    }
                    let error = device.zeros::<u8>((THREADS * 6 + 1) * PAGE).unwrap_err();
                    assert!(error.shortage().unwrap().process_bytes <= (THREADS * 6 * PAGE) as u64, "{error}");
                }
                let _ = invalidate(&name);
            });
        }
    });
}

#[test]
fn a_share_is_of_what_the_device_has() {
    let _turn = turn();
    let device = Virtual::new(1000);
    let limited = |share| device.set_limit(Limit::share(share)).map(|()| device.memory().limit);
    assert_eq!([0.0, 0.8, 1.0].map(|share| limited(share).unwrap()), [0, 800, 1000].map(Some));
    for none in [-0.1, 1.1, f64::NAN] {
        assert!(limited(none).unwrap_err().is_unavailable());
        assert_eq!(device.memory().limit, Some(1000), "it stays as it was");
    }
    // This machine has no virtual memory, or nobody tells how much.
    let error = Faulty::new().set_limit("50%").unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("`50%`"), "{error}");
}
