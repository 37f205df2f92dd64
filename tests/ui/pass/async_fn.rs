//! An `async fn` enters its scope at each poll and leaves it at each suspension.
#![deny(warnings)]
#![forbid(unsafe_code)]
use gpucache::prelude::*;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

#[cache_scope(first)]
async fn first(host: &Host) -> f32 {
    let before = Array::full(host, 2, 1.0_f32).unwrap();
    suspend().await;
    let after = Array::full(host, 2, 2.0_f32).unwrap();
    suspend().await;
    before[0] + after[1]
}

#[cache_scope(second, recycle = "off")]
async fn second(host: &Host, count: usize) -> usize {
    let mut total = 0;
    for _ in 0..count {
        total += Array::<u8, _>::zeros(host, 3).unwrap().len();
        suspend().await;
    }
    total
}

async fn suspend() {
    let mut suspended = false;
    std::future::poll_fn(|_| {
        if suspended {
            return Poll::Ready(());
        }
        suspended = true;
        Poll::Pending
    })
    .await;
}

fn served(name: &str) -> u64 {
    let stats = gpucache::stats(name).unwrap();
    stats.allocations()
}

pub(crate) fn main() {
    let host = Host::new();
    let mut context = Context::from_waker(Waker::noop());
    let mut first = pin!(first(&host));
    let mut second = pin!(second(&host, 2));
    assert!(gpucache::stats("first").is_none(), "entered before the first poll");

    assert_eq!(first.as_mut().poll(&mut context), Poll::Pending);
    let between = Array::<u8, _>::zeros(&host, 2).unwrap();
    assert_eq!(second.as_mut().poll(&mut context), Poll::Pending);
    assert_eq!(first.as_mut().poll(&mut context), Poll::Pending);
    assert_eq!(second.as_mut().poll(&mut context), Poll::Pending);
    assert_eq!(first.as_mut().poll(&mut context), Poll::Ready(3.0));
    assert_eq!(second.as_mut().poll(&mut context), Poll::Ready(6));

    assert_eq!(between.len(), 2);
    assert_eq!((served("first"), served("second")), (2, 2));
    let visits = |name| gpucache::stats(name).map(|stats| (stats.entries, stats.polls));
    assert_eq!((visits("first"), visits("second")), (Some((1, 3)), Some((1, 3))));
}
