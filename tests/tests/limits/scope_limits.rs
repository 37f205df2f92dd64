//! The limit of a scope. The scope never holds more on a thread. It frees idle memory before it fails, and fails only if its live memory
//! leaves too little.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use fastrand::Rng;
use gpucache::device::{Device, Virtual};
use gpucache::prelude::*;
use gpucache::{Array, Recycle, Scope, error::Bound, invalidate, stats};
use gpucache_tests::seeds;
use gpucache_tests::turn;

const MIB: usize = 1 << 20;
const RECYCLES: [Recycle; 4] = [Recycle::Auto, Recycle::Range, Recycle::Keyed, Recycle::Off];

/// The memory that a scope holds now, live and idle.
fn held(name: &str) -> (u64, u64) {
    let stats = stats(name).unwrap();
    (stats.busy_bytes, stats.idle_bytes)
}

#[cache_scope("limited: attribute", limit = 3 * MIB as u64)]
fn attribute(device: &Virtual, mib: usize) -> gpucache::Result<Array<u8, Virtual>> {
    device.zeros(mib * MIB)
}

#[test]
fn both_macros_and_the_value_say_it() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    let most = 3 * MIB as u64;
    let block = |mib| gpucache::cache_scope!("limited: block", limit = most, { device.zeros::<u8>(mib * MIB) });
    let value = |mib| Scope::new("limited: value").limit(most).run(|| device.zeros::<u8>(mib * MIB));
    let owned = Scope::new("limited: owned").limit(most).owned();
    for (fits, not) in [
        (attribute(&device, 3).is_ok(), attribute(&device, 4)),
        (block(3).is_ok(), block(4)),
        (value(3).is_ok(), value(4)),
        (owned.run(|| device.zeros::<u8>(3 * MIB)).is_ok(), owned.run(|| device.zeros::<u8>(4 * MIB))),
    ] {
        let error = not.unwrap_err();
        let shortage = error.shortage().unwrap();
        assert_eq!((fits, shortage.bound, shortage.most_bytes), (true, Bound::Scope, Some(most)));
        assert!(error.to_string().contains("the scope has 3.00 MiB in all by its limit"), "{error}");
    }
    assert!(block(3).is_ok(), "the scope goes on");
    assert_eq!(stats("limited: block").unwrap().reclaim.failed, 1);
    ["attribute", "block", "value"].iter().for_each(|name| _ = invalidate(format!("limited: {name}")));
}

#[test]
fn a_lower_limit_takes_what_is_idle_when_the_scope_is_entered() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    let scope = Scope::new("limited: lowered").recycle(Recycle::Keyed);
    scope.run(|| drop([(); 8].map(|()| device.zeros::<u8>(MIB).unwrap())));
    assert_eq!(held("limited: lowered"), (0, 8 * MIB as u64));
    scope.limit(3 * MIB as u64).run(|| assert_eq!(held("limited: lowered"), (0, 3 * MIB as u64)));
    let _ = scope.invalidate();
}

/// An inner entry may have another limit. The outer entry's limit applies again afterwards, even if the inner scope keeps nothing.
#[test]
fn the_newest_entry_decides() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    for (outer, inner) in RECYCLES.into_iter().flat_map(|outer| RECYCLES.map(|inner| (outer, inner))) {
        let scope = Scope::new("limited: nested").limit(2 * MIB as u64).recycle(outer);
        scope.run(|| {
            let wider = scope.limit(u64::MAX).recycle(inner).run(|| device.zeros::<u8>(4 * MIB).unwrap());
            drop(wider);
            assert!(device.zeros::<u8>(3 * MIB).is_err(), "{outer:?}, {inner:?}");
            assert!(device.zeros::<u8>(2 * MIB).is_ok(), "{outer:?}, {inner:?}");
        });
        let _ = scope.invalidate();
    }
}

/// This also holds if an entry of the scope is already open and continues after the inner one is left.
#[test]
fn what_is_idle_goes_back_between_entries_of_one_scope_too() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    let scope = Scope::new("limited: between").recycle(Recycle::Keyed);
    let leave_idle = || drop([(); 8].map(|()| device.zeros::<u8>(MIB).unwrap()));
    scope.limit(5 * MIB as u64).run(|| {
        scope.run(leave_idle);
        assert_eq!(held("limited: between"), (0, 5 * MIB as u64));
        scope.limit(3 * MIB as u64).run(|| assert_eq!(held("limited: between"), (0, 3 * MIB as u64)));
    });
    let _ = scope.invalidate();
}

/// An entry that repeats and sometimes deviates, under a limit that allows all of it, or nearly all.
fn play(seed: u64) {
    let rng = &mut Rng::with_seed(seed);
    let device = Virtual::new(1 << 30);
    let name = format!("limited: random {}", seed % 8);
    let sizes: Vec<usize> = (0..rng.usize(2..=8)).map(|_| rng.usize(1..4 * MIB)).collect();
    let most = (sizes.iter().sum::<usize>() as f64 * (0.4 + rng.f64())) as u64;
    let recycles = [Recycle::Auto, Recycle::Auto, Recycle::Range, Recycle::Keyed, Recycle::Off];
    let scope = Scope::new(&name).recycle(recycles[rng.usize(0..recycles.len())]).limit(most);
    let mut kept: Vec<Array<u8, Virtual>> = Vec::new();
    for _ in 0..rng.usize(3..20) {
        let _inside = scope.enter();
        let mut live = Vec::new();
        for &size in &sizes {
            let size = if rng.usize(0..20) == 0 { rng.usize(1..4 * MIB) } else { size };
            let busy: usize = live.iter().chain(&kept).map(Array::byte_len).sum();
            match device.zeros::<u8>(size) {
                Ok(array) => live.push(array),
                Err(error) => {
                    assert_eq!(error.shortage().unwrap().bound, Bound::Scope, "{error}");
                    // Block sizes are multiples of 256. The arena may lose up to 256 bytes for each array.
                    let rounded = (busy + size + 256 * (live.len() + kept.len() + 1)) as u64;
                    assert!(rounded > most, "{size} bytes would do beside {busy}, {most} allowed: {error}");
                }
            }
            let (busy, idle) = held(&name);
            assert!(busy + idle <= most, "{busy} in use and {idle} idle of {most}");
            while !live.is_empty() && rng.bool() {
                drop(live.swap_remove(rng.usize(0..live.len())));
            }
        }
        if rng.usize(0..4) == 0 {
            kept.extend(live.pop());
        }
        kept.truncate(2);
    }
    drop(kept);
    let _ = invalidate(&name);
    device.trim();
    device.synchronize().unwrap();
    assert_eq!(device.memory().bytes, 0, "everything was given back");
}

#[test]
fn no_scope_holds_more_and_none_is_refused_in_vain() {
    let _turn = turn();
    seeds::each(2000, 1, play);
}
