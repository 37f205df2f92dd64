//! Rayon: scopes inside tasks, and tasks that a thread steals while it is inside a scope and waits for others.

use gpucache::device::Device as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{ThreadId, current};

use gpucache::prelude::cache_scope;
use gpucache::{Result, cache_scope as scope_block, uncached};
use gpucache_tests::Faulty;
use gpucache_tests::conformance::{assert_pattern, patterned, stats_of, touch};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::{Words, assert_all_back, served};

/// Runs `act` in a pool of this many threads. (It does not wait for the end of their thread-locals.)
fn in_a_pool<R: Send>(threads: usize, act: impl FnOnce(&ThreadPool) -> R + Send) -> R {
    let builder = ThreadPoolBuilder::new().num_threads(threads);
    builder.build_scoped(|thread| thread.run(), |pool| pool.install(|| act(pool))).unwrap()
}

#[cache_scope(name = name)]
fn task(device: &Faulty, name: &str, seed: u32) -> Result<Words> {
    let temporary = patterned(device, 30 + seed as usize % 3, seed)?;
    let kept = patterned(device, 40, seed + 1)?;
    assert_pattern(&temporary, seed);
    Ok(kept)
}

/// Many tasks on few threads. The arrays of a chunk live at the same time, and any thread may drop them.
#[test]
fn scopes_inside_of_tasks() {
    const TASKS: u32 = 4000;
    let device = Faulty::with_chunks(1 << 30);
    in_a_pool(4, |_| {
        (0..TASKS).into_par_iter().chunks(16).for_each(|seeds| {
            let arrays: Vec<(u32, Words)> =
                seeds.iter().map(|seed| (*seed, task(&device, "tasks", *seed).unwrap())).collect();
            arrays.into_par_iter().for_each(|(seed, array)| assert_pattern(&array, seed + 1));
        });
        let stats = stats_of("tasks");
        assert_eq!((stats.entries, stats.allocations()), (TASKS.into(), 2 * u64::from(TASKS)));
        assert_eq!((stats.busy_blocks, stats.busy_bytes), (0, 0));
    });
    gpucache::invalidate("tasks");
    device.trim();
    assert_all_back(&device, &["tasks"]);
}

#[cache_scope(tree)]
fn tree(device: &Faulty, seed: u32, depth: u32) -> Result<Words> {
    let mine = patterned(device, 40, seed)?;
    if depth > 0 {
        let (left, right) = rayon::join(|| tree(device, 2 * seed, depth - 1), || tree(device, 2 * seed + 1, depth - 1));
        let between = patterned(device, 40, seed)?;
        // Either may come from another thread, and its memory return to that one from here.
        assert_pattern(&left?, 2 * seed);
        assert_pattern(&right?, 2 * seed + 1);
        assert_pattern(&between, seed);
    }
    assert_pattern(&mine, seed);
    Ok(mine)
}

/// A scope inside itself on every thread: by recursion, and by tasks that are stolen from anywhere in the tree.
#[test]
fn joins_inside_of_scopes() {
    const DEPTH: u32 = 7;
    let device = Faulty::with_chunks(1 << 30);
    in_a_pool(4, |_| {
        for _ in 0..20 {
            assert_pattern(&tree(&device, 1, DEPTH).unwrap(), 1);
        }
    });
    gpucache::invalidate("tree");
    let (leaves, joins) = (1 << DEPTH, (1 << DEPTH) - 1);
    assert_eq!((served("tree"), stats_of("tree").entries), (20 * (leaves + 2 * joins), 20 * (leaves + joins)));
    device.trim();
    assert_all_back(&device, &["tree"]);
}

/// The results of a stolen task.
struct Stolen {
    thread: ThreadId,
    array: Words,
    plain: Words,
    served_before: u64,
}

#[cache_scope(stealing)]
fn steals(device: &Faulty) -> Result<Words> {
    let temporary = patterned(device, 40, 10)?;
    let kept = patterned(device, 40, 11)?;
    assert_pattern(&temporary, 10);
    Ok(kept)
}

/// The task that a waiting thread runs: it enters the scope that the thread is already inside.
fn stolen(device: &Faulty, tell: &Sender<Stolen>) {
    let served_before = served("stealing");
    let array = steals(device).unwrap();
    let plain = uncached!({ patterned(device, 40, 12).unwrap() });
    tell.send(Stolen { thread: current().id(), array, plain, served_before }).unwrap();
}

/// Waits until the first thread has stolen the task that is spawned here.
fn hands_over(device: &Faulty, begun: Sender<()>, told: Receiver<Stolen>, tell: Sender<Stolen>) -> Stolen {
    let device = device.clone();
    begun.send(()).unwrap();
    rayon::spawn(move || stolen(&device, &tell));
    told.recv().unwrap()
}

/// One thread waits in a join, inside the scope, for a task on the other one. That task waits for one that only the first thread
/// can run. So it runs there, in the middle of an entry with live arrays.
#[test]
fn a_task_stolen_inside_a_scope() {
    let device = Faulty::new();
    in_a_pool(2, |_| {
        for round in 0..10 {
            let ((begun, has_begun), (tell, told)) = (channel(), channel());
            scope_block!(stealing, {
                let mine = patterned(&device, 40, round).unwrap();
                let ((), stolen) =
                    rayon::join(move || has_begun.recv().unwrap(), || hands_over(&device, begun, told, tell));
                assert_eq!(stolen.thread, current().id(), "stolen by the thread that waited");
                assert_eq!(served("stealing"), stolen.served_before + 2, "the plain array is nobody's");
                let after = patterned(&device, 40, 100 + round).unwrap();
                assert_pattern(&mine, round);
                assert_pattern(&after, 100 + round);
                assert_pattern(&stolen.array, 11);
                assert_pattern(&stolen.plain, 12);
            });
        }
    });
    assert_eq!((served("stealing"), stats_of("stealing").entries), (10 * 4, 10 * 2));
    assert_all_back(&device, &["stealing"]);
}

/// Tasks that panic, in a pool that continues. Their scopes are left, and their memory returns.
#[test]
fn tasks_that_panic() {
    let device = Faulty::new();
    let caught = AtomicU64::new(0);
    in_a_pool(3, |_| {
        (0..300u32).into_par_iter().for_each(|seed| {
            let task = std::panic::AssertUnwindSafe(|| {
                scope_block!(panicking, {
                    let _array = patterned(&device, 40, seed).unwrap();
                    let both = rayon::join(
                        || task(&device, "beside panics", seed),
                        || assert!(seed % 3 > 0, "as the test asks"),
                    );
                    assert_pattern(&both.0.unwrap(), seed + 1);
                });
            });
            caught.fetch_add(std::panic::catch_unwind(task).is_err().into(), Relaxed);
        });
        rayon::broadcast(|_| touch::<u32, _>(&device, 40).unwrap());
    });
    assert_eq!((caught.load(Relaxed), served("panicking")), (100, 300), "what came after was outside");
    assert_all_back(&device, &["panicking", "beside panics"]);
}
