//! `invalidate_all` reaches every scope of the process, so this test has a process of its own.
#![allow(clippy::unwrap_used)]

use std::sync::mpsc;

use gpucache::{Array, cache_scope, invalidate_all, stats, stats::Invalidated};
use gpucache_tests::Faulty;
use gpucache_tests::conformance::{assert_pattern, patterned};

#[test]
fn every_scope_of_every_thread_and_device_gives_its_memory_back() {
    let (first, second) = (Faulty::new(), Faulty::new());
    assert_eq!(invalidate_all(), Invalidated::default());
    let kept = cache_scope!(a, {
        drop(Array::<u8, _>::zeros(&first, 100).unwrap());
        drop(Array::<u8, _>::zeros(&second, 200).unwrap());
        patterned(&first, 10, 1).unwrap()
    });
    cache_scope!(b, { drop(Array::<u8, _>::zeros(&second, 400).unwrap()) });
    std::thread::scope(|threads| {
        let ((ready, is_ready), (go, may_go)) = (mpsc::channel(), mpsc::channel::<()>());
        let second = &second;
        let other = threads.spawn(move || {
            cache_scope!(a, { drop(Array::<u8, _>::zeros(second, 800).unwrap()) });
            cache_scope!(c, {
                drop(Array::<u8, _>::zeros(second, 1600).unwrap());
                ready.send(()).unwrap();
                may_go.recv().unwrap();
            });
        });
        is_ready.recv().unwrap();
        assert_eq!(all(), (3100, 1));
        assert_eq!((first.live(), second.live()), (vec![40], vec![1600]), "`c` is entered by a thread, which frees it");
        go.send(()).unwrap();
        other.join().unwrap();
    });
    assert_eq!(second.live(), [0; 0]);
    assert_pattern(&kept, 1);
    assert_eq!(all(), (0, 1));
    drop(kept);
    assert_eq!(first.live(), [0; 0]);
    for name in ["a", "b", "c"] {
        let stats = stats(name).unwrap();
        assert_eq!((stats.busy_blocks, stats.idle_blocks), (0, 0));
    }
}

/// The bytes and the busy blocks of all scopes.
fn all() -> (u64, u64) {
    let Invalidated { bytes, busy_blocks: busy, .. } = invalidate_all();
    (bytes, busy)
}
