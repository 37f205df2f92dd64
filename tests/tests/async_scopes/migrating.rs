//! Futures that one thread polls and then another. The cache of the polling thread serves each poll, and arrays return to the cache
//! that served them.

use std::sync::mpsc::{Sender, channel};
use std::thread::{ThreadId, current};

use gpucache::prelude::cache_scope;
use gpucache::{Result, invalidate};
use gpucache_tests::conformance::{assert_pattern, patterned, stats_of, touch};
use gpucache_tests::{Faulty, supplied};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, block_in_place, spawn_blocking, yield_now};

use super::{Words, assert_all_back, assert_outside, served, threads, work};

/// Occupies both workers of a runtime until each is released. One after the other: tokio may take two tasks out of its queue at
/// once, and the second would wait behind the first.
fn occupy(runtime: &Runtime) -> [(ThreadId, Sender<()>); 2] {
    [(); 2].map(|()| {
        let (held, worker) = channel();
        runtime.spawn(async move {
            let (go, may_go) = channel::<()>();
            held.send((current().id(), go)).unwrap();
            // An error, once the other end is gone.
            let _ = may_go.recv();
        });
        worker.recv().unwrap()
    })
}

/// A future's next step, and the thread that ran it.
type Hops = (mpsc::Receiver<()>, Sender<ThreadId>);

#[cache_scope(hops)]
async fn hop(device: Faulty, (mut go, at): Hops) -> Result<()> {
    let mut arrays: Vec<(u32, Words)> = Vec::new();
    let mut seed = 0;
    while go.recv().await.is_some() {
        seed += 1;
        arrays.push((seed, patterned(&device, 40, seed)?));
        // The other thread made half of the arrays that are dropped here.
        if arrays.len() > 4 {
            let (seed, array) = arrays.swap_remove(seed as usize % 4);
            assert_pattern(&array, seed);
        }
        arrays.iter().for_each(|(seed, array)| assert_pattern(array, *seed));
        at.send(current().id()).unwrap();
    }
    Ok(())
}

/// Both workers are occupied, and then the one that did not poll the future last is released. So the future has to change threads
/// at every step. The worker that it left must be outside its scope, which its next task would show.
#[test]
fn at_every_step_to_another_thread() {
    const STEPS: u64 = 60;
    let device = Faulty::new();
    let runtime = threads(2);
    let ((step, go), (at, places)) = (mpsc::channel(1), channel());
    let task = runtime.spawn(hop(device.clone(), (go, at)));
    let mut last: Option<ThreadId> = None;
    for _ in 0..STEPS {
        let [first, second] = occupy(&runtime);
        let (there, held) = if last == Some(first.0) { (second, first) } else { (first, second) };
        drop(there.1);
        step.blocking_send(()).unwrap();
        assert_eq!(places.recv().unwrap(), there.0, "polled by the only worker that was free");
        last = Some(there.0);
        drop(held.1);
        let beside = device.clone();
        runtime.block_on(runtime.spawn(async move { touch::<u32, _>(&beside, 40) })).unwrap().unwrap();
    }
    drop(step);
    runtime.block_on(task).unwrap().unwrap();
    assert_eq!(served("hops"), STEPS, "what ran between was outside");
    let stats = stats_of("hops");
    assert!(supplied(&stats) < 15 && stats.busy_blocks == 0, "arrays went home and were used again: {stats:?}");
    drop(runtime);
    assert_all_back(&device, &["hops"]);
}

#[cache_scope(blocking)]
async fn blocking(device: Faulty) -> Result<()> {
    let kept = patterned(&device, 40, 1)?;
    // The worker hands its tasks to another thread, and stays inside the scope itself.
    block_in_place(|| {
        touch::<u32, _>(&device, 40)?;
        let beside = device.clone();
        let (done, is_done) = channel();
        tokio::spawn(async move {
            assert_outside(&beside, "blocking");
            done.send(()).unwrap();
        });
        is_done.recv().unwrap();
        Ok::<_, gpucache::Error>(())
    })?;
    let theirs = spawn_blocking(move || {
        assert_pattern(&kept, 1);
        let device = gpucache::Array::device(&kept).clone();
        assert_outside(&device, "blocking");
        drop(kept);
        patterned(&device, 40, 2)
    });
    let theirs = theirs.await.unwrap()?;
    let mine = patterned(&device, 40, 3)?;
    assert_pattern(&theirs, 2);
    assert_pattern(&mine, 3);
    Ok(())
}

/// Threads beside the workers: those that take over from a worker that blocks, and those that may block.
#[test]
fn threads_that_may_block() {
    let device = Faulty::new();
    let runtime = threads(2);
    runtime.block_on(runtime.spawn(blocking(device.clone()))).unwrap().unwrap();
    // An array of its own, `touch`, and the last array. `spawn_blocking` made a plain array.
    assert_eq!(served("blocking"), 3);
    drop(runtime);
    assert_all_back(&device, &["blocking"]);
}

/// The channels of a task of the crowd: where to send arrays, and where they come from.
struct Member {
    number: u32,
    senders: Vec<mpsc::UnboundedSender<(u32, Words)>>,
    inbox: mpsc::UnboundedReceiver<(u32, Words)>,
}

const NAMES: [&str; 3] = ["crowd 0", "crowd 1", "crowd 2"];

impl Member {
    /// Random work of one scope inside others, `depth` deep.
    #[cache_scope(name = NAMES[(self.number as usize + depth as usize) % NAMES.len()])]
    async fn stir(&mut self, device: &Faulty, depth: u32) -> Result<u64> {
        let mut random = fastrand::Rng::with_seed((self.number * 10 + depth).into());
        let (mut made, mut arrays) = (0, Vec::new());
        for step in 0..30 {
            let seed = self.number * 1000 + depth * 100 + step;
            match random.u32(..10) {
                0..4 => arrays.push((seed, patterned(device, random.usize(1..60), seed)?)),
                4 => made += work(device, seed, 1).await.map(|_| 2)?,
                5 if depth > 0 => made += Box::pin(self.stir(device, depth - 1)).await?,
                6 => drop(arrays.pop().map(|last| self.senders[random.usize(..self.senders.len())].send(last))),
                7 => arrays.extend(self.inbox.try_recv()),
                8 => drop(arrays.pop()),
                _ => yield_now().await,
            }
            made += u64::from(arrays.last().is_some_and(|(last, _)| *last == seed));
            arrays.iter().for_each(|(seed, array)| assert_pattern(array, *seed));
        }
        Ok(made)
    }
}

/// Tasks of all scopes exchange arrays, on four workers, while the scopes are invalidated. Every tenth task is aborted.
#[test]
fn a_crowd() {
    let device = Faulty::new();
    let runtime = threads(4);
    let before = NAMES.map(served).iter().sum::<u64>();
    let made = runtime.block_on(async {
        let (senders, inboxes): (Vec<_>, Vec<_>) = (0..64).map(|_| mpsc::unbounded_channel()).unzip();
        let (mut tasks, mut doomed) = (JoinSet::new(), JoinSet::new());
        for (number, inbox) in (0..).zip(inboxes) {
            let (device, senders) = (device.clone(), senders.clone());
            let mut member = Member { number, senders, inbox };
            match number % 10 {
                0 => drop(doomed.spawn(async move { member.stir(&device, 3).await })),
                _ => drop(tasks.spawn(async move { member.stir(&device, 3).await })),
            }
        }
        let mut made = 0;
        while let Some(ended) = tasks.join_next().await {
            made += ended.unwrap().unwrap();
            invalidate(NAMES[made as usize % NAMES.len()]);
            doomed.abort_all();
        }
        while let Some(ended) = doomed.join_next().await {
            assert!(ended.is_ok() || ended.unwrap_err().is_cancelled());
        }
        made
    });
    drop(runtime);
    assert!(NAMES.map(served).iter().sum::<u64>() >= before + made, "each array was made by a scope");
    assert_all_back(&device, &NAMES);
}

/// The tasks wait in a queue and not on a thread: one worker polls the sender, and another the receiver.
#[test]
fn arrays_that_are_dropped_where_they_were_not_made() {
    #[cache_scope(produced)]
    async fn produce(device: Faulty, out: mpsc::Sender<(u32, Words)>) -> Result<()> {
        for seed in 0..500 {
            out.send((seed, patterned(&device, 40, seed)?)).await.unwrap();
        }
        Ok(())
    }
    #[cache_scope(consumed)]
    async fn consume(mut arrays: mpsc::Receiver<(u32, Words)>, done: oneshot::Sender<u32>) -> Result<()> {
        let mut sum = 0;
        while let Some((seed, array)) = arrays.recv().await {
            let copy = array.try_clone()?;
            drop(array);
            yield_now().await;
            assert_pattern(&copy, seed);
            sum += 1;
        }
        done.send(sum).unwrap();
        Ok(())
    }
    let device = Faulty::new();
    let runtime = threads(2);
    let ((sender, arrays), (done, sum)) = (mpsc::channel(4), oneshot::channel());
    runtime.spawn(produce(device.clone(), sender));
    runtime.spawn(consume(arrays, done));
    assert_eq!(sum.blocking_recv().unwrap(), 500);
    drop(runtime);
    assert_eq!((served("produced"), served("consumed")), (500, 500));
    let stats = stats_of("produced");
    assert!(supplied(&stats) < 100, "most of what was dropped elsewhere was used again: {stats:?}");
    assert_all_back(&device, &["produced", "consumed"]);
}
