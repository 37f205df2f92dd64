//! Futures that wait, on one thread. Meanwhile the thread is outside their scopes, whatever else runs on it.

use gpucache::device::Device as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use gpucache::prelude::cache_scope;
use gpucache::{Result, Scope, cache_scope as scope_block};
use gpucache_tests::Faulty;
use gpucache_tests::conformance::{assert_pattern, patterned, stats_of, touch};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::{LocalSet, yield_now};
use tokio::time::{Instant, sleep};

use super::{Words, assert_all_back, assert_outside, one_thread, served, work};

#[cache_scope(bystander)]
async fn with_a_bystander(device: &Faulty, seed: u32) -> Result<Words> {
    work(device, seed, 10).await
}

/// Another task allocates at each of its turns. If a guard lives across an await, its arrays are counted.
#[test]
fn a_task_on_the_same_thread_is_outside() {
    let device = Faulty::new();
    one_thread().block_on(async {
        let (task, turns) = (device.clone(), Arc::new(AtomicU64::new(0)));
        let scoped = tokio::spawn(async move { with_a_bystander(&task, 1).await });
        let (beside, counted) = (device.clone(), turns.clone());
        let bystander = tokio::spawn(async move {
            loop {
                assert_outside(&beside, "bystander");
                counted.fetch_add(1, Relaxed);
                yield_now().await;
            }
        });
        assert_pattern(&scoped.await.unwrap().unwrap(), 1);
        assert!(turns.load(Relaxed) >= 10, "the task beside ran while the scoped one waited");
        bystander.abort();
        assert!(bystander.await.unwrap_err().is_cancelled(), "the task beside never failed");
    });
    assert_eq!((served("bystander"), stats_of("bystander").polls), (11, 21));
    assert_all_back(&device, &["bystander"]);
}

#[cache_scope(waiting)]
async fn waits(device: Faulty, mut words: mpsc::Receiver<Words>, done: oneshot::Sender<Words>) -> Result<u32> {
    let kept = patterned(&device, 40, 1)?;
    let mut received = 0;
    while let Some(array) = words.recv().await {
        received += 1;
        assert_pattern(&array, 100 + received);
        let answer = patterned(&device, 40, 200 + received)?;
        sleep(Duration::from_secs(60)).await;
        assert_pattern(&answer, 200 + received);
        assert_pattern(&array, 100 + received);
    }
    assert_pattern(&kept, 1);
    done.send(kept).unwrap();
    Ok(received)
}

/// Channels and timers wake a future from outside, where plain arrays are made. None of them belongs to the scope.
#[test]
fn channels_and_timers() {
    let device = Faulty::new();
    one_thread().block_on(async {
        let (start, (sender, words), (done, kept)) = (Instant::now(), mpsc::channel(1), oneshot::channel());
        let waiting = tokio::spawn(waits(device.clone(), words, done));
        for seed in 1..=5 {
            sender.send(patterned(&device, 40, 100 + seed).unwrap()).await.unwrap();
            assert_outside(&device, "waiting");
        }
        drop(sender);
        assert_eq!(waiting.await.unwrap().unwrap(), 5);
        assert_pattern(&kept.await.unwrap(), 1);
        assert!(start.elapsed() >= Duration::from_secs(300), "five timers ran out one after the other");
    });
    assert_eq!(served("waiting"), 6);
    assert_all_back(&device, &["waiting"]);
}

/// Two futures wake each other in turn. Each array comes from the scope of the future that made it.
#[test]
fn two_that_alternate() {
    #[cache_scope(name = name)]
    async fn alternate(device: Faulty, name: &'static str, own: Arc<Notify>, other: Arc<Notify>) -> Result<()> {
        for seed in 0..50 {
            own.notified().await;
            let array = patterned(&device, 40, seed)?;
            other.notify_one();
            yield_now().await;
            assert_pattern(&array, seed);
        }
        Ok(())
    }
    let device = Faulty::new();
    one_thread().block_on(async {
        let (ping, pong) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let first = tokio::spawn(alternate(device.clone(), "ping", ping.clone(), pong.clone()));
        let second = tokio::spawn(alternate(device.clone(), "pong", pong, ping.clone()));
        ping.notify_one();
        first.await.unwrap().unwrap();
        second.await.unwrap().unwrap();
        assert_outside(&device, "ping");
        assert_outside(&device, "pong");
    });
    assert_eq!((served("ping"), served("pong")), (50, 50));
    assert_all_back(&device, &["ping", "pong"]);
}

#[cache_scope(joined)]
async fn joined(device: &Faulty, seed: u32, rounds: u32) -> Result<Words> {
    work(device, seed, rounds).await
}

/// Futures of one scope take turns on one thread, often enough that a plan is made. Each poll is an entry, and arrays live across
/// the entries of others.
#[test]
fn joined_futures_of_one_scope() {
    let device = Faulty::with_chunks(1 << 30);
    one_thread().block_on(async {
        for turn in 0..40 {
            let futures = (joined(&device, turn, 3), joined(&device, turn + 50, 5), joined(&device, turn + 90, 3));
            let arrays = tokio::join!(futures.0, futures.1, futures.2, async {
                for _ in 0..4 {
                    assert_outside(&device, "joined");
                    yield_now().await;
                }
            });
            assert_pattern(&arrays.0.unwrap(), turn);
            assert_pattern(&arrays.1.unwrap(), turn + 50);
            assert_pattern(&arrays.2.unwrap(), turn + 90);
        }
    });
    assert_eq!((served("joined"), stats_of("joined").polls), (40 * 14, 40 * (7 + 11 + 7)));
    gpucache::invalidate("joined");
    assert_eq!(stats_of("joined").busy_blocks, 0);
    device.trim();
    device.assert_clean();
}

#[cache_scope(outermost)]
async fn outermost(device: &Faulty) -> Result<()> {
    let mine = patterned(device, 40, 1)?;
    let (inner, own) = tokio::join!(innermost(device), work(device, 30, 2));
    assert_pattern(&inner?, 20);
    assert_pattern(&own?, 30);
    let inner = scope_block!(innermost, { patterned(device, 40, 4)? });
    yield_now().await;
    assert_pattern(&inner, 4);
    assert_pattern(&mine, 1);
    touch::<u32, _>(device, 40)
}

#[cache_scope(innermost)]
async fn innermost(device: &Faulty) -> Result<Words> {
    let kept = work(device, 20, 2).await?;
    let plain = gpucache::uncached!({ patterned(device, 40, 5)? });
    yield_now().await;
    assert_pattern(&plain, 5);
    Ok(kept)
}

/// The inner scope serves the allocations of its own future. After each poll of it, the outer scope serves again.
#[test]
fn nested_scopes_wait_together() {
    let device = Faulty::new();
    one_thread().block_on(async {
        let (nested, ()) = tokio::join!(outermost(&device), async {
            for _ in 0..5 {
                assert_outside(&device, "outermost");
                assert_outside(&device, "innermost");
                yield_now().await;
            }
        });
        nested.unwrap();
    });
    assert_eq!((served("outermost"), served("innermost")), (1 + 3 + 1, 3 + 1));
    assert_all_back(&device, &["outermost", "innermost"]);
}

/// A guard is not dropped at an await: its thread stays inside, and tasks that end in any order leave it. So the macro for blocks
/// refuses an await.
#[test]
fn guards_stay_entered_until_they_are_dropped() {
    async fn holds(device: Faulty, rounds: u32) -> Result<()> {
        let _inside = Scope::new("held").enter();
        work(&device, 10 * rounds, rounds).await?.try_clone().map(drop)
    }
    let device = Faulty::new();
    let tasks = LocalSet::new();
    one_thread().block_on(tasks.run_until(async {
        let (longer, shorter) = (holds(device.clone(), 7), holds(device.clone(), 3));
        let tasks = [tokio::task::spawn_local(longer), tokio::task::spawn_local(shorter)];
        yield_now().await;
        let before = served("held");
        touch::<u32, _>(&device, 40).unwrap();
        assert_eq!(served("held"), before + 1, "the thread is inside");
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        assert_outside(&device, "held");
    }));
    assert_eq!((stats_of("held").entries, stats_of("held").polls), (2, 0), "a block is no future");
    assert_all_back(&device, &["held"]);
}
