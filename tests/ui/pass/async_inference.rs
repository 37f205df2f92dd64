//! A scoped `async fn` infers the same types from its return type as a plain one.
#![deny(warnings)]
use gpucache::prelude::*;
use std::error::Error;
use std::fmt::{Debug, Display};
use std::task::{Context, Poll, Waker};

#[cache_scope(inference)]
async fn question_mark(text: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let number: u32 = text.parse()?;
    if number > 9 {
        return Err("too large".into());
    }
    Ok((0..).take(number as usize).collect())
}

#[cache_scope(inference)]
async fn opaque() -> impl Display + Debug {
    "opaque"
}

#[cache_scope(inference)]
async fn nested_opaque(text: &str) -> Result<(impl Display, Option<impl Display + use<>>), std::num::ParseIntError> {
    let number: i32 = text.parse()?;
    Ok((number, Some('c')))
}

#[cache_scope(inference)]
async fn coerced(flag: bool) -> &'static [u8] {
    if flag {
        return &[1, 2];
    }
    &[]
}

#[cache_scope(inference)]
async fn boxed(text: &str) -> Box<dyn Debug + '_> {
    Box::new(text)
}

#[cache_scope(inference)]
async fn lifetimes<'a, T: Clone>(items: &'a [T], _other: &str) -> Option<&'a T> {
    let first = items.first()?;
    Some(first)
}

#[cache_scope(inference)]
async fn unit(out: &mut Vec<u32>) {
    if !out.is_empty() {
        return;
    }
    out.extend("1 2".split(' ').flat_map(str::parse::<u32>));
}

#[cache_scope(inference)]
async fn never() -> ! {
    std::future::pending().await
}

#[cache_scope(inference)]
async fn never_loops() -> ! {
    loop {
        std::future::pending::<()>().await;
    }
}

#[cache_scope(inference)]
async fn diverges() -> u32 {
    unreachable!("never polled")
}

fn poll<F: Future>(future: F) -> Poll<F::Output> {
    std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

pub(crate) fn main() {
    assert!(matches!(poll(question_mark("3")), Poll::Ready(Ok(bytes)) if bytes == [0, 1, 2]));
    assert!(matches!(poll(question_mark("30")), Poll::Ready(Err(_))));
    assert_eq!(format!("{:?}", poll(opaque())), "Ready(\"opaque\")");
    assert!(matches!(poll(nested_opaque("5")), Poll::Ready(Ok((five, _))) if five.to_string() == "5"));
    assert_eq!(poll(coerced(true)), Poll::Ready(&[1, 2][..]));
    assert_eq!(format!("{:?}", poll(boxed("text"))), "Ready(\"text\")");
    assert_eq!(poll(lifetimes(&[3, 4], "")), Poll::Ready(Some(&3)));
    let mut out = Vec::new();
    assert_eq!(poll(unit(&mut out)), Poll::Ready(()));
    assert_eq!(out, [1, 2]);
    assert!(poll(never()).is_pending());
    assert!(poll(never_loops()).is_pending());
    drop(diverges());
    assert_eq!(gpucache::stats("inference").unwrap().entries, 10);
}
