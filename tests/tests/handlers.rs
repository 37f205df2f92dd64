//! Handlers of pressure that do what a program hardly does on purpose: panic with what panics, drop each other, and work in the
//! very scope that asks.
//!
//! The tests take turns, as scopes are of the whole process.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use std::panic::panic_any;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use gpucache::device::{Device, Virtual};
use gpucache::prelude::*;
use gpucache::{Array, PressureHandler, Recycle, Scope, climbs, invalidate, invalidate_all, limit, on_pressure, stats};
use gpucache_tests::turn;

const PAGE: usize = 2 << 20;
const RECYCLES: [Recycle; 4] = [Recycle::Auto, Recycle::Range, Recycle::Keyed, Recycle::Off];

fn limited(pages: usize) -> Virtual {
    let device = Virtual::new(1 << 40);
    limit(&device, (pages * PAGE) as u64);
    device
}

fn assert_gives_all_back(device: &Virtual) {
    gpucache::trim(device).unwrap();
    device.synchronize().unwrap();
    assert_eq!(device.memory().bytes, 0);
}

/// Two handlers, the first of which drops the second.
#[test]
fn one_that_another_one_dropped_is_not_called() {
    let _turn = turn();
    let device = limited(8);
    let _held = device.zeros::<u8>(6 * PAGE).unwrap();
    let second: Arc<Mutex<Option<PressureHandler>>> = Arc::default();
    let dropped = second.clone();
    let _first = on_pressure(&device, move |_| drop(dropped.lock().unwrap().take()));
    *second.lock().unwrap() = Some(on_pressure(&device, |_| std::process::abort()));
    assert!(device.zeros::<u8>(4 * PAGE).is_err());
    assert!(second.lock().unwrap().is_none(), "the first one was called");
}

/// What a handler panics with: its drop allocates, and panics with another one.
struct Bomb {
    device: Virtual,
    left: u32,
}

static EXPLOSIONS: AtomicU64 = AtomicU64::new(0);

impl Drop for Bomb {
    fn drop(&mut self) {
        EXPLOSIONS.fetch_add(1, SeqCst);
        assert!(self.device.zeros::<u8>(4 * PAGE).is_err());
        if self.left > 0 {
            panic_any(Bomb { device: self.device.clone(), left: self.left - 1 });
        }
    }
}

#[test]
fn a_panic_whose_payload_panics_ends_in_the_handler() {
    let _turn = turn();
    let device = limited(8);
    let _held = device.zeros::<u8>(6 * PAGE).unwrap();
    let own = device.clone();
    let _panics = on_pressure(&device, move |_| panic_any(Bomb { device: own.clone(), left: 3 }));
    assert!(device.zeros::<u8>(4 * PAGE).is_err());
    assert_eq!((EXPLOSIONS.load(SeqCst), climbs(&device).failed), (1, 2), "no handler within one");
}

/// What a handler has in the asking scope counts when the asking allocation is served at last.
#[test]
fn one_that_allocates_in_the_asking_scope_keeps_its_limit() {
    let _turn = turn();
    for recycle in RECYCLES {
        let device = limited(8);
        let scope = move || Scope::new("handlers: limited").recycle(recycle).limit(4 * PAGE as u64);
        let spare = Mutex::new(Some(device.zeros::<u8>(6 * PAGE).unwrap()));
        let kept: Arc<Mutex<Vec<Array<u8, Virtual>>>> = Arc::default();
        let (own, keep) = (device.clone(), kept.clone());
        let handler = on_pressure(&device, move |_| {
            drop(spare.lock().unwrap().take());
            let array = scope().run(|| own.zeros::<u8>(2 * PAGE)).unwrap();
            keep.lock().unwrap().push(array);
        });
        let error = scope().run(|| device.zeros::<u8>(3 * PAGE).unwrap_err());
        assert_eq!(error.shortage().map(|shortage| shortage.bound), Some(gpucache::Bound::Scope));
        let stats = stats("handlers: limited").unwrap();
        assert!(stats.busy_bytes + stats.idle_bytes <= 4 * PAGE as u64, "{recycle:?}");
        kept.lock().unwrap().clear();
        drop(handler);
        let _ = scope().invalidate();
        assert_gives_all_back(&device);
    }
}

/// Whatever a handler does to the asking scope, no limit is exceeded, no block is served twice and nothing is lost.
fn disturb(device: &Virtual, scope: &Scope<'_>, pool: &Mutex<Vec<Array<u8, Virtual>>>, number: u64) {
    match number % 5 {
        0 => _ = scope.invalidate(),
        1 => scope.run(|| drop(device.zeros::<u8>(PAGE))),
        2 => _ = invalidate_all(),
        3 => pool.lock().unwrap().extend(scope.run(|| device.zeros::<u8>(100))),
        _ => _ = gpucache::trim(device),
    }
    let half = pool.lock().unwrap().len() / 2;
    drop(pool.lock().unwrap().drain(..half).collect::<Vec<_>>());
}

#[test]
fn those_that_disturb_the_asking_scope_do_no_harm() {
    let _turn = turn();
    for recycle in RECYCLES {
        let device = limited(12);
        let (pool, calls): (Arc<Mutex<Vec<_>>>, _) = (Arc::default(), Arc::new(AtomicU64::new(0)));
        let (own, spare, count) = (device.clone(), pool.clone(), calls.clone());
        let handler = on_pressure(&device, move |need| {
            let name = need.scope.clone().unwrap();
            let within = on_pressure(&own, |_| std::process::abort());
            disturb(&own, &Scope::new(&name).recycle(recycle), &spare, count.fetch_add(1, SeqCst));
            drop(within);
        });
        let rng = &mut Rng::with_seed(7);
        for entry in 0..600 {
            let name = format!("handlers: disturbed {}", entry % 2);
            let _inside = Scope::new(&name).recycle(recycle).enter();
            let mut live = Vec::new();
            for step in 0..5 {
                let pages = if rng.usize(0..10) == 0 { rng.usize(1..5) } else { step % 3 + 1 };
                live.extend(device.zeros::<u8>(pages * PAGE - 100));
                assert!(device.memory().bytes <= 12 * PAGE as u64);
                live.truncate(live.len() - usize::from(!live.is_empty() && rng.usize(0..3) == 0));
            }
            pool.lock().unwrap().extend(live.pop().filter(|_| rng.usize(0..3) == 0));
        }
        assert!(calls.load(SeqCst) > 20, "{recycle:?}: {} calls", calls.load(SeqCst));
        drop(handler);
        pool.lock().unwrap().clear();
        (0..2).for_each(|number| _ = invalidate(format!("handlers: disturbed {number}")));
        assert_gives_all_back(&device);
    }
}
