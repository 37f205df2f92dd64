//! Names that come and go. A new name for each request does not make the process grow without end, and a name in use keeps
//! everything.
//!
//! `NAMES` sets the number of names, 4,000 by default. The tests take turns, because they measure the size of the whole process.
#![allow(clippy::unwrap_used)]

use std::sync::Barrier;

use gpucache::device::{Device, Host, Virtual};
use gpucache::offload::{Placed, Placement};
use gpucache::stats::ThreadStats;
use gpucache::{Array, Scope, cache_scope, invalidate, stats};
use gpucache_tests::conformance::{assert_pattern, patterned};
use gpucache_tests::counting::{Counting, held_bytes};
use gpucache_tests::names::{Names, request, requests};
use gpucache_tests::process::{number, resident};
use gpucache_tests::turn;

#[global_allocator]
static COUNTING: Counting = Counting;

/// The most bytes that a name may take for good: its text, and its counters on one thread.
const A_NAME: usize = 750;

/// A new name for each request: a name that is never entered again leaves little memory, and none of its cached memory.
#[test]
fn names_that_never_come_again_do_not_add_up() {
    let _turn = turn();
    let device = Virtual::unchecked(1 << 40);
    let serve = |number: usize| {
        let names = Names::new(number);
        for number in 0..number {
            (0..4).for_each(|_| request(&device, &names.name(number)));
        }
    };
    let names = number("NAMES").unwrap_or(4_000) as usize;
    let warming = names / 4 + 1_000;
    serve(warming);
    let before = (resident(), held_bytes());
    serve(names);
    let heap = held_bytes() - before.1;
    let grown = before.0.zip(resident()).map_or(0, |(early, late)| late.saturating_sub(early));
    println!("{names} names after {warming}: {heap} bytes on the heap, {grown} resident");
    let is_little = heap <= (names * A_NAME) as i64 && grown <= (names * A_NAME) as u64 + (2 << 20);
    assert!(is_little, "{names} names: {heap} bytes on the heap, {grown} resident");
}

/// A name that was forgotten and comes again has counted nothing yet.
#[test]
fn the_statistics_of_a_forgotten_name_do_not_return() {
    let _turn = turn();
    let device = Virtual::unchecked(1 << 40);
    let array = Placed::<u8, _>::zeros(&device, 1000).unwrap();
    let entry = |moves: bool| {
        Scope::new("forgotten and new").run(|| {
            if moves {
                array.set_placement(Placement::Host).unwrap();
                array.set_placement(Placement::Device).unwrap();
            }
        });
        stats("forgotten and new").unwrap()
    };
    assert_eq!(entry(true).offload.evictions, 1);
    let mut others = 0;
    while stats("forgotten and new").is_some() {
        Scope::new(&format!("another name {others}")).run(|| ());
        others += 1;
        assert!(others < 10_000, "the name is not forgotten");
    }
    let new = entry(false);
    assert_eq!((new.entries, new.offload.evictions), (1, 0));
    assert_eq!(entry(true).offload.evictions, 1);
}

/// A device goes with its last handle and array, whatever scopes fetched its placed arrays.
#[test]
fn a_recorded_order_keeps_no_device() {
    let _turn = turn();
    let is_known = |device| stats::process().devices.iter().any(|known| known.device == device);
    for entries in 1..5 {
        let device = Virtual::new(1 << 30);
        device.set_limit(4 << 20).unwrap();
        let some: Vec<_> = (0..4).map(|_| Placed::<u8, _>::zeros(&device, 2 << 20).unwrap()).collect();
        let use_all = || some.iter().for_each(|array| drop(array.fetch().unwrap()));
        let owned = Scope::new("a recorded order").owned();
        (0..entries).for_each(|_| owned.run(use_all));
        (0..entries).for_each(|_| cache_scope!(a_recorded_order, { use_all() }));
        let number = device.stats().device;
        assert!(is_known(number));
        drop((some, device));
        assert!(!is_known(number), "after {entries} entries");
    }
}

/// The arrays of a name stay its own, however many names come after it, and nobody else gets their memory.
#[test]
fn a_name_with_an_array_in_use_is_not_forgotten() {
    const KEPT: usize = 50;
    let _turn = turn();
    // The device checks that live memory is not handed out.
    let device = Virtual::new(1 << 40);
    let names = Names::new(KEPT);
    let make = |number| {
        cache_scope!(name = names.name(number), {
            drop(Array::<u8, _>::zeros(&device, 100).unwrap());
            Array::<u8, _>::zeros(&device, 1000 + number).unwrap()
        })
    };
    let kept: Vec<_> = (0..KEPT).map(make).collect();
    let _others = requests(&device, 8_000);
    device.synchronize().unwrap();
    for (number, array) in kept.into_iter().enumerate() {
        let found = stats(names.name(number)).unwrap();
        assert_eq!((found.entries, found.busy_blocks, found.busy_bytes), (1, 1, 1000 + number as u64));
        drop(array);
        let found = stats(names.name(number)).unwrap();
        assert_eq!((found.busy_blocks, found.busy_bytes), (0, 0), "it came home");
        assert_eq!(invalidate(names.name(number)).busy_blocks, 0);
        assert_eq!(stats(names.name(number)).unwrap_or_default().idle_blocks, 0);
    }
    device.synchronize().unwrap();
}

/// The same on the host, where the contents can be checked.
#[test]
fn arrays_of_old_names_keep_their_contents() {
    let _turn = turn();
    let host = Host::new();
    let names = Names::new(8_000);
    let mut kept = Vec::new();
    for number in 0..8_000 {
        cache_scope!(name = names.name(number), {
            let array = patterned(&host, 40, number as u32).unwrap();
            if number % 100 == 0 {
                kept.push((array, number as u32));
            }
        });
    }
    kept.iter().for_each(|(array, seed)| assert_pattern(array, *seed));
}

/// The counters of a name stay as long as it is used now and then.
#[test]
fn a_name_in_use_keeps_its_statistics() {
    let _turn = turn();
    let device = Virtual::unchecked(1 << 40);
    let (names, used) = (Names::new(8_000), Names::new(1).name(0));
    for number in 0..8_000 {
        if number % 100 == 0 {
            request(&device, &used);
        }
        request(&device, &names.name(number));
    }
    let found = stats(&used).unwrap();
    assert_eq!((found.entries, found.allocations()), (80, 160));
    assert!(found.hits > 120, "what it kept served it: {found:?}");
    let last = stats(names.name(7_999)).unwrap();
    assert_eq!((last.entries, last.allocations()), (1, 2));
}

/// A thread forgets a name, and the cache of another thread takes its place in the statistics. Each thread is compared with itself.
#[test]
fn threads_are_compared_with_themselves_after_one_forgot_the_name() {
    let _turn = turn();
    let (device, name) = (Virtual::unchecked(1 << 40), Names::new(1).name(0));
    let enter = |times| (0..times).for_each(|_| request(&device, &name));
    let step = Barrier::new(2);
    std::thread::scope(|threads| {
        enter(5);
        threads.spawn(|| {
            enter(1);
            (0..2).for_each(|_| _ = step.wait());
            enter(3);
            (0..2).for_each(|_| _ = step.wait());
        });
        step.wait();
        let before = stats(&name).unwrap();
        let _others = requests(&device, 8_000);
        (0..2).for_each(|_| _ = step.wait());
        let between = stats(&name).unwrap();
        threads.spawn(|| enter(2)).join().unwrap();
        let after = stats(&name).unwrap();
        step.wait();
        let entries = |threads: &[ThreadStats]| threads.iter().map(|thread| thread.stats.entries).collect::<Vec<_>>();
        let since = after.since(&before);
        assert_eq!((entries(&before.threads), entries(&after.threads)), (vec![5, 1], vec![4, 2]));
        assert_eq!((entries(&since.threads), since.entries), (vec![3, 2], 5));
        assert_eq!(entries(&after.since(&between).threads), [0, 2]);
        let text = serde_json::to_string(&before).unwrap();
        assert_eq!(after.since(&serde_json::from_str(&text).unwrap()), since, "also if it was written and read");
    });
}
