//! The limit of the process, together with limits of devices. Idle memory of one device makes room for another one, in whatever form it
//! is idle. A request that can never succeed reclaims nothing.
//!
//! The tests take turns, because they share the limit of the process.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use std::sync::mpsc::channel;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use gpucache::device::{Device, Virtual};
use gpucache::prelude::*;
use gpucache::{Limit, Recycle, Scope, error::Bound, stats, stats::ReclaimStep};
use gpucache_tests::process::in_one_of;
use gpucache_tests::turn;

use super::{Limited, PAGE};

/// Longer than any of these tests takes.
const LONG: Duration = Duration::from_secs(60);

/// The device's limit never allows the request, although the request meets the limit of the process first.
#[test]
fn what_its_device_never_allows_takes_nothing_and_waits_for_nobody() {
    let _turn = turn();
    let (device, other) = (Virtual::new(1 << 40), Virtual::new(1 << 40));
    device.set_limit(8 * PAGE as u64).unwrap();
    device.set_allocation_timeout(LONG);
    let idle = Scope::new("process limit: spared").recycle(Recycle::Keyed);
    idle.run(|| drop([(); 6].map(|()| other.zeros::<u8>(PAGE).unwrap())));
    let _held = other.zeros::<u8>(6 * PAGE).unwrap();
    let _limited = Limited::to(18);
    let start = Instant::now();
    let error = device.zeros::<u8>(9 * PAGE).unwrap_err();
    assert_eq!(error.shortage().map(|shortage| shortage.bound), Some(Bound::Limit), "{error}");
    assert_eq!(stats("process limit: spared").unwrap().idle_bytes, 6 * PAGE as u64);
    assert!(start.elapsed() < LONG / 2);
    let _ = idle.invalidate();
}

#[test]
fn what_other_devices_work_with_is_waited_for() {
    let _turn = turn();
    in_one_of(5, || {
        let (device, host) = (Virtual::new(1 << 40), Host::new_stream().unwrap());
        let works = Scope::new("process limit: works");
        works.run(|| {
            let mut array = host.zeros::<u8>(6 * PAGE).unwrap();
            host.launch(&mut array, |_| sleep(Duration::from_millis(50))).unwrap();
        });
        let _limited = Limited::to(8);
        let array = device.zeros::<u8>(6 * PAGE).unwrap();
        assert_eq!(device.stats().reclaim.step(ReclaimStep::PendingWork).served, 1, "{}", device.stats().reclaim);
        drop(array);
        let _ = works.invalidate();
    });
}

/// The block of a plan without live arrays, while a thread is inside the scope.
#[test]
fn plans_on_other_devices_give_their_blocks() {
    let _turn = turn();
    let (device, other) = (Virtual::new(1 << 40), Virtual::new(1 << 40));
    let _limited = Limited::to(8);
    let (told, has) = channel();
    let (stop, stopped) = channel::<()>();
    scope(|threads| {
        threads.spawn(move || {
            let planned = Scope::new("process limit: planned");
            let step = || drop([3, 3].map(|pages| other.zeros::<u8>(pages * PAGE).unwrap()));
            (0..6).for_each(|_| planned.run(step));
            let inside = planned.enter();
            step();
            told.send(()).unwrap();
            let _ = stopped.recv();
            drop(inside);
            let _ = planned.invalidate();
        });
        has.recv().unwrap();
        let array = device.zeros::<u8>(6 * PAGE);
        stop.send(()).unwrap();
        assert!(array.is_ok_and(|array| array.byte_len() == 6 * PAGE));
    });
    assert_eq!(device.stats().reclaim.step(ReclaimStep::Arenas).served, 1, "{}", device.stats().reclaim);
}

/// All devices together hold more bytes than a number can represent.
#[test]
fn sums_over_devices_do_not_overflow() {
    let _turn = turn();
    let devices = [(); 4].map(|()| Virtual::new(usize::MAX));
    let arrays = devices.each_ref().map(|device| device.zeros::<u8>(isize::MAX as usize).unwrap());
    let _limited = Limited::to(8);
    let shortage = devices[0].zeros::<u8>(PAGE).unwrap_err().shortage().cloned().unwrap();
    assert_eq!((shortage.bound, shortage.process_bytes), (Bound::Process, u64::MAX));
    drop(arrays);
    assert!(devices[0].zeros::<u8>(PAGE).is_ok());
}

/// Sizes and limits at the ends of the range of numbers yield an array or an error, never a panic, and never more than is allowed.
#[test]
fn the_least_and_the_most_that_numbers_say_are_served_or_refused() {
    let _turn = turn();
    let most = isize::MAX as usize;
    let sizes = [0, 1, 255, usize::MAX, usize::MAX - PAGE, most, most - 255, (1 << 47) + 1, 1 << 62, 0, PAGE];
    let recycles = [Recycle::Auto, Recycle::Range, Recycle::Keyed, Recycle::Off];
    for capacity in [usize::MAX, usize::MAX - PAGE, 1 << 63, 1 << 40] {
        for (bound, recycle) in
            [u64::MAX, u64::MAX - 1, 8 << 21, 1, 0].into_iter().flat_map(|b| recycles.map(|recycle| (b, recycle)))
        {
            let device = Virtual::new(capacity);
            device.set_limit(bound).unwrap();
            device.set_limit(Limit::soft(bound / 2)).unwrap();
            for scope_limit in [u64::MAX, u64::MAX - 1, 5 << 20, 0] {
                let scope = Scope::new("process limit: huge").recycle(recycle).limit(scope_limit);
                scope.run(|| {
                    let mut kept = None;
                    for bytes in sizes {
                        let array = device.zeros::<u8>(bytes);
                        assert!(array.is_ok() || bytes > 0);
                        assert!(array.is_err() || bytes as u64 <= bound.min(scope_limit).min(capacity as u64));
                        kept = array.map_err(|error| error.to_string()).ok().or(kept);
                    }
                });
                let _ = scope.invalidate();
            }
            device.trim();
            device.synchronize().unwrap();
            assert_eq!(device.memory().bytes, 0);
        }
    }
}
