//! Scoped threads: arrays that are sent both ways, statistics that sum over all threads, and invalidations by
//! threads that never enter the scope.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::channel;

use gpucache::device::Device;
use gpucache::{Recycle, Scope};
use gpucache::{Result, cache_scope, invalidate, stats, stats::ScopeStats};
use gpucache_tests::conformance::{assert_pattern, patterned, stats_of, touch};
use gpucache_tests::{Faulty, supplied};

use super::{Words, assert_all_back};

/// A parent sends arrays to its children and gets theirs. The memory of each returns to the thread that made it, and serves there again.
#[test]
fn arrays_that_travel_both_ways() {
    const ROUNDS: u32 = 40;
    let device = Faulty::new();
    std::thread::scope(|threads| {
        let children: Vec<_> = (1..=3u32)
            .map(|child| {
                let ((down, from_parent), (up, from_child)) = (channel::<Words>(), channel::<Words>());
                threads.spawn(move || {
                    for (round, array) in (0..).zip(from_parent) {
                        assert_pattern(&array, 100 * child + round);
                        let answer = cache_scope!(both_ways, { array.try_clone().unwrap() });
                        drop(array);
                        up.send(answer).unwrap();
                    }
                });
                (child, down, from_child)
            })
            .collect();
        for round in 0..ROUNDS {
            for (child, down, _) in &children {
                down.send(cache_scope!(both_ways, { patterned(&device, 40, 100 * child + round).unwrap() })).unwrap();
            }
            for (child, _, up) in &children {
                assert_pattern(&up.recv().unwrap(), 100 * child + round);
            }
        }
    });
    let stats = stats_of("both_ways");
    assert_eq!(stats.allocations(), 2 * 3 * u64::from(ROUNDS));
    assert!(supplied(&stats) <= 3 + 3 * 2, "what travelled serves again: {stats:?}");
    assert_all_back(&device, &["both_ways"]);
}

/// Each thread makes a different number of entries and arrays, and keeps some. While all threads wait, and after they ended, the
/// numbers are exactly the sums. An invalidation then reports the memory in use on all of them.
#[test]
fn numbers_are_sums_over_threads() {
    const THREADS: u64 = 8;
    let device = Faulty::new();
    let expected = |kept: u64| {
        let sum = |of: fn(u64) -> u64| (1..=THREADS).map(of).sum::<u64>();
        (sum(|thread| 10 * thread), sum(|thread| 10 * thread * 3), kept, kept * 160)
    };
    let numbers = || {
        let stats = stats_of("sums");
        (stats.entries, stats.allocations(), stats.busy_blocks, stats.busy_bytes)
    };
    let (ready, go) = (Barrier::new(THREADS as usize + 1), Barrier::new(THREADS as usize + 1));
    let kept: Vec<Words> = std::thread::scope(|threads| {
        let (device, ready, go) = (&device, &ready, &go);
        let works = |thread: u64| -> Result<Vec<Words>> {
            let mut kept = Vec::new();
            for entry in 0..10 * thread {
                cache_scope!(sums, {
                    touch::<u64, _>(device, 20)?;
                    let array = patterned(device, 40, (100 * thread + entry) as u32)?;
                    touch::<u8, _>(device, 9)?;
                    kept.extend((entry < thread).then_some(array));
                });
            }
            ready.wait();
            go.wait();
            (0..).zip(&kept).for_each(|(entry, array)| assert_pattern(array, 100 * thread as u32 + entry));
            Ok(kept)
        };
        let started: Vec<_> = (1..=THREADS).map(|thread| threads.spawn(move || works(thread))).collect();
        ready.wait();
        let (while_they_wait, counted) = (numbers(), stats_of("sums"));
        let busy = invalidate("sums").busy_blocks;
        let left = (stats_of("sums").idle_blocks, device.memory().bytes);
        // The numbers are checked only after the threads continue: a failure must not leave them waiting.
        go.wait();
        assert_eq!(while_they_wait, expected(36));
        assert_eq!(
            (counted.served.all().allocations, counted.hits + counted.recycled + counted.misses),
            (expected(36).1, expected(36).1),
            "each by one way: {counted:?}"
        );
        assert_eq!((busy, left), (36, (0, 36 * 160)), "an invalidation of all threads");
        started.into_iter().flat_map(|thread| thread.join().unwrap().unwrap()).collect()
    });
    assert_eq!(numbers(), expected(36), "after the threads have ended");
    drop(kept);
    assert_eq!(numbers(), expected(0));
    assert_all_back(&device, &["sums"]);
}

/// The work of threads that disturb each other while scopes are entered.
struct Unrest<'a> {
    device: &'a Faulty,
    name: &'a str,
    recycle: Recycle,
    invalidations: AtomicU32,
    has_ended: AtomicBool,
}

/// Four threads are inside the scope most of the time. Two others invalidate it and read its numbers all the time.
#[test]
fn invalidation_while_scopes_are_entered() {
    for recycle in [Recycle::Auto, Recycle::Range, Recycle::Keyed, Recycle::Off] {
        let (device, name) = (&Faulty::with_chunks(1 << 30), &format!("invalidated {recycle:?}"));
        let (invalidations, has_ended) = Default::default();
        let unrest = &Unrest { device, name, recycle, invalidations, has_ended };
        let entries: u64 = std::thread::scope(|threads| {
            let workers = [1, 2, 3, 4].map(|thread| threads.spawn(move || unrest.work(thread << 28).unwrap()));
            let others = [(); 2].map(|()| threads.spawn(|| unrest.invalidate()));
            let entries = workers.map(|worker| worker.join().unwrap()).iter().sum();
            unrest.has_ended.store(true, SeqCst);
            others.into_iter().for_each(|other| other.join().unwrap());
            entries
        });
        let stats = stats_of(name);
        assert_eq!((stats.entries, stats.allocations()), (entries, 4 * entries));
        device.trim();
        assert_all_back(device, &[name]);
    }
}

impl Unrest<'_> {
    /// Returns how often it entered the scope. It ends when the scope was invalidated often enough meanwhile.
    fn work(&self, first: u32) -> Result<u64> {
        let mut last = None;
        for seed in first.. {
            let _guard = Scope::new(self.name).recycle(self.recycle).enter();
            let arrays = [30, 90, 30].map(|len| patterned(self.device, len, seed).unwrap());
            let kept = patterned(self.device, 40, seed + 1)?;
            arrays.iter().for_each(|array| assert_pattern(array, seed));
            // The array lives into the next entry.
            if let Some((seed, array)) = last.replace((seed + 1, kept)) {
                assert_pattern(&array, seed);
            }
            let entries = seed - first + 1;
            if entries >= 1000 && self.invalidations.load(SeqCst) >= 200 {
                return Ok(entries.into());
            }
        }
        unreachable!("that many entries are never made")
    }

    fn invalidate(&self) {
        let mut before = ScopeStats::default();
        while !self.has_ended.load(SeqCst) {
            let now = stats(self.name).unwrap_or_default();
            assert!(now.entries >= before.entries && now.allocations() >= before.allocations());
            assert!(now.high_water_bytes >= before.high_water_bytes, "a mark does not go down");
            before = now;
            invalidate(self.name);
            self.invalidations.fetch_add(1, SeqCst);
            std::thread::yield_now();
        }
    }
}
