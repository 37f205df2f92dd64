//! Allocations that wait for other threads to drop something, for at most the allocation timeout.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use gpucache::device::Virtual;
use gpucache::prelude::*;
use gpucache::{Recycle, Scope, stats, stats::ReclaimStep};
use gpucache_tests::process::in_one_of;
use gpucache_tests::turn;

const PAGE: usize = 2 << 20;
/// Longer than any thread of a test takes. So a wait in vain fails the test, and a busy machine does not.
const LONG: Duration = Duration::from_secs(60);
/// How long a thread holds the memory that another thread waits for.
const WHILE: Duration = Duration::from_millis(20);

fn limited(most: Duration) -> Virtual {
    let device = Virtual::new(1 << 40);
    device.set_limit(8 * PAGE as u64).unwrap();
    device.set_allocation_timeout(most);
    device
}

/// The memory that one thread holds while another thread requests it. The thread is told when it has the memory, and has to stop a
/// while later.
fn hold(device: &Virtual, work: impl FnOnce(&Virtual, &Sender<()>) + Send) -> gpucache::Result<()> {
    let (told, has): (_, Receiver<()>) = channel();
    scope(|threads| {
        threads.spawn(move || work(device, &told));
        has.recv().unwrap();
        Scope::new("timeout: waits").run(|| device.zeros::<u8>(6 * PAGE).map(drop))
    })
}

/// Checks that the call was served after the other thread had dropped something: mostly by waiting, or earlier if this thread came
/// late.
fn is_served(device: &Virtual) {
    let reclaim = device.stats().reclaim;
    assert_eq!((reclaim.shortages(), reclaim.failed), (1, 0), "{reclaim}");
}

#[test]
fn an_allocation_waits_for_arrays_of_no_scope() {
    let _turn = turn();
    in_one_of(5, || {
        let device = limited(LONG);
        // Other tests use the scope too.
        let served = || stats("timeout: waits").map_or(0, |stats| stats.reclaim.shortages() - stats.reclaim.failed);
        let before = served();
        let answer = hold(&device, |device, told| {
            let array = device.zeros::<u8>(4 * PAGE).unwrap();
            told.send(()).unwrap();
            sleep(WHILE);
            drop(array);
        });
        answer.unwrap();
        is_served(&device);
        assert_eq!(served() - before, 1);
        let _ = invalidate("timeout: waits");
    });
}

/// Memory that a thread drops within its plan can be taken while the thread stays inside. Memory in its lists can be taken once it
/// is outside.
#[test]
fn an_allocation_waits_for_plans_and_for_lists() {
    let _turn = turn();
    for recycle in [Recycle::Auto, Recycle::Keyed] {
        in_one_of(5, || {
            let (device, name) = (limited(LONG), format!("timeout: held {recycle:?}"));
            let answer = hold(&device, |device, told| {
                let held = Scope::new(&name).recycle(recycle);
                (0..6).for_each(|_| held.run(|| drop(device.zeros::<u8>(4 * PAGE).unwrap())));
                let inside = held.enter();
                let array = device.zeros::<u8>(4 * PAGE).unwrap();
                told.send(()).unwrap();
                sleep(WHILE);
                drop(array);
                sleep(WHILE);
                drop(inside);
            });
            answer.unwrap();
            is_served(&device);
            ["timeout: waits", &name].iter().for_each(|name| _ = invalidate(name));
        });
    }
}

#[test]
fn the_time_is_bounded() {
    let _turn = turn();
    for most in [Duration::ZERO, WHILE, 3 * WHILE] {
        let device = limited(most);
        let _held = device.zeros::<u8>(4 * PAGE).unwrap();
        let start = Instant::now();
        assert!(device.zeros::<u8>(6 * PAGE).unwrap_err().is_out_of_memory());
        assert!(start.elapsed() >= most && start.elapsed() < most + LONG / 10);
        let tried = device.stats().reclaim.step(ReclaimStep::OtherThreads).tried;
        assert_eq!(tried, u64::from(most > Duration::ZERO));
    }
}

#[test]
fn what_there_never_is_is_not_waited_for() {
    let _turn = turn();
    let device = limited(LONG);
    let start = Instant::now();
    assert!(device.zeros::<u8>(9 * PAGE).is_err());
    let scope = Scope::new("timeout: limited").limit(PAGE as u64);
    assert!(scope.run(|| device.zeros::<u8>(2 * PAGE)).is_err());
    assert!(start.elapsed() < LONG / 2);
}

/// Handlers run after the timeout. They do not run if other threads drop enough before.
#[test]
fn handlers_are_called_after_it() {
    let _turn = turn();
    in_one_of(5, || {
        let device = limited(LONG);
        let never = device.on_pressure(|_| unreachable!("another thread drops enough"));
        let answer = hold(&device, |device, told| {
            let array = device.zeros::<u8>(4 * PAGE).unwrap();
            told.send(()).unwrap();
            sleep(WHILE);
            drop(array);
        });
        answer.unwrap();
        drop(never);
        let _ = invalidate("timeout: waits");
        device.set_allocation_timeout(WHILE);
        let held = std::sync::Mutex::new(Some(device.zeros::<u8>(4 * PAGE).unwrap()));
        let _gives = device.on_pressure(move |_| drop(held.lock().unwrap().take()));
        let start = Instant::now();
        assert!(device.zeros::<u8>(6 * PAGE).is_ok());
        assert!(start.elapsed() >= WHILE);
        let reclaim = device.stats().reclaim;
        assert_eq!(
            (reclaim.step(ReclaimStep::OtherThreads).served, reclaim.step(ReclaimStep::Handlers).served),
            (1, 1),
            "{reclaim}"
        );
        assert_eq!(reclaim.step(ReclaimStep::OtherThreads).tried, 2);
    });
}
