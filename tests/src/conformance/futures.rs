//! Functions that return futures: inside their scope while they are polled, outside while they wait.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Poll, Waker};

use gpucache::device::Device;
use gpucache::{Array, Result, cache_scope};

use crate::supplied;

use super::{Context, assert_pattern, hits_and_supplies, patterned, stats_of, touch};

/// Polls a future once.
fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut std::task::Context::from_waker(Waker::noop()))
}

/// Waits for one poll.
async fn pause() {
    let mut polled = false;
    std::future::poll_fn(|_| if std::mem::replace(&mut polled, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

#[gpucache::prelude::cache_scope(name = name)]
async fn work<D: Device>(device: &D, name: &str, seed: u32) -> Result<Array<u32, D>> {
    assert!(name.ends_with(char::is_alphabetic), "the name is the body's, too");
    let kept = patterned(device, 40, seed)?;
    pause().await;
    touch::<u8, D>(device, 7)?;
    pause().await;
    assert_pattern(&kept, seed);
    Ok(kept)
}

/// Two futures take turns on one thread. Each allocates from its own scope, and the poller from none.
pub fn two_that_take_turns<D: Device>(device: &D, context: &Context) -> Result<()> {
    let (a, b) = (context.name("a"), context.name("b"));
    let (mut first, mut second) = (pin!(work(device, &a, 1)), pin!(work(device, &b, 2)));
    for _ in 0..2 {
        assert!(poll(first.as_mut()).is_pending());
        touch::<u8, D>(device, 7)?;
        assert!(poll(second.as_mut()).is_pending());
    }
    let (Poll::Ready(second), Poll::Ready(first)) = (poll(second), poll(first)) else { panic!("both are done") };
    assert_pattern(&first?, 1);
    assert_pattern(&second?, 2);
    assert_eq!((hits_and_supplies(&a), hits_and_supplies(&b)), ((0, 2), (0, 2)));
    assert_eq!((stats_of(&a).entries, stats_of(&a).polls), (1, 3), "one entry, however often it is polled");
    Ok(())
}

/// A future that one thread polls and then another allocates from each thread's own cache.
pub fn one_that_changes_threads<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let mut future = Box::pin(work(device, &name, 3));
    assert!(poll(future.as_mut()).is_pending());
    let elsewhere = std::thread::scope(|threads| {
        threads.spawn(move || (poll(future.as_mut()).is_pending(), poll(future.as_mut()))).join().expect("no panic")
    });
    let (true, Poll::Ready(array)) = elsewhere else { panic!("done at the third poll") };
    assert_pattern(&array?, 3);
    cache_scope!(name = &name, { touch::<u32, D>(device, 40)? });
    assert_eq!(hits_and_supplies(&name), (1, 2), "the array came home to this thread");
    Ok(())
}

/// A future that is dropped while it waits leaves nothing behind.
pub fn one_that_is_dropped<D: Device>(device: &D, context: &Context) -> Result<()> {
    let name = context.name("scope");
    let mut future = Box::pin(work(device, &name, 4));
    assert!(poll(future.as_mut()).is_pending());
    cache_scope!(name = &name, { drop(future) });
    touch::<u32, D>(device, 40)?;
    let stats = stats_of(&name);
    assert_eq!((stats.busy_blocks, stats.idle_blocks, supplied(&stats)), (0, 1, 1));
    Ok(())
}

/// Scopes inside a future nest as everywhere else.
pub fn a_scope_within_a_future<D: Device>(device: &D, context: &Context) -> Result<()> {
    #[gpucache::prelude::cache_scope(name = outer)]
    async fn nested<D: Device>(device: &D, outer: &str, inner: &str) -> Result<()> {
        assert_ne!(outer, inner);
        for _ in 0..2 {
            cache_scope!(name = inner, { touch::<u8, D>(device, 9)? });
            pause().await;
            touch::<u8, D>(device, 9)?;
        }
        work(device, inner, 6).await.map(drop)
    }
    let (outer, inner) = (context.name("outer"), context.name("inner"));
    let mut future = pin!(nested(device, &outer, &inner));
    let answer = loop {
        if let Poll::Ready(answer) = poll(future.as_mut()) {
            break answer;
        }
        touch::<u8, D>(device, 9)?;
    };
    assert_eq!(hits_and_supplies(&outer), (1, 1));
    let (hits, misses) = hits_and_supplies(&inner);
    assert!(hits + misses == 4 && misses <= 3, "{hits} hits, {misses} misses");
    answer
}
