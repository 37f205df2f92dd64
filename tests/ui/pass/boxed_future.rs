//! In functions that return `Box::pin(async { .. })` or an async block, the future runs inside the scope, and its creation outside.
#![deny(warnings)]
use gpucache::prelude::*;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

struct Worker {
    name: String,
}

trait Work {
    fn work<'a>(&'a self, host: &'a Host) -> Boxed<'a, usize>;
    fn named(&self) -> Boxed<'_, usize>;
}

impl Work for Worker {
    #[cache_scope(boxed)]
    fn work<'a>(&'a self, host: &'a Host) -> Boxed<'a, usize> {
        Box::pin(async move {
            let array = Array::<u8, _>::zeros(host, self.name.len()).unwrap();
            suspend().await;
            array.len()
        })
    }

    #[cache_scope(name = self.name)]
    fn named(&self) -> Boxed<'_, usize> {
        let length = self.name.len();
        ::std::boxed::Box::pin(async move { length })
    }
}

#[cache_scope(borrowing)]
fn borrowing<'a>(text: &'a str, seen: &'a mut usize) -> impl Future<Output = Result<(), std::num::ParseIntError>> + 'a {
    async {
        *seen = text.parse()?;
        suspend().await;
        *seen += 1;
        Ok(())
    }
}

#[cache_scope(recursive)]
fn depth(left: u32) -> Boxed<'static, u32> {
    Box::pin(async move { if left == 0 { 0 } else { depth(left - 1).await + 1 } })
}

#[cache_scope(not_the_tail)]
fn not_the_tail(host: &Host) -> usize {
    let future = Box::pin(async move { Array::<u8, _>::zeros(host, 2).unwrap().len() });
    run(future)
}

async fn suspend() {
    let mut suspended = false;
    std::future::poll_fn(|_| if std::mem::replace(&mut suspended, true) { Poll::Ready(()) } else { Poll::Pending })
        .await;
}

fn run<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
    }
}

pub(crate) fn main() {
    let (host, worker) = (Host::new(), Worker { name: "worker".to_owned() });
    let future = worker.work(&host);
    assert!(gpucache::stats("boxed").is_none(), "entered before the first poll");
    assert_eq!(run(future), 6);
    assert_eq!(run(worker.named()), 6);
    let mut seen = 0;
    assert!(run(borrowing("4", &mut seen)).is_ok());
    assert_eq!(seen, 5);
    assert_eq!(run(depth(3)), 3);
    assert_eq!(not_the_tail(&host), 2);
    let boxed = gpucache::stats("boxed").unwrap();
    assert_eq!((boxed.entries, boxed.polls, boxed.allocations()), (1, 2, 1));
    assert_eq!(gpucache::stats("worker").unwrap().entries, 1);
    assert_eq!(gpucache::stats("borrowing").unwrap().polls, 2);
    assert_eq!(gpucache::stats("recursive").unwrap().polls, 4);
    let not_the_tail = gpucache::stats("not_the_tail").unwrap();
    assert_eq!((not_the_tail.entries, not_the_tail.allocations()), (1, 1));
}
