//! A block may contain futures that it does not await: async blocks, async closures and async functions.
#![deny(warnings)]

use std::task::{Context, Poll, Waker};

fn run<F: Future>(future: F) -> Option<F::Output> {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

pub(crate) fn main() {
    let sum = gpucache::cache_scope!(step, {
        async fn one() -> u32 {
            std::future::ready(1).await
        }
        let add = async |number: u32| number + one().await;
        run(async { one().await }).zip(run(async move { add(1).await }))
    });
    assert_eq!(sum, Some((1, 2)));
}
