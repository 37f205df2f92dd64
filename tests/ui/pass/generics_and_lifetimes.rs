//! Generic parameters, bounds, constants and lifetimes reach the body unchanged.
#![deny(warnings)]
use gpucache::prelude::*;
use std::fmt::Debug;

#[cache_scope(longest)]
fn longest<'a>(left: &'a str, right: &'a str) -> &'a str {
    if left.len() < right.len() { right } else { left }
}

#[cache_scope(elided)]
fn elided(text: &mut Vec<u8>) -> &mut u8 {
    text.push(0);
    text.last_mut().unwrap()
}

#[cache_scope(generic)]
fn generic<T, const N: usize>(items: [T; N]) -> Vec<T>
where
    T: Debug + Clone,
{
    items.into_iter().collect()
}

#[cache_scope(higher_ranked)]
fn higher_ranked<F: for<'a> Fn(&'a [i32]) -> &'a i32>(pick: F) -> i32 {
    let items = vec![1, 2, 3];
    *pick(&items)
}

struct View<'a, T> {
    items: &'a [T],
}

impl<'a, T: Copy> View<'a, T> {
    #[cache_scope(outlives)]
    fn first(&self) -> Option<&'a T> {
        self.items.first()
    }
}

pub(crate) fn main() {
    assert_eq!(longest("ab", "abc"), "abc");
    let mut bytes = vec![1];
    *elided(&mut bytes) = 7;
    assert_eq!(bytes, [1, 7]);
    assert_eq!(generic(["a", "b"]), ["a", "b"]);
    assert_eq!(higher_ranked(|items| &items[1]), 2);
    let items = [4, 5];
    let first = View { items: &items }.first();
    assert_eq!(first, Some(&4));
    for name in ["longest", "elided", "generic", "higher_ranked", "outlives"] {
        assert_eq!(gpucache::stats(name).unwrap().entries, 1, "{name}");
    }
}
