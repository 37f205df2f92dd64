//! Arrays in thread-locals, which are dropped before or after the thread's caches are closed. Their home cache is open, closed,
//! or on a thread that is inside the scope. The scopes have plans, so these arrays lie in a plan's block.

use gpucache::device::Device as _;
use std::any::Any;
use std::cell::RefCell;
use std::sync::mpsc::channel;

use gpucache::{Result, cache_scope, invalidate, stats};
use gpucache_tests::Faulty;
use gpucache_tests::conformance::{assert_pattern, patterned, stats_of};

use super::{Words, assert_all_back};

thread_local! {
    static FIRST: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
    static LATER: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// An array with its seed, which is checked once more when it is dropped.
struct Watched(u32, Words);

impl Drop for Watched {
    fn drop(&mut self) {
        assert_pattern(&self.1, self.0);
    }
}

/// Learns a plan of three arrays, and returns an array that the plan has served.
fn planned(device: &Faulty, name: &str, seed: u32) -> Result<Watched> {
    let entry = |seed, keeps: bool| -> Result<Option<Words>> {
        cache_scope!(name = name, {
            let arrays = [patterned(device, 100, seed)?, patterned(device, 40, seed + 1)?];
            let last = patterned(device, 70, seed)?;
            arrays.iter().zip(seed..).for_each(|(array, seed)| assert_pattern(array, seed));
            Ok(keeps.then_some(last))
        })
    };
    for warm in 0..10 {
        entry(seed + 10 * warm, false)?;
    }
    let before = stats(name).unwrap().served.planned.allocations;
    let kept = entry(seed, true)?.unwrap();
    // Another thread's array may still lie in the place of one of them.
    assert!(stats(name).unwrap().served.planned.allocations >= before + 2, "the entry is planned");
    Ok(Watched(seed, kept))
}

fn on_a_thread<R: Send>(act: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|threads| threads.spawn(act).join().unwrap())
}

fn device() -> Faulty {
    Faulty::with_chunks(1 << 30)
}

fn assert_none_left(device: &Faulty, name: &str) {
    let stats = stats_of(name);
    assert_eq!((stats.busy_blocks, stats.busy_bytes), (0, 0), "before any invalidation");
    invalidate(name);
    device.trim();
    assert_all_back(device, &[name]);
}

/// Made before the thread's first scope, so it is destroyed after the thread's stack of scopes, which closes its caches.
#[test]
fn a_local_that_goes_last() {
    let device = device();
    on_a_thread(|| {
        FIRST.with_borrow_mut(Vec::clear);
        let kept = planned(&device, "goes last", 1).unwrap();
        FIRST.with_borrow_mut(|kept_here| kept_here.push(Box::new(kept)));
    });
    assert_none_left(&device, "goes last");
}

/// Made after the first scope, so it is destroyed while the caches are open.
#[test]
fn a_local_that_goes_first() {
    let device = device();
    on_a_thread(|| {
        let kept = planned(&device, "goes first", 1).unwrap();
        LATER.with_borrow_mut(|kept_here| kept_here.push(Box::new(kept)));
    });
    assert_none_left(&device, "goes first");
}

/// Several of both at once, and nested scopes that are never left.
#[test]
fn locals_on_both_sides() {
    let device = device();
    for _ in 0..20 {
        on_a_thread(|| {
            FIRST.with_borrow_mut(Vec::clear);
            let early = planned(&device, "both sides", 1).unwrap();
            LATER.with_borrow_mut(Vec::clear);
            let late = planned(&device, "both sides", 500).unwrap();
            FIRST.with_borrow_mut(|kept| kept.push(Box::new(early)));
            LATER.with_borrow_mut(|kept| kept.push(Box::new(late)));
            let open = gpucache::Scope::new("both sides").enter();
            let inside = Watched(7, patterned(&device, 100, 7).unwrap());
            FIRST.with_borrow_mut(|kept| kept.push(Box::new(inside)));
            std::mem::forget(open);
        });
        assert_eq!(stats_of("both sides").busy_blocks, 0);
    }
    assert_none_left(&device, "both sides");
}

/// Arrays of a thread that continues, in thread-locals of others that end while it is inside the scope.
#[test]
fn locals_with_arrays_of_others() {
    let device = device();
    let (first, later) = (planned(&device, "others", 1).unwrap(), planned(&device, "others", 300).unwrap());
    cache_scope!(others, {
        let mine = patterned(&device, 100, 5).unwrap();
        on_a_thread(|| FIRST.with_borrow_mut(|kept| kept.push(Box::new(first))));
        on_a_thread(|| {
            drop(planned(&device, "others", 900).unwrap());
            LATER.with_borrow_mut(|kept| kept.push(Box::new(later)));
        });
        let next = patterned(&device, 40, 6).unwrap();
        let last = patterned(&device, 70, 7).unwrap();
        [(&mine, 5), (&next, 6), (&last, 7)].iter().for_each(|(array, seed)| assert_pattern(array, *seed));
        assert_eq!(stats_of("others").busy_blocks, 3, "these, and none of those that the threads had");
    });
    invalidate("others");
    assert_none_left(&device, "others");
}

/// The home thread ends first, and a later thread works in the same cache. The array finally returns to that cache.
#[test]
fn arrays_that_outlive_their_home() {
    let device = device();
    let kept: Vec<Watched> = (0..4).map(|seed| on_a_thread(|| planned(&device, "outlived", seed).unwrap())).collect();
    assert_eq!(stats_of("outlived").busy_blocks, 4);
    let (sender, receiver) = channel();
    on_a_thread(|| {
        let mine = planned(&device, "outlived", 50).unwrap();
        kept.into_iter().for_each(|kept| LATER.with_borrow_mut(|kept_here| kept_here.push(Box::new(kept))));
        sender.send(mine).unwrap();
    });
    assert_eq!(stats_of("outlived").busy_blocks, 1);
    drop(receiver.recv().unwrap());
    assert_none_left(&device, "outlived");
}
