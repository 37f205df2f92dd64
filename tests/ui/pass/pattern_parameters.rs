//! Parameters that are patterns, ignored, mutable or bound by reference.
#![deny(warnings)]
use gpucache::prelude::*;

struct Point {
    x: i32,
    y: i32,
}

#[cache_scope(patterns)]
fn patterns((a, b): (i32, i32), Point { x, y: height }: Point, [first, ..]: [i32; 3], _: u8, mut sum: i32) -> i32 {
    sum += a + b + x + height + first;
    sum
}

#[allow(clippy::toplevel_ref_arg)]
#[cache_scope(by_reference)]
fn by_reference(ref text: String, &number: &usize) -> usize {
    text.len() + number
}

pub(crate) fn main() {
    assert_eq!(patterns((1, 2), Point { x: 3, y: 4 }, [5, 6, 7], 0, 100), 115);
    assert_eq!(by_reference("abc".to_owned(), &2), 5);
    assert_eq!(gpucache::stats("patterns").unwrap().entries, 1);
}
