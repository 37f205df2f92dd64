//! Pressure handlers that do unusual things: they panic with values that panic, drop each other, and work in the requesting scope
//! itself.
//!
//! The tests take turns, since scopes belong to the whole process.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use std::cell::Cell;
use std::panic::panic_any;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use gpucache::device::{Device, Virtual};
use gpucache::prelude::*;
use gpucache::{
    Array, Recycle, Scope,
    device::PressureHandler,
    invalidate, invalidate_all,
    offload::{Placed, Placement},
    stats,
};
use gpucache_tests::turn;

const PAGE: usize = 2 << 20;
const RECYCLES: [Recycle; 4] = [Recycle::Auto, Recycle::Range, Recycle::Keyed, Recycle::Off];

fn limited(pages: usize) -> Virtual {
    let device = Virtual::new(1 << 40);
    device.set_limit((pages * PAGE) as u64).unwrap();
    device
}

fn assert_gives_all_back(device: &Virtual) {
    device.trim();
    device.synchronize().unwrap();
    assert_eq!(device.memory().bytes, 0);
}

/// Two handlers. The first drops the second.
#[test]
fn one_that_another_one_dropped_is_not_called() {
    let _turn = turn();
    let device = limited(8);
    let _held = device.zeros::<u8>(6 * PAGE).unwrap();
    let second: Arc<Mutex<Option<PressureHandler>>> = Arc::default();
    let dropped = second.clone();
    let _first = device.on_pressure(move |_| drop(dropped.lock().unwrap().take()));
    *second.lock().unwrap() = Some(device.on_pressure(|_| std::process::abort()));
    assert!(device.zeros::<u8>(4 * PAGE).is_err());
    assert!(second.lock().unwrap().is_none(), "the first one was called");
}

/// A panic payload. Its drop allocates, and panics with another payload.
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
    let _panics = device.on_pressure(move |_| panic_any(Bomb { device: own.clone(), left: 3 }));
    assert!(device.zeros::<u8>(4 * PAGE).is_err());
    assert_eq!((EXPLOSIONS.load(SeqCst), device.stats().reclaim.failed), (1, 2), "no handler within one");
}

/// Memory that a handler uses in the requesting scope counts when the request is finally served.
#[test]
fn one_that_allocates_in_the_asking_scope_keeps_its_limit() {
    let _turn = turn();
    for recycle in RECYCLES {
        let device = limited(8);
        let scope = move || Scope::new("handlers: limited").recycle(recycle).limit(4 * PAGE as u64);
        let spare = Mutex::new(Some(device.zeros::<u8>(6 * PAGE).unwrap()));
        let kept: Arc<Mutex<Vec<Array<u8, Virtual>>>> = Arc::default();
        let (own, keep) = (device.clone(), kept.clone());
        let handler = device.on_pressure(move |_| {
            drop(spare.lock().unwrap().take());
            let array = scope().run(|| own.zeros::<u8>(2 * PAGE)).unwrap();
            keep.lock().unwrap().push(array);
        });
        let error = scope().run(|| device.zeros::<u8>(3 * PAGE).unwrap_err());
        assert_eq!(error.shortage().map(|shortage| shortage.bound), Some(gpucache::error::Bound::Scope));
        let stats = stats("handlers: limited").unwrap();
        assert!(stats.busy_bytes + stats.idle_bytes <= 4 * PAGE as u64, "{recycle:?}");
        kept.lock().unwrap().clear();
        drop(handler);
        let _ = scope().invalidate();
        assert_gives_all_back(&device);
    }
}

/// A handler disturbs the requesting scope. No limit is exceeded, no block is served twice, and nothing is lost.
fn disturb(device: &Virtual, scope: &Scope<'_>, pool: &Mutex<Vec<Array<u8, Virtual>>>, number: u64) {
    match number % 5 {
        0 => _ = scope.invalidate(),
        1 => scope.run(|| drop(device.zeros::<u8>(PAGE))),
        2 => _ = invalidate_all(),
        3 => pool.lock().unwrap().extend(scope.run(|| device.zeros::<u8>(100))),
        _ => _ = device.trim(),
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
        let handler = device.on_pressure(move |pressure| {
            let name = pressure.scope.clone().unwrap();
            let within = own.on_pressure(|_| std::process::abort());
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

/// Long enough for a busy machine. A thread that takes longer waits for ever.
const FOR_EVER: Duration = Duration::from_secs(60);

/// Runs each act on a thread of its own. The threads are not joined, so that threads which wait for each other fail the test.
fn assert_all_end(acts: Vec<Box<dyn FnOnce() + Send>>) {
    let (done, ended) = channel();
    let count = acts.len();
    for act in acts {
        let done = done.clone();
        thread::spawn(move || {
            act();
            done.send(()).unwrap();
        });
    }
    drop(done);
    for number in 0..count {
        assert!(ended.recv_timeout(FOR_EVER).is_ok(), "{number} of {count} threads ended");
    }
}

type Bytes = Placed<u8, Virtual>;

/// An array that rests on the host until somebody fetches it.
fn away(device: &Virtual, pages: usize) -> Bytes {
    let array = Placed::zeros(device, pages * PAGE).unwrap();
    array.set_placement(Placement::Host).unwrap();
    array.choose_placement(Placement::Auto);
    array
}

/// A fetch meets a shortage and calls a handler. The handler waits for another thread, which fetches the same array.
#[test]
fn one_that_waits_for_a_fetch_of_the_same_array_is_not_waited_for() {
    let _turn = turn();
    let device = limited(4);
    let weights = Arc::new(away(&device, 3));
    let cache = Arc::new(Mutex::new(vec![device.zeros::<u8>(3 * PAGE).unwrap()]));
    let is_called = Arc::new(Barrier::new(2));
    let (spare, called) = (cache.clone(), is_called.clone());
    let _handler = device.on_pressure(move |_| {
        called.wait();
        spare.lock().unwrap().clear();
    });
    let (first, second) = (weights.clone(), weights.clone());
    let fetches = move || drop(first.fetch().unwrap());
    let holds_what_the_handler_wants = move || {
        let cache = cache.lock().unwrap();
        is_called.wait();
        let error = second.fetch().map(drop).unwrap_err();
        assert!(error.is_out_of_memory() && !cache.is_empty(), "{error}");
    };
    assert_all_end(vec![Box::new(fetches), Box::new(holds_what_the_handler_wants)]);
    assert_eq!(weights.to_vec().unwrap(), vec![0; 3 * PAGE]);
}

/// Two threads fetch one array each, and the handler of each thread fetches the other array. They meet there. A fetch that another thread
/// tried at the same time is tried once more, and may then call the handler again, when the other thread has ended.
#[test]
fn those_that_fetch_each_others_arrays_end() {
    thread_local! {
        static OTHER: Cell<usize> = const { Cell::new(0) };
        static HAS_MET: Cell<bool> = const { Cell::new(false) };
    }
    let _turn = turn();
    let device = limited(4);
    let arrays = Arc::new([away(&device, 2), away(&device, 2)]);
    let held = device.zeros::<u8>(3 * PAGE).unwrap();
    let (known, meet) = (arrays.clone(), Barrier::new(2));
    let _handler = device.on_pressure(move |_| {
        if !HAS_MET.replace(true) {
            meet.wait();
        }
        assert!(known[OTHER.get()].fetch().is_err());
    });
    let fetch = |number: usize| {
        let arrays = arrays.clone();
        let act = move || {
            OTHER.set(1 - number);
            assert!(arrays[number].fetch().map(drop).unwrap_err().is_out_of_memory());
        };
        Box::new(act) as Box<dyn FnOnce() + Send>
    };
    assert_all_end(vec![fetch(0), fetch(1)]);
    drop(held);
    arrays.iter().for_each(|array| drop(array.fetch().unwrap()));
}

/// A handler only takes its time, so others wait for it. The memory that it gives up serves everyone who fetches the array.
#[test]
fn what_one_gives_up_serves_all_who_fetch_the_array() {
    let _turn = turn();
    let device = limited(4);
    let weights = Arc::new(away(&device, 3));
    let cache = Arc::new(Mutex::new(vec![device.zeros::<u8>(3 * PAGE).unwrap()]));
    let spare = cache.clone();
    let calls = Arc::new(AtomicU64::new(0));
    let called = calls.clone();
    let _handler = device.on_pressure(move |_| {
        called.fetch_add(1, SeqCst);
        spare.lock().unwrap().clear();
    });
    let fetch = || {
        let weights = weights.clone();
        Box::new(move || drop(weights.fetch().unwrap())) as Box<dyn FnOnce() + Send>
    };
    assert_all_end((0..6).map(|_| fetch()).collect());
    assert_eq!(calls.load(SeqCst), 1);
}

/// Many threads fetch arrays, and there is room for one array at a time. No thread takes room away by fetching an array that
/// another thread is already fetching.
#[test]
fn threads_that_fetch_the_same_array_need_its_room_once() {
    let _turn = turn();
    let device = limited(3);
    let arrays: Arc<Vec<Bytes>> = Arc::new((0..2).map(|_| away(&device, 2)).collect());
    for round in 0..50 {
        let fetch = |_| {
            let arrays = arrays.clone();
            Box::new(move || drop(arrays[round % 2].fetch().unwrap())) as Box<dyn FnOnce() + Send>
        };
        assert_all_end((0..4).map(fetch).collect());
    }
}
