//! Futures that never finish: their arrays return home, and no thread stays inside their scope.

use std::future::{Future, pending, poll_fn};
use std::task::Poll;
use std::time::Duration;

use gpucache::device::Device;
use gpucache::prelude::cache_scope;
use gpucache::{Result, cache_scope as scope_block, invalidate};
use gpucache_tests::Faulty;
use gpucache_tests::conformance::{assert_pattern, patterned, stats_of, touch};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;

use super::{Words, assert_all_back, assert_outside, one_thread, served, threads, work};

#[cache_scope(name = name)]
async fn forever(device: &Faulty, name: &str, seed: u32) -> Result<()> {
    let kept = work(device, seed, 2).await?;
    pending::<()>().await;
    assert_pattern(&kept, seed);
    Ok(())
}

/// Fails if anything of a cancelled future is still in use, or if its memory does not serve the next entry.
fn assert_home_again(device: &Faulty, name: &str) {
    assert_outside(device, name);
    let (stats, before) = (stats_of(name), device.memory().times_taken());
    assert_eq!((stats.busy_blocks, stats.busy_bytes), (0, 0), "{name}");
    scope_block!(name = name, { touch::<u32, _>(device, 40).unwrap() });
    assert_eq!(device.memory().times_taken(), before, "`{name}` has the memory of what was cancelled");
    invalidate(name);
}

#[test]
fn a_future_that_is_never_polled() {
    let device = Faulty::new();
    drop(forever(&device, "unpolled", 1));
    assert!(gpucache::stats("unpolled").is_none(), "the scope was entered");
}

#[test]
fn a_timeout() {
    let device = Faulty::new();
    one_thread().block_on(async {
        assert!(timeout(Duration::from_secs(1), forever(&device, "timeout", 1)).await.is_err());
        assert_home_again(&device, "timeout");
    });
    assert_all_back(&device, &["timeout"]);
}

#[test]
fn the_loser_of_a_select() {
    #[cache_scope(select)]
    async fn wins(device: &Faulty) -> Result<Words> {
        work(device, 7, 5).await
    }
    let device = Faulty::new();
    one_thread().block_on(async {
        for _ in 0..20 {
            let winner = tokio::select! {
                winner = wins(&device) => winner.unwrap(),
                _ = forever(&device, "select", 90) => unreachable!("that one waits"),
                _ = forever(&device, "select", 95) => unreachable!("that one waits"),
            };
            assert_pattern(&winner, 7);
            assert_eq!(stats_of("select").busy_blocks, 1, "the winner's array alone");
        }
        assert_home_again(&device, "select");
    });
    assert_all_back(&device, &["select"]);
}

#[test]
fn a_task_that_is_aborted() {
    let device = Faulty::new();
    one_thread().block_on(async {
        let theirs = device.clone();
        let task = tokio::spawn(async move { forever(&theirs, "aborted", 1).await });
        for _ in 0..3 {
            yield_now().await;
        }
        assert!(served("aborted") > 1, "aborted in the middle");
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        assert_home_again(&device, "aborted");
    });
    assert_all_back(&device, &["aborted"]);
}

/// A poll of the same scope drops one future, and a poll of another scope drops another.
#[test]
fn a_future_dropped_inside_a_scope() {
    #[cache_scope(name = name)]
    async fn drops(device: &Faulty, name: &str, other: impl Future) -> Result<()> {
        let mine = patterned(device, 40, 5)?;
        {
            let mut other = Box::pin(other);
            poll_fn(|context| Poll::Ready(other.as_mut().poll(context).is_pending())).await;
        }
        // The other future's memory may serve again at once, but no memory of live arrays.
        let next = [patterned(device, 40, 6)?, patterned(device, 40, 7)?];
        yield_now().await;
        assert_pattern(&mine, 5);
        next.iter().zip(6..).for_each(|(array, seed)| assert_pattern(array, seed));
        Ok(())
    }
    let device = Faulty::new();
    one_thread().block_on(async {
        drops(&device, "drops", forever(&device, "drops", 1)).await.unwrap();
        drops(&device, "drops", forever(&device, "dropped", 1)).await.unwrap();
    });
    assert_home_again(&device, "dropped");
    assert_home_again(&device, "drops");
    assert_all_back(&device, &["dropped", "drops"]);
}

/// A panic in a poll, which the runtime catches. The panic leaves the scope, and the arrays of the future return home.
#[test]
fn a_panic_in_a_poll() {
    #[cache_scope(name = name)]
    async fn panics(device: Faulty, name: &str, when: u32) -> Result<()> {
        let _kept = patterned(&device, 40, 1)?;
        for round in 0.. {
            let _also = patterned(&device, 40, 2)?;
            assert!(round < when, "as the test asks");
            yield_now().await;
        }
        Ok(())
    }
    let device = Faulty::new();
    one_thread().block_on(async {
        for when in 0..10 {
            let task = tokio::spawn(panics(device.clone(), "panics", when));
            assert!(task.await.unwrap_err().is_panic());
            assert_outside(&device, "panics");
            assert_eq!(stats_of("panics").busy_blocks, 0);
        }
        assert_home_again(&device, "panics");
    });
    let runtime = threads(2);
    runtime.block_on(async {
        let mut tasks: JoinSet<_> = (0..50).map(|when| panics(device.clone(), "panics too", when % 7)).collect();
        while let Some(ended) = tasks.join_next().await {
            assert!(ended.unwrap_err().is_panic());
        }
    });
    drop(runtime);
    assert_all_back(&device, &["panics", "panics too"]);
}

#[cache_scope(gives)]
async fn gives(device: Faulty, seed: u32, out: mpsc::UnboundedSender<(u32, Words)>) -> Result<()> {
    for seed in (seed..).step_by(1000) {
        let kept = patterned(&device, 40, seed)?;
        yield_now().await;
        drop(out.send((seed, kept.try_clone()?)));
        assert_pattern(&kept, seed);
    }
    Ok(())
}

/// Other threads abort tasks at any point. Arrays that the tasks gave away stay as they were.
#[test]
fn arrays_survive_the_tasks_that_made_them() {
    let device = Faulty::new();
    let runtime = threads(3);
    runtime.block_on(async {
        for _ in 0..10 {
            let (sender, mut given) = mpsc::unbounded_channel();
            let mut tasks: JoinSet<_> = (0..20).map(|seed| gives(device.clone(), seed, sender.clone())).collect();
            drop(sender);
            let mut arrays = Vec::new();
            for _ in 0..200 {
                arrays.extend(given.recv().await);
            }
            tasks.shutdown().await;
            while let Some(last) = given.recv().await {
                arrays.push(last);
            }
            arrays.iter().for_each(|(seed, array)| assert_pattern(array, *seed));
            assert_eq!(stats_of("gives").busy_blocks, arrays.len() as u64);
        }
    });
    drop(runtime);
    assert_all_back(&device, &["gives"]);
}

/// A runtime that ends drops all tasks that wait on it, in whatever state they are.
#[test]
fn the_end_of_a_runtime() {
    for workers in [1, 4] {
        let device = Faulty::new();
        let runtime = threads(workers);
        let (started, all_started) = oneshot::channel();
        for _ in 0..30 {
            let device = device.clone();
            runtime.spawn(async move { forever(&device, "the end", 1).await });
        }
        runtime.spawn(async { started.send(()) });
        all_started.blocking_recv().unwrap();
        drop(runtime);
        assert_all_back(&device, &["the end"]);
    }
}

/// A future is polled here and dropped on another thread. Its arrays return home from there.
#[test]
fn a_future_dropped_on_another_thread() {
    let device = Faulty::new();
    let mut future = Box::pin(async { forever(&device, "elsewhere", 1).await });
    one_thread().block_on(poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())));
    assert_eq!(stats_of("elsewhere").busy_blocks, 1);
    std::thread::scope(|threads| threads.spawn(move || drop(future)).join().unwrap());
    assert_home_again(&device, "elsewhere");
    assert_all_back(&device, &["elsewhere"]);
}
