//! An async block followed by `.boxed()` or `.boxed_local()` of the crate `futures` is polled inside the scope.
#![deny(warnings)]
use gpucache::prelude::*;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

trait Boxing: Future + Sized {
    fn boxed<'a>(self) -> BoxFuture<'a, Self::Output>
    where
        Self: Send + 'a,
    {
        Box::pin(self)
    }
}

impl<F: Future> Boxing for F {}

#[cache_scope(by_method)]
fn by_method(host: &Host) -> BoxFuture<'_, usize> {
    async move { Array::full(host, 4, 1.0f32).map_or(0, |array| array.len()) }.boxed()
}

#[cache_scope(by_await)]
fn by_await(host: &Host) -> BoxFuture<'_, usize> {
    let future = async move { Array::full(host, 4, 1.0f32).map_or(0, |array| array.len()) };
    Box::pin(async move { future.await })
}

pub(crate) fn main() {
    let host = Host::new();
    for (name, mut future) in [("by_method", by_method(&host)), ("by_await", by_await(&host))] {
        assert!(gpucache::stats(name).is_none(), "{name} entered before the first poll");
        let ready = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(ready, Poll::Ready(4));
        let stats = gpucache::stats(name).unwrap();
        assert_eq!((stats.entries, stats.allocations()), (1, 1), "{name}");
    }
}
