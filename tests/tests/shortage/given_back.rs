//! Too little memory: before an allocation fails, all memory goes back that is idle anywhere or waits to be released.
//!
//! The tests take turns, since a shortage on one device takes the idle memory of all scopes of the process.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use std::sync::{Barrier, mpsc};

use gpucache::{Array, cache_scope, invalidate, stats};
use gpucache_tests::conformance::{assert_pattern, patterned};
use gpucache_tests::faulty::{Call, Failure, Fault};
use gpucache_tests::{Faulty, supplied, turn};

#[test]
fn idle_memory_of_another_scope() {
    let _turn = turn();
    let device = Faulty::with_limit(1000);
    cache_scope!("idle elsewhere", { drop(Array::<u8, _>::zeros(&device, 800).unwrap()) });
    let array = cache_scope!("in need", { Array::<u8, _>::zeros(&device, 700).unwrap() });
    assert_eq!(device.live(), [700]);
    assert_eq!(stats("idle elsewhere").unwrap().idle_blocks, 0);
    drop(array);
    let plain = Array::<u8, _>::zeros(&device, 600).expect("outside all scopes as well");
    assert_eq!(device.live(), [600]);
    let error = Array::<u8, _>::zeros(&device, 500).unwrap_err();
    assert!(error.is_out_of_memory() && error.to_string().contains("500"), "{error}");
    drop(plain);
    device.assert_clean();
}

#[test]
fn idle_memory_of_the_same_scope() {
    let _turn = turn();
    let (device, name) = (Faulty::with_limit(1000), "idle and in need");
    cache_scope!(name = name, {
        drop(Array::<u8, _>::zeros(&device, 800).unwrap());
        let busy = patterned(&device, 50, 1).unwrap();
        cache_scope!(name = name, { drop(Array::<u8, _>::zeros(&device, 700).unwrap()) });
        assert!(Array::<u8, _>::zeros(&device, 900).unwrap_err().is_out_of_memory());
        assert_pattern(&busy, 1);
    });
    let stats = stats(name).unwrap();
    assert_eq!((stats.hits, supplied(&stats), stats.busy_blocks, stats.idle_bytes), (0, 3, 0, 200));
    let _ = invalidate(name);
    device.assert_clean();
}

#[test]
fn idle_memory_of_an_outer_scope_and_of_another_thread() {
    let _turn = turn();
    let device = Faulty::with_limit(1000);
    std::thread::scope(|threads| {
        let ((idle, is_idle), (done, is_done)) = (mpsc::channel(), mpsc::channel::<()>());
        let other = threads.spawn({
            let device = &device;
            move || {
                cache_scope!("a thread's idle memory", { drop(Array::<u8, _>::zeros(device, 400).unwrap()) });
                idle.send(()).unwrap();
                is_done.recv().unwrap();
                cache_scope!("a thread's idle memory", { drop(Array::<u8, _>::zeros(device, 400).unwrap()) });
            }
        });
        is_idle.recv().unwrap();
        cache_scope!("an outer scope", {
            drop(Array::<u8, _>::zeros(&device, 500).unwrap());
            drop(cache_scope!("an inner scope", { Array::<u8, _>::zeros(&device, 1000).unwrap() }));
        });
        assert_eq!(device.live(), [1000]);
        let _ = invalidate("an inner scope");
        done.send(()).unwrap();
        other.join().unwrap();
    });
    let _ = invalidate("a thread's idle memory");
    device.assert_clean();
}

#[test]
fn what_a_thread_inside_its_scope_holds_is_left_alone() {
    let _turn = turn();
    let device = Faulty::with_limit(1000);
    std::thread::scope(|threads| {
        let ((entered, is_entered), (done, is_done)) = (mpsc::channel(), mpsc::channel::<()>());
        let other = threads.spawn({
            let device = &device;
            move || {
                cache_scope!("a thread inside", {
                    let busy = patterned(device, 100, 3).unwrap();
                    drop(patterned(device, 90, 4).unwrap());
                    entered.send(()).unwrap();
                    is_done.recv().unwrap();
                    assert_pattern(&busy, 3);
                    drop(patterned(device, 90, 5).unwrap());
                });
            }
        });
        is_entered.recv().unwrap();
        let error = cache_scope!("outside of it", { Array::<u8, _>::zeros(&device, 600).unwrap_err() });
        assert!(error.is_out_of_memory());
        done.send(()).unwrap();
        other.join().unwrap();
    });
    assert_eq!(stats("a thread inside").unwrap().hits, 1);
    let _ = invalidate("a thread inside");
    device.assert_clean();
}

/// Invalidated blocks that still wait for their thread are available memory, too.
#[test]
fn invalidated_memory_of_an_outer_scope() {
    let _turn = turn();
    let (device, name) = (Faulty::with_limit(1000), "outer and invalidated");
    cache_scope!(name = name, {
        drop(Array::<u8, _>::zeros(&device, 800).unwrap());
        cache_scope!("inner of an invalidated one", {
            let answer = std::thread::scope(|threads| threads.spawn(|| invalidate(name)).join().unwrap());
            assert_eq!(answer.bytes, 800);
            drop(Array::<u8, _>::zeros(&device, 700).expect("the invalidated 800 bytes are free to use"));
        });
    });
    let _ = invalidate("inner of an invalidated one");
    device.assert_clean();
}

/// Blocks that other threads dropped, and that no list keeps, are available too.
#[test]
fn returned_memory_of_an_outer_scope() {
    let _turn = turn();
    let (device, name) = (Faulty::with_limit(1000), "outer and returned to");
    cache_scope!(name = name, recycle = "off", {
        let array = Array::<u8, _>::zeros(&device, 800).unwrap();
        cache_scope!("inner of one returned to", {
            std::thread::scope(|threads| threads.spawn(|| drop(array)).join().unwrap());
            drop(Array::<u8, _>::zeros(&device, 700).expect("the dropped 800 bytes are free to use"));
        });
    });
    let _ = invalidate("inner of one returned to");
    device.assert_clean();
}

/// A shortage that passes: the second attempt succeeds, and idle memory stays where it is.
#[test]
fn a_passing_shortage_is_no_error_and_takes_nothing() {
    let _turn = turn();
    let (device, name) = (Faulty::new(), "a passing shortage");
    cache_scope!(name = name, {
        drop(Array::<u8, _>::zeros(&device, 10).unwrap());
        device.arm(Fault::once(1, Failure::OutOfMemory).only(Call::Allocate));
        drop(Array::<u8, _>::zeros(&device, 11).unwrap());
        // In order of address, which other threads of the process change.
        let mut live = device.live();
        live.sort_unstable();
        assert_eq!((device.failures(), live), (1, vec![10, 11]));
        device.arm(Fault::once(1, Failure::Device).only(Call::Allocate));
        let error = Array::<u8, _>::zeros(&device, 12).unwrap_err();
        assert!(error.is_device_failure(), "other failures are not tried again: {error}");
    });
    let _ = invalidate(name);
    device.assert_clean();
}

/// Several threads run out of memory at once. There is enough for all of them, whoever gives the idle memory back.
#[test]
fn threads_in_need_at_once() {
    let _turn = turn();
    let device = Faulty::with_limit(1000);
    for round in 0..500 {
        cache_scope!("idle for several", {
            let _held = [(); 8].map(|()| Array::<u8, _>::zeros(&device, 100).unwrap());
        });
        let (start, all_tried) = (Barrier::new(3), Barrier::new(3));
        let need = || {
            start.wait();
            let array = Array::<u8, _>::zeros(&device, 250);
            all_tried.wait();
            array.map(drop)
        };
        std::thread::scope(|threads| {
            for thread in [(); 3].map(|()| threads.spawn(need)) {
                let answer = thread.join().unwrap();
                assert!(answer.is_ok(), "round {round}: 250 of 1000 bytes for each of three threads: {answer:?}");
            }
        });
    }
    let _ = invalidate("idle for several");
    device.assert_clean();
}
