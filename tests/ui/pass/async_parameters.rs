//! Every parameter of a scoped `async fn` lives until its future completes, used or not.
#![deny(warnings)]
use gpucache::prelude::*;
use std::cell::RefCell;
use std::task::{Context, Poll, Waker};

struct Noisy<'a>(&'static str, &'a RefCell<Vec<&'static str>>);

impl Noisy<'_> {
    fn length(&self) -> usize {
        self.0.len()
    }
}

impl Drop for Noisy<'_> {
    fn drop(&mut self) {
        self.1.borrow_mut().push(self.0);
    }
}

async fn plain(used: Noisy<'_>, _: Noisy<'_>, (left, _right): (Noisy<'_>, Noisy<'_>), _unused: Noisy<'_>) -> usize {
    let _local = Noisy("local", used.1);
    used.length() + left.length()
}

#[cache_scope(parameters)]
async fn scoped(used: Noisy<'_>, _: Noisy<'_>, (left, _right): (Noisy<'_>, Noisy<'_>), _unused: Noisy<'_>) -> usize {
    let _local = Noisy("local", used.1);
    used.length() + left.length()
}

#[cache_scope(parameters)]
async fn patterns((a, mut b): (i32, i32), [first, ..]: [i32; 2], mut total: i32, &by: &i32) -> i32 {
    b += 1;
    total += a + b + first + by;
    total
}

/// Tells its log what its flag is when it drops.
struct Flag<'a>(bool, &'a RefCell<Vec<bool>>);

impl Flag<'_> {
    #[cache_scope(parameters)]
    async fn raised(mut self) {
        self.0 = true;
    }
}

impl Drop for Flag<'_> {
    fn drop(&mut self) {
        self.1.borrow_mut().push(self.0);
    }
}

#[cache_scope(parameters)]
async fn raise(mut flag: Flag<'_>) {
    flag.0 = true;
}

fn poll<F: Future>(future: F) -> Poll<F::Output> {
    std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

pub(crate) fn main() {
    let log = RefCell::default();
    let noisy = |name| Noisy(name, &log);
    let (left, right) = (noisy("left"), noisy("right"));
    assert_eq!(poll(plain(noisy("used"), noisy("ignored"), (left, right), noisy("unused"))), Poll::Ready(8));
    let of_plain = log.take();
    let (left, right) = (noisy("left"), noisy("right"));
    assert_eq!(poll(scoped(noisy("used"), noisy("ignored"), (left, right), noisy("unused"))), Poll::Ready(8));
    assert_eq!(log.take(), of_plain);
    assert_eq!(poll(patterns((1, 2), [3, 0], 10, &5)), Poll::Ready(22));

    let log = RefCell::default();
    assert!(poll(raise(Flag(false, &log))).is_ready());
    assert!(poll(Flag(false, &log).raised()).is_ready());
    assert_eq!(log.take(), [true, true], "a body assigned to a copy of a parameter's field");
}
