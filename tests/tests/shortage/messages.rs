//! The messages of out-of-memory errors: each figure names its owner, and the advice follows from who has the memory.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use std::sync::mpsc;

use gpucache::device::{Device, Virtual};
use gpucache::offload::Placed;
use gpucache::prelude::*;
use gpucache::{Recycle, Scope};
use gpucache_tests::turn;

const PAGE: usize = 2 << 20;

/// The scope holds nothing, and the device much: each figure says whose it is.
#[test]
fn the_error_of_a_scope_tells_what_the_scope_reserves() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    let weights = Scope::new("messages: weights").run(|| device.zeros::<u8>(300 << 20).unwrap());
    let scope = Scope::new("messages: limited").limit("1MiB");
    let error = scope.run(|| device.zeros::<u8>(2 << 20).unwrap_err());
    let (text, shortage) = (error.to_string(), error.shortage().unwrap());
    assert_eq!((shortage.scope_bytes, shortage.held_bytes), (Some(0), 300 << 20));
    assert!(text.contains("the scope's limit is 1.00 MiB; the scope reserves 0 bytes on this thread"), "{text}");
    assert!(text.contains("gpucache reserves 300.00 MiB of the device"), "{text}");
    assert!(text.contains("raise the limit of the scope"), "{text}");
    drop(weights);
    // The scope reserves most of what it may.
    let kept = scope.run(|| device.zeros::<u8>(700_000).unwrap());
    let text = scope.run(|| device.zeros::<u8>(700_000).unwrap_err()).to_string();
    assert!(text.contains("683.59 KiB do not fit: "), "{text}");
    assert!(text.contains(" of at most 1.00 MiB are reserved by the scope on this thread"), "{text}");
    drop(kept);
    let _ = (invalidate("messages: weights"), scope.invalidate());
}

/// Arrays of no scope have most of the device, beside those of a scope.
#[test]
fn arrays_outside_of_scopes_are_named_as_owners() {
    let _turn = turn();
    let device = Virtual::new(8 * PAGE);
    let outside = device.zeros::<u8>(6 * PAGE).unwrap();
    let inside = Scope::new("messages: inside").run(|| device.zeros::<u8>(PAGE).unwrap());
    let error = Scope::new("messages: inside").run(|| device.zeros::<u8>(2 * PAGE).unwrap_err());
    let (text, shortage) = (error.to_string(), error.shortage().unwrap());
    assert_eq!((shortage.outside_bytes, shortage.reserved_bytes), (6 * PAGE as u64, PAGE as u64));
    assert!(text.contains("\narrays of no scope or with `recycle = \"off\"`, and graphs, have 12.00 MiB\n"), "{text}");
    drop(outside);
    let text = Scope::new("messages: inside").run(|| device.zeros::<u8>(8 * PAGE).unwrap_err()).to_string();
    assert!(!text.contains("outside of scopes"), "{text}");
    drop(inside);
    let _ = invalidate("messages: inside");
}

/// Guards have all of the device, on the one thread that there is.
#[test]
fn fetched_guards_are_what_is_to_be_dropped() {
    let _turn = turn();
    let device = Host::new_stream().unwrap();
    device.set_limit(device.memory().bytes + 8 * PAGE as u64).unwrap();
    let arrays: Vec<_> = (0..4).map(|_| Placed::new(device.zeros::<u8>(2 * PAGE).unwrap()).unwrap()).collect();
    let guards: Vec<_> = arrays.iter().map(|array| array.fetch().unwrap()).collect();
    let error = device.zeros::<u8>(2 * PAGE).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.shortage().unwrap().fetched_bytes, 8 * PAGE as u64);
    assert!(
        text.contains("drop guards of fetched arrays, which keep 16.00 MiB on the device, raise the limit"),
        "{text}"
    );
    assert!(!text.contains("invalidate") && !text.contains("thread leave"), "{text}");
    drop(guards);
    drop(device.zeros::<u8>(2 * PAGE).unwrap());
    drop(arrays);
    device.set_limit(u64::MAX).unwrap();
    device.trim();
}

/// Another thread is inside a scope that keeps idle memory: the advice names that scope.
#[test]
fn a_scope_that_another_thread_is_inside_of_is_named() {
    let _turn = turn();
    let device = Virtual::new(8 * PAGE);
    let (is_inside, inside) = mpsc::channel();
    let (leave, leaves) = mpsc::channel::<()>();
    std::thread::scope(|threads| {
        let device = &device;
        threads.spawn(move || {
            Scope::new("messages: elsewhere").recycle(Recycle::Keyed).run(|| {
                drop(device.zeros::<u8>(6 * PAGE).unwrap());
                is_inside.send(()).unwrap();
                leaves.recv().unwrap();
            });
        });
        inside.recv().unwrap();
        let answer = device.zeros::<u8>(4 * PAGE);
        leave.send(()).unwrap();
        let text = answer.unwrap_err().to_string();
        assert!(text.contains("have the other thread leave the scope `messages: elsewhere`"), "{text}");
        assert!(text.contains("keeps 12.00 MiB idle") && !text.contains("drop arrays"), "{text}");
    });
    assert!(device.zeros::<u8>(4 * PAGE).is_ok());
    let _ = invalidate("messages: elsewhere");
}

/// A request of more than there is: nobody can give that up.
#[test]
fn a_request_of_more_than_all_is_to_be_checked() {
    let _turn = turn();
    let device = Virtual::new(8 * PAGE);
    let of = |bytes| device.zeros::<u8>(bytes).unwrap_err().to_string();
    assert!(of(9 * PAGE).contains("check the shape or work in smaller pieces"), "{}", of(9 * PAGE));
    device.set_limit("8MiB").unwrap();
    assert!(
        of(5 * PAGE).contains("check the shape, raise the limit of the device or work in smaller pieces"),
        "{}",
        of(5 * PAGE)
    );
}
