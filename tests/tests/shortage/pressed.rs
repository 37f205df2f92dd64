//! Memory that is short all the time: threads that take the reclaim steps at once, scopes that take turns, and devices that fail
//! during a reclaim.
//!
//! `PRESSED_ENTRIES` sets how many entries each thread makes, 300 by default.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use fastrand::Rng;
use gpucache::device::{Device, Virtual};
use gpucache::prelude::*;
use gpucache::{Array, Recycle, Scope, stats::ReclaimStep};
use gpucache_tests::conformance::{pattern, patterned};
use gpucache_tests::faulty::{Call, Failure, Fault};
use gpucache_tests::paged::{self, PageFault, Paged};
use gpucache_tests::process::number;
use gpucache_tests::{Faulty, turn};

const PAGE: usize = 2 << 20;
const THREADS: usize = 8;
/// The most rounds of the test of threads, until enough of them lacked memory.
const MOST_ROUNDS: u64 = 20;
/// The most pages that an entry of one thread has in use at once.
const PAGES: usize = 12;
/// Further pages of a thread that is inside, which others cannot take: the memory in its lists, and idle memory of an arena in
/// which something is alive.
const BESIDE: usize = 2;

/// Runs entries of one thread. Its arrays have at most [`PAGES`] pages at once.
fn work(device: &Virtual, thread: usize, entries: u64) {
    let rng = &mut Rng::with_seed(thread as u64);
    let recycles = [Recycle::Auto, Recycle::Range, Recycle::Keyed];
    let is_keyed = thread % 3 == 2;
    for entry in 0..entries {
        // Each thread has two scopes in turn, which want each other's memory.
        let name = format!("pressed {thread}.{}", entry % 2);
        let _inside = Scope::new(&name).recycle(recycles[thread % 3]).enter();
        let mut live: Vec<Array<u8, Virtual>> = Vec::new();
        for _ in 0..6 {
            let used: usize = live.iter().map(|array| array.byte_len() / PAGE).sum();
            // With keys of one size, a thread keeps no more memory than it had in use.
            let pages = if is_keyed || rng.bool() { 2 } else { rng.usize(1..=4) };
            if used + pages <= PAGES {
                live.push(device.zeros(pages * PAGE).unwrap_or_else(|error| panic!("thread {thread}: {error}")));
            }
            // Lets other threads come in between, however many processors there are.
            std::thread::yield_now();
            if rng.usize(0..3) == 0 {
                live.pop();
            }
        }
    }
}

/// The memory that all threads have in use at once is within the limit. So no request is refused, whoever takes the reclaim steps
/// at the same time.
#[test]
fn threads_in_a_shortage_at_once_are_all_served() {
    let _turn = turn();
    let device = Virtual::new(1 << 40);
    let pages = THREADS * (PAGES + BESIDE);
    device.set_limit((pages * PAGE) as u64).unwrap();
    let entries = number("PRESSED_ENTRIES").unwrap_or(300);
    // If each thread has a processor, threads seldom lack memory at the same time.
    for _ in 0..MOST_ROUNDS {
        std::thread::scope(|threads| {
            for thread in 0..THREADS {
                threads.spawn({
                    let device = &device;
                    move || work(device, thread, entries)
                });
            }
        });
        if device.stats().reclaim.shortages() > entries / 50 {
            break;
        }
    }
    device.synchronize().unwrap();
    assert!(device.memory().peak_bytes <= (pages * PAGE) as u64);
    let reclaim = device.stats().reclaim;
    println!("{reclaim}");
    assert!(reclaim.shortages() > entries / 50 && reclaim.failed == 0, "{reclaim}");
    let _ = gpucache::invalidate_all();
    device.trim();
    assert_eq!(device.memory().bytes, 0);
}

/// Two scopes of 60% of the limit each, in turn.
#[test]
fn scopes_that_do_not_fit_together_take_turns() {
    let _turn = turn();
    let device = Virtual::new(1 << 40);
    device.set_limit(100 * PAGE as u64).unwrap();
    for _ in 0..500 {
        for name in ["sharing: one", "sharing: other"] {
            let _inside = Scope::new(name).enter();
            let arrays = [20, 10, 25, 5].map(|pages| device.zeros::<u8>(pages * PAGE).unwrap());
            assert!(device.memory().bytes <= 100 * PAGE as u64);
            drop(arrays);
        }
    }
    assert_eq!(device.stats().reclaim.failed, 0);
    device.synchronize().unwrap();
    ["sharing: one", "sharing: other"].iter().for_each(|name| _ = invalidate(name));
}

/// Three scopes under a limit that two of them fill. So each step up to the arenas calls the device. With several streams, on one
/// after the other.
fn turns<D: Device>(devices: &[D], page: usize, tag: &str) -> Vec<gpucache::Error> {
    let mut errors = Vec::new();
    for (round, device) in (0..3).zip(devices.iter().cycle()) {
        for (number, pages) in [(0, 4), (1, 3), (2, 6)] {
            let name = format!("pressed fault {tag} {number}");
            let recycle = [Recycle::Keyed, Recycle::Auto, Recycle::Range][number];
            let _inside = Scope::new(&name).recycle(recycle).enter();
            // The arrays have pages of their own. Their first words are checked.
            let arrays =
                patterned(device, 64, round).and_then(|small| Ok((small, device.zeros::<u8>(pages * page - 256)?)));
            match arrays {
                Ok((small, _large)) => match small.to_vec() {
                    Ok(values) => assert_eq!(values, pattern(round, 64), "{tag}"),
                    Err(error) => errors.push(error),
                },
                Err(error) => errors.push(error),
            }
        }
    }
    errors
}

/// Checks what holds after any failure: errors say of which kind they are, later requests are served, and nothing is lost. Returns
/// how many errors there were.
fn assert_goes_on<D: Device>(
    devices: &[D],
    (limited, page): (usize, usize),
    tag: &str,
    arm: impl Fn(bool),
    is_once: bool,
) -> usize {
    let device = &devices[0];
    device.set_limit((limited * page) as u64).unwrap();
    arm(true);
    let mut errors = turns(devices, page, tag);
    device.trim();
    errors.extend(device.synchronize().err());
    errors.extend(turns(devices, page, tag));
    arm(false);
    assert!(errors.iter().all(|error| error.is_device_failure() || error.is_out_of_memory()), "{tag}: {errors:?}");
    assert!(!is_once || errors.len() <= 2, "{tag}: {errors:?}");
    let after = turns(devices, page, tag);
    assert!(after.iter().all(gpucache::Error::is_deferred), "{tag}: {after:?}");
    assert!(turns(devices, page, tag).is_empty(), "{tag}");
    assert!(device.memory().bytes <= (limited * page) as u64, "{tag}");
    (0..3).for_each(|number| _ = invalidate(format!("pressed fault {tag} {number}")));
    device.trim();
    device.trim();
    assert_eq!(device.memory().bytes, 0, "{tag}");
    errors.len()
}

const FAILURES: [(Failure, bool); 4] =
    [(Failure::OutOfMemory, false), (Failure::Device, false), (Failure::OutOfMemory, true), (Failure::Device, true)];

/// Each call for pages fails, once or from then on.
#[test]
fn whatever_call_for_pages_fails_nothing_is_lost() {
    let _turn = turn();
    let (device, mut errors) = (Paged::new(64), 0);
    for (failure, for_ever) in FAILURES {
        for (at, unmaps) in (1..=6).flat_map(|at| [(at, false), (at, true)]) {
            let fault = PageFault { unmaps, at, for_ever, failure };
            let arm = |is_on: bool| device.arm(is_on.then_some(fault));
            let devices = std::slice::from_ref(&device);
            errors += assert_goes_on(devices, (8, paged::PAGE as usize), &format!("{fault:?}"), arm, !for_ever);
        }
    }
    let reclaim = device.stats().reclaim;
    assert!(reclaim.step(ReclaimStep::OtherScopes).served > 300 && errors > 10, "{errors} errors; {reclaim}");
}

/// Each call for chunks and each call that orders streams fails, once or from then on. The smallest block in a chunk keeps the
/// whole chunk, and a chunk may have been made for another scope, so the limit is more than three chunks.
#[test]
fn whatever_call_of_streams_fails_nothing_is_lost() {
    let _turn = turn();
    let (mut begun, mut errors) = (0, 0);
    for (failure, for_ever) in FAILURES {
        for call in [Call::Allocate, Call::Free, Call::NewEvent, Call::Record, Call::Query, Call::Wait] {
            for at in 1..=2 {
                let device = Faulty::with_chunks(usize::MAX);
                let fault = if for_ever { Fault::for_ever(at, failure) } else { Fault::once(at, failure) };
                let arm = |is_on: bool| if is_on { device.arm(fault.only(call)) } else { device.disarm() };
                let streams = [device.clone(), device.another_stream()];
                errors += assert_goes_on(&streams, (16, PAGE / 4), &format!("{call:?} {fault:?}"), arm, !for_ever);
                begun += device.stats().reclaim.shortages();
                device.assert_clean();
            }
        }
    }
    assert!(begun > 100 && errors > 10, "{begun} shortages, {errors} errors");
}

#[test]
fn a_device_that_fails_in_a_reclaim_step_loses_nothing() {
    let _turn = turn();
    let mut served = 0;
    for failure in [Failure::OutOfMemory, Failure::Device] {
        for call in [Call::Allocate, Call::Free] {
            for at in 1..=24 {
                let device = Faulty::new();
                device.set_limit(8 * PAGE as u64).unwrap();
                let tag = format!("{failure:?} {call:?} {at}");
                device.arm(Fault::once(at, failure).only(call));
                let errors = turns(std::slice::from_ref(&device), PAGE, &tag);
                device.disarm();
                assert!(errors.iter().all(|error| error.is_device_failure() || error.is_out_of_memory()), "{tag}");
                assert!(errors.len() <= 2, "{tag}: {errors:?}");
                served += device.stats().reclaim.step(ReclaimStep::OtherScopes).served;
                let after = turns(std::slice::from_ref(&device), PAGE, &tag);
                assert!(after.iter().all(gpucache::Error::is_deferred), "{tag}: {after:?}");
                assert!(device.memory().bytes <= 8 * PAGE as u64);
                (0..3).for_each(|number| _ = invalidate(format!("pressed fault {tag} {number}")));
                device.trim();
                assert_eq!((device.live(), device.memory().bytes), (Vec::new(), 0), "{tag}");
            }
        }
    }
    assert!(served > 100, "{served}");
}
