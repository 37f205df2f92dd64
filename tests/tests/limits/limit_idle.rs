//! A program that shares its device limits how much idle memory its scopes keep.
#![allow(clippy::panic, clippy::unwrap_used)]

use gpucache::device::Virtual;
use gpucache::prelude::*;
use gpucache::{Result, Scope, cache_scope};
use gpucache_tests::turn;

const PAGE: usize = 2 << 20;

fn arrays(device: &Virtual, pages: &[usize]) -> Result<Vec<Array<u8, Virtual>>> {
    pages.iter().map(|pages| Array::zeros(device, pages * PAGE)).collect()
}

/// The memory held after each of many entries in which these arrays lived.
fn held(device: &Virtual, policy: &str, pages: &[usize]) -> Vec<usize> {
    let entry = || match policy {
        "auto" => cache_scope!("kept, auto", { arrays(device, pages).map(drop) }),
        "keyed" => cache_scope!("kept, keyed", recycle = "keyed", { arrays(device, pages).map(drop) }),
        _ => cache_scope!("kept, range", recycle = "range", { arrays(device, pages).map(drop) }),
    };
    (0..12)
        .map(|_| {
            entry().unwrap();
            device.memory().bytes as usize / PAGE
        })
        .collect()
}

#[test]
fn no_more_stays_than_was_said() {
    let _turn = turn();
    for policy in ["auto", "keyed", "range"] {
        let device = Virtual::new(1 << 30);
        let pages = [3, 5, 2, 4];
        let all = held(&device, policy, &pages);
        assert!(all.iter().all(|held| *held >= 14), "{policy}: {all:?}");
        for most in [6, 0, 9] {
            device.set_idle_limit((most * PAGE) as u64).unwrap();
            let held = held(&device, policy, &pages);
            assert!(held.iter().all(|held| *held <= most), "{policy}, {most}: {held:?}");
        }
        device.set_idle_limit(u64::MAX).unwrap();
        let all = held(&device, policy, &pages);
        assert!(all.iter().all(|held| *held >= 14), "{policy}: {all:?}");
        ["kept, auto", "kept, keyed", "kept, range"].iter().for_each(|name| _ = invalidate(name));
        device.trim();
        assert_eq!(device.memory().bytes, 0);
    }
}

/// Live memory does not count, nor does memory of other devices.
#[test]
fn only_what_is_idle_counts() {
    let _turn = turn();
    let [device, other] = [(); 2].map(|()| Virtual::new(1 << 30));
    device.set_idle_limit(PAGE as u64).unwrap();
    let _ = held(&other, "keyed", &[4, 4]);
    let alive = cache_scope!("kept alive", { arrays(&device, &[3, 5]).unwrap() });
    let held = held(&device, "range", &[2, 2]);
    assert!(held.iter().all(|held| (8..=9).contains(held)), "{held:?}");
    assert!(other.memory().bytes as usize >= 8 * PAGE);
    drop(alive);
    ["kept, keyed", "kept, range", "kept alive"].iter().for_each(|name| _ = invalidate(name));
}

/// An array of an inner scope is dropped in an outer one, which serves nothing itself. When the outer one is left, its memory is idle.
#[test]
fn memory_of_inner_scopes_is_idle_when_the_outer_one_is_left() {
    let _turn = turn();
    let device = Virtual::new(1 << 40);
    device.set_idle_limit("4MiB").unwrap();
    for entry in 0..20 {
        Scope::new("idle limit: outer").run(|| {
            drop(Scope::new("idle limit: inner").run(|| device.zeros::<u8>(64 << 20).unwrap()));
        });
        assert!(device.memory().bytes <= 4 << 20, "entry {entry}: {}", device.stats());
    }
    device.set_idle_limit(u64::MAX).unwrap();
}
