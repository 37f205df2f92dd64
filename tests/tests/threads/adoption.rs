//! Threads that come and go. Each goes on with the memory that the one before left, and all threads can get memory that nobody
//! uses.
//!
//! The tests take turns, since a shortage on one device takes the idle memory of all scopes of the process.

use std::cell::RefCell;

use gpucache::device::{Device, Virtual};
use gpucache::prelude::*;
use gpucache::{Array, cache_scope, invalidate, stats};
use gpucache_tests::conformance::{assert_pattern, patterned};
use gpucache_tests::{Faulty, supplied, turn};

const MIB: usize = 1 << 20;

/// Runs `act` on a thread of its own, to the very end of the thread.
fn on_a_thread<R: Send>(act: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|threads| threads.spawn(act).join().unwrap())
}

/// A step whose arrays overlap, so that a plan is worth having.
fn step<D: Device>(device: &D, name: &str) {
    cache_scope!(name = name, {
        let mut last = None;
        for layer in 1..20 {
            let _scratch = Array::<u8, D>::zeros(device, layer * MIB).unwrap();
            last = Some(Array::<u8, D>::zeros(device, (20 - layer) * MIB).unwrap());
        }
        drop(last);
    });
}

#[test]
fn threads_in_turn_share_a_plan() {
    let _turn = turn();
    let (device, name) = (Virtual::new(1 << 34), "threads in turn");
    let calls = || (device.memory().times_taken(), device.memory().times_given_back());
    (0..5).for_each(|_| on_a_thread(|| step(&device, name)));
    let (warm, planned) = (calls(), stats(name).unwrap().served.planned.allocations);
    for thread in 5..100 {
        on_a_thread(|| step(&device, name));
        assert_eq!(calls(), warm, "allocations and frees of the device after {thread} threads");
    }
    assert_eq!(stats(name).unwrap().served.planned.allocations - planned, 95 * 38, "every allocation is planned");
    let _ = invalidate(name);
    device.trim();
    assert_eq!(device.memory().bytes, 0);
}

/// Two scopes, and an order of threads that changes. So the new thread has never had a cache of either scope.
#[test]
fn a_scope_finds_its_cache_whoever_comes() {
    let _turn = turn();
    let (device, names) = (Faulty::new(), ["whoever comes, a", "whoever comes, b"]);
    let visit = |name: &str| cache_scope!(name = name, { drop(patterned(&device, 100, 1).unwrap()) });
    on_a_thread(|| {
        visit(names[0]);
        on_a_thread(|| visit(names[1]));
    });
    (0..10).for_each(|round| on_a_thread(|| visit(names[round % 2])));
    assert_eq!(names.map(|name| supplied(&stats(name).unwrap())), [1, 1]);
    assert_eq!(device.live(), [400, 400]);
    names.iter().for_each(|name| _ = invalidate(name));
    device.assert_clean();
}

/// Memory that a thread left idle in one scope serves another scope of another thread, before the device is asked for more.
#[test]
fn an_orphans_idle_memory_serves_another_scope() {
    let _turn = turn();
    for recycle in ["auto", "range"] {
        let (device, left) = (Virtual::new(1 << 34), format!("left behind, {recycle}"));
        on_a_thread(|| match recycle {
            "auto" => (0..5).for_each(|_| step(&device, &left)),
            _ => cache_scope!(name = &left, recycle = "range", {
                drop(Array::<u8, _>::zeros(&device, 32 * MIB).unwrap());
            }),
        });
        let before = device.memory();
        assert!(stats(&left).unwrap().idle_bytes >= 20 << 20, "{:?}", stats(&left));
        cache_scope!("heir", { drop(Array::<u8, _>::zeros(&device, 20 * MIB).unwrap()) });
        assert_eq!(device.memory().bytes, before.bytes, "{recycle}: nothing more is reserved");
        assert_eq!(device.memory().times_taken(), before.times_taken(), "{recycle}: the device is not asked");
        let _ = (invalidate(&left), invalidate("heir"));
        device.trim();
        assert_eq!(device.memory().bytes, 0);
    }
}

/// Orphans of more scopes than a small device has room for, of every kind.
#[test]
fn a_small_device_does_not_run_out() {
    let _turn = turn();
    let device = Virtual::new(64 * MIB);
    for scope in 0..40 {
        let name = format!("orphan {scope}");
        on_a_thread(|| {
            for _ in 0..4 {
                let take = || drop(Array::<u8, _>::zeros(&device, 40 * MIB).unwrap());
                match scope % 3 {
                    0 => cache_scope!(name = &name, { take() }),
                    1 => cache_scope!(name = &name, recycle = "range", { take() }),
                    _ => cache_scope!(name = &name, recycle = "keyed", { take() }),
                }
            }
        });
    }
    (0..40).for_each(|scope| _ = invalidate(format!("orphan {scope}")));
    device.trim();
    assert_eq!(device.memory().bytes, 0);
}

/// Each thread has a stream of its own. Only the last stream and its blocks are kept.
#[test]
fn a_stream_for_every_thread() {
    let _turn = turn();
    let (device, name, mut forgotten) = (Faulty::new(), "a stream for every thread", 0);
    for _ in 0..100 {
        let stream = device.another_stream();
        on_a_thread(|| {
            cache_scope!(name = name, recycle = "keyed", {
                drop(patterned(&stream, 10, 1).unwrap());
                drop(patterned(&stream, 20, 1).unwrap());
            });
        });
        assert!(device.live().len() <= 2, "{:?}", device.live());
        forgotten += u64::from(device.live().is_empty());
    }
    assert!(forgotten > 0, "keys of streams that are gone are forgotten now and then");
    let _ = invalidate(name);
    device.assert_clean();
}

/// Each thread learns a plan of its own. Only the last device is kept.
#[test]
fn a_device_for_every_thread() {
    let _turn = turn();
    let name = "a device for every thread";
    let mut last: Option<Virtual> = None;
    for thread in 0..10 {
        let (device, before) = (Virtual::new(1 << 34), stats(name).unwrap_or_default().served.planned.allocations);
        on_a_thread(|| (0..8).for_each(|_| step(&device, name)));
        let planned = stats(name).unwrap().served.planned.allocations - before;
        assert!(planned >= 4 * 38, "thread {thread}: {planned} of 304 allocations were planned");
        let left = last.replace(device).map_or(0, |last| {
            last.trim();
            last.memory().bytes
        });
        assert_eq!(left, 0, "thread {thread}");
    }
    let _ = invalidate(name);
}

/// The thread leaves the scope by ending, in the middle of a planned entry, with live arrays.
#[test]
fn an_end_within_a_planned_entry() {
    use gpucache::{Recycle, Scope};
    let _turn = turn();
    let (device, name) = (Virtual::new(1 << 34), "an end within an entry");
    for round in 0..20 {
        (0..5).for_each(|_| on_a_thread(|| step(&device, name)));
        let escaped = on_a_thread(|| {
            std::mem::forget(Scope::new(name).recycle(Recycle::Auto).enter());
            drop(Array::<u8, _>::zeros(&device, MIB).unwrap());
            Array::<u8, _>::zeros(&device, 19 * MIB).unwrap()
        });
        assert_eq!(stats(name).unwrap().busy_blocks, 1, "round {round}");
        on_a_thread(|| step(&device, name));
        drop(escaped);
        assert_eq!(stats(name).unwrap().busy_blocks, 0, "round {round}");
    }
    assert!(stats(name).unwrap().served.planned.allocations > 20 * 38, "{:?}", stats(name));
    let _ = invalidate(name);
    device.trim();
    assert_eq!(device.memory().bytes, 0);
}

/// Thread-locals drop arrays before and after the thread's own stack of scopes is gone. The arrays return home for the next thread,
/// which may be inside the scope already.
#[test]
fn thread_locals_that_end_late() {
    thread_local! {
        static KEPT: RefCell<Vec<Array<u32, Host>>> = const { RefCell::new(Vec::new()) };
    }
    let _turn = turn();
    let (host, name) = (Host::new(), "thread-locals that end late");
    for round in 0..100 {
        on_a_thread(|| {
            if round % 2 == 0 {
                KEPT.with_borrow_mut(Vec::clear);
            }
            cache_scope!(name = name, recycle = "keyed", {
                let array = patterned(&host, 100, round).unwrap();
                assert_pattern(&array, round);
                KEPT.with_borrow_mut(|kept| kept.push(array));
            });
        });
        let found = stats(name).unwrap();
        assert_eq!((supplied(&found), found.busy_blocks, found.idle_blocks), (1, 0, 1), "round {round}");
    }
}

/// Threads at once, again and again: there are as many caches as threads at one time.
#[test]
fn threads_at_once_and_again() {
    let _turn = turn();
    let (device, name) = (Faulty::new(), "threads at once");
    for _ in 0..50 {
        let arrays: Vec<Array<u32, Faulty>> = std::thread::scope(|threads| {
            let work = || cache_scope!(name = name, recycle = "keyed", { patterned(&device, 100, 7).unwrap() });
            let threads = [(); 4].map(|()| threads.spawn(work));
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        arrays.iter().for_each(|array| assert_pattern(array, 7));
    }
    assert!(supplied(&stats(name).unwrap()) <= 16, "{:?}", stats(name));
    let _ = invalidate(name);
    device.assert_clean();
}
