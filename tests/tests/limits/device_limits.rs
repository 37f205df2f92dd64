//! Limits in bytes, and the reclaim steps of an allocation under a limit. As little memory as possible is reclaimed, from the scope that
//! needs it the least. If nothing helps, the error says why.
//!
//! The tests take turns, because all tests of the process share the scopes.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gpucache::device::{Device, Virtual};
use gpucache::{Array, Recycle, Scope, error::Bound, invalidate, prelude::*, stats::ReclaimStep};
use gpucache_tests::turn;

use super::{PAGE, held_pages, idle_pages, leave_idle};

fn keyed(name: &str) -> Scope<'_> {
    Scope::new(name).recycle(Recycle::Keyed)
}

fn limited(pages: usize) -> Virtual {
    let device = Virtual::new(1 << 30);
    device.set_limit((pages * PAGE) as u64).unwrap();
    device
}

#[test]
fn no_more_than_is_needed_goes_back_the_oldest_first() {
    let _turn = turn();
    let device = limited(12);
    let names = ["limits: first", "limits: second", "limits: third"];
    names.iter().for_each(|name| leave_idle(&device, name, 4));
    leave_idle(&device, names[0], 4); // again: now the second scope was entered least recently
    let array = keyed("limits: in need").run(|| device.zeros::<u8>(2 * PAGE).unwrap());
    assert_eq!(names.map(idle_pages), [4, 2, 4]);
    let more = keyed("limits: in need").run(|| device.zeros::<u8>(3 * PAGE).unwrap());
    assert_eq!(names.map(idle_pages), [4, 0, 3]);
    assert_eq!(held_pages(&device), 12);
    let served = device.stats().reclaim.step(ReclaimStep::OtherScopes);
    assert_eq!((served.served, served.freed_bytes), (2, 5 * PAGE as u64));
    drop((array, more));
    names.iter().chain(&["limits: in need"]).for_each(|name| _ = invalidate(name));
}

#[test]
fn orphans_give_before_scopes_whose_threads_live() {
    let _turn = turn();
    let device = limited(8);
    leave_idle(&device, "limits: alive", 4);
    std::thread::scope(|threads| {
        threads.spawn(|| leave_idle(&device, "limits: ended", 4)).join().unwrap();
    });
    let array = Scope::new("limits: in need").run(|| device.zeros::<u8>(3 * PAGE).unwrap());
    assert_eq!((idle_pages("limits: alive"), idle_pages("limits: ended")), (4, 1));
    drop(array);
    ["limits: alive", "limits: ended", "limits: in need"].iter().for_each(|name| _ = invalidate(name));
}

#[test]
fn free_pages_and_other_devices_come_before_anybody_is_asked() {
    let _turn = turn();
    let (device, other) = (limited(8), limited(8));
    leave_idle(&other, "limits: elsewhere", 8);
    leave_idle(&device, "limits: here", 4);
    // Four pages that are free in the range. Two of the pages that a scope keeps may lie between them.
    let scope = Scope::new("limits: range").recycle(Recycle::Range);
    scope.run(|| drop([device.zeros::<u8>(PAGE).unwrap(), device.zeros::<u8>(3 * PAGE).unwrap()]));
    let _ = invalidate("limits: range");
    let array = Scope::new("limits: in need").run(|| device.zeros::<u8>(4 * PAGE).unwrap());
    assert_eq!((idle_pages("limits: here"), idle_pages("limits: elsewhere")), (4, 8));
    assert_eq!(other.stats().reclaim.shortages(), 0);
    drop(array);
    ["limits: here", "limits: elsewhere", "limits: in need"].iter().for_each(|name| _ = invalidate(name));
}

#[test]
fn what_no_limit_allows_fails_at_once_and_takes_nothing() {
    let _turn = turn();
    let device = limited(8);
    leave_idle(&device, "limits: spared", 8);
    let error = Scope::new("limits: greedy").run(|| device.zeros::<f32>([9, PAGE / 4]).unwrap_err());
    let shortage = error.shortage().unwrap();
    assert_eq!((shortage.bound, shortage.most_bytes), (Bound::Limit, Some(8 * PAGE as u64)));
    assert_eq!((&*shortage.shape, &*shortage.dtype), (&[9, PAGE / 4][..], "f32"));
    assert_eq!(shortage.scope.as_deref(), Some("limits: greedy"));
    assert_eq!((shortage.idle_bytes, shortage.live_bytes), (0, 8 * PAGE as u64), "lists hold blocks of the range");
    assert_eq!((shortage.scopes[0].busy_bytes, shortage.scopes[0].idle_bytes), (0, 8 * PAGE as u64));
    let text = error.to_string();
    assert!(text.contains("16.00 MiB in all by its limit") && text.lines().count() < 24, "{text}");
    assert_eq!((idle_pages("limits: spared"), device.stats().reclaim.failed), (8, 1));
    let _ = invalidate("limits: spared");
}

/// The range takes whole pages, so a limit of less than a page allows nothing in a scope.
#[test]
fn what_needs_a_page_beyond_the_limit_fails_at_once() {
    let _turn = turn();
    let device = Virtual::new(64 * PAGE);
    device.set_limit(PAGE as u64 / 2).unwrap();
    device.set_allocation_timeout(Duration::from_secs(100));
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let _handler = device.on_pressure(move |_| {
        count.fetch_add(1, SeqCst);
    });
    let start = Instant::now();
    let error = Scope::new("limits: less than a page").run(|| device.zeros::<u8>(10).unwrap_err());
    assert!(error.is_out_of_memory() && start.elapsed() < Duration::from_secs(50), "{error}");
    assert_eq!(asked.load(SeqCst), 0);
}

#[test]
fn after_an_error_the_process_goes_on() {
    let _turn = turn();
    let device = limited(8);
    Scope::new("limits: going on").run(|| {
        let held = device.zeros::<u8>(5 * PAGE).unwrap();
        let error = device.zeros::<u8>(4 * PAGE).unwrap_err();
        assert_eq!(error.shortage().map(|shortage| shortage.bound), Some(Bound::Limit));
        let next = device.zeros::<u8>(3 * PAGE).expect("as many are left");
        assert_eq!(held_pages(&device), 8);
        drop((held, next));
    });
    let _ = invalidate("limits: going on");
    assert_eq!(held_pages(&device), 0);
    device.synchronize().unwrap();
}

#[test]
fn a_lower_limit_takes_what_is_idle_at_once() {
    let _turn = turn();
    let device = limited(16);
    let alive = Scope::new("limits: kept").run(|| device.zeros::<u8>(3 * PAGE).unwrap());
    leave_idle(&device, "limits: lowered", 10);
    device.set_limit(8 * PAGE as u64).unwrap();
    assert_eq!((held_pages(&device), idle_pages("limits: lowered")), (8, 5));
    device.set_limit(2 * PAGE as u64).unwrap();
    assert_eq!(held_pages(&device), 3, "what is alive stays");
    assert!(device.zeros::<u8>(1).is_err(), "direct allocations count");
    device.set_limit(u64::MAX).unwrap();
    assert!(device.zeros::<u8>(100 * PAGE).is_ok());
    assert_eq!(device.memory().limit, None);
    drop(alive);
    ["limits: kept", "limits: lowered"].iter().for_each(|name| _ = invalidate(name));
}

/// A plan's block is reclaimed too, once no smaller step helps, and the scope continues.
#[test]
fn a_planned_scope_gives_its_block_and_goes_on() {
    let _turn = turn();
    let device = limited(12);
    let step = || {
        let arrays = [3, 4, 2].map(|pages| device.zeros::<u8>(pages * PAGE).unwrap());
        drop(arrays);
    };
    (0..6).for_each(|_| Scope::new("limits: planned").run(step));
    for _ in 0..20 {
        let other = Scope::new("limits: in turn").run(|| device.zeros::<u8>(8 * PAGE).unwrap());
        drop(other);
        Scope::new("limits: planned").run(step);
        assert!(held_pages(&device) <= 12);
    }
    ["limits: planned", "limits: in turn"].iter().for_each(|name| _ = invalidate(name));
}

type Spare = Arc<Mutex<Vec<Array<u8, Virtual>>>>;

#[test]
fn handlers_are_asked_last_and_one_after_the_other() {
    let _turn = turn();
    let device = limited(8);
    let spare: Spare = Arc::new(Mutex::new((0..6).map(|_| device.zeros(PAGE).unwrap()).collect()));
    let (calls, gives) = (Arc::new(Mutex::new(Vec::new())), spare.clone());
    let told = calls.clone();
    let panics = device.on_pressure(|_| panic!("a handler's own fault"));
    let gives = device.on_pressure(move |pressure| {
        told.lock().unwrap().push((pressure.bytes as usize / PAGE, pressure.scope.clone(), pressure.shape.to_vec()));
        // A handler may do anything: enter scopes, allocate with or without success, invalidate.
        Scope::new("limits: handled").run(|| assert!(device_of(&gives).zeros::<u8>(8 * PAGE).is_err()));
        let _ = invalidate("limits: handled");
        gives.lock().unwrap().truncate(2);
    });
    let never = device.on_pressure(|_| unreachable!("the second one gave enough"));
    let array = Scope::new("limits: pressing").run(|| device.zeros::<u8>([5, PAGE]).unwrap());
    assert_eq!(*calls.lock().unwrap(), [(5, Some("limits: pressing".into()), vec![5, PAGE])]);
    let step = device.stats().reclaim.step(ReclaimStep::Handlers);
    assert_eq!((step.tried, step.served, spare.lock().unwrap().len()), (1, 1, 2));
    drop((never, gives, panics, array));
    assert!(device.zeros::<u8>(7 * PAGE).is_err(), "they are gone");
    let _ = invalidate("limits: pressing");
}

fn device_of(spare: &Spare) -> Virtual {
    spare.lock().unwrap()[0].device().clone()
}

const CHILD: &str = "LIMITS_CHILD";

/// The effect of a limit in the environment: the limit of the device, or the error of the first call.
fn of_environment(text: &str) -> String {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "device_limits::in_an_environment", "--nocapture"])
        .env("GPUCACHE_LIMIT", text)
        .env(CHILD, "1");
    let output = String::from_utf8(child.output().unwrap().stdout).unwrap();
    let line = output.lines().find_map(|line| line.split_once("limit: "));
    line.unwrap_or_else(|| panic!("{output}")).1.to_owned()
}

/// The part of the child process.
#[test]
fn in_an_environment() {
    let _turn = turn();
    if std::env::var_os(CHILD).is_some() {
        let device = Virtual::new(1000 * PAGE);
        match device.zeros::<u8>(1) {
            Ok(_) => println!("limit: {:?}", device.memory().limit),
            Err(error) => {
                println!("limit: {error}");
                let next = device.zeros::<u8>(1).unwrap_err();
                assert_eq!(next.shortage().map(|shortage| shortage.most_bytes), Some(Some(0)), "{next}");
                device.set_limit("none").unwrap();
            }
        }
        assert!(device.zeros::<u8>(1).is_ok());
    }
}

#[test]
fn the_environment_limits_a_device_without_a_change_of_code() {
    let _turn = turn();
    let answers = ["64MiB", " 20 GB", "4096", "25%"].map(of_environment);
    let expected = [64 << 20, 20_000_000_000, 4096, 250 * PAGE].map(|bytes| format!("Some({bytes})"));
    assert_eq!(answers, expected);
    assert_eq!(["none", "soft 1GiB", "", " "].map(of_environment), ["None"; 4], "no hard limit");
    let error = of_environment("a lot");
    assert!(error.contains("GPUCACHE_LIMIT") && error.contains("\"a lot\"") && error.contains("20GiB"), "{error}");
}
