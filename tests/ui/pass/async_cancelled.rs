//! A future that is dropped between two polls, or that panics in a poll, leaves no scope open.
#![deny(warnings)]
use gpucache::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Waker};

#[cache_scope(cancelled)]
async fn cancelled(host: &Host) {
    let array = Array::<u8, _>::zeros(host, 1).unwrap();
    std::future::pending::<()>().await;
    drop(array);
}

#[cache_scope(panicked)]
async fn panicked(host: &Host) -> usize {
    let array = Array::<u8, _>::zeros(host, 1).unwrap();
    std::future::ready(()).await;
    [0, 1][array.len() + 1]
}

pub(crate) fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let host = Host::new();
    let mut context = Context::from_waker(Waker::noop());
    assert!(pin!(cancelled(&host)).poll(&mut context).is_pending());
    assert!(catch_unwind(AssertUnwindSafe(|| pin!(panicked(&host)).poll(&mut context))).is_err());
    let outside = Array::<u8, _>::zeros(&host, 1).unwrap();
    assert_eq!(&outside[..], [0]);
    for name in ["cancelled", "panicked"] {
        let stats = gpucache::stats(name).unwrap();
        assert_eq!((stats.entries, stats.allocations()), (1, 1), "{name}");
    }
}
