//! `return` leaves the function from inside a scope of either kind.
#![deny(warnings)]
use gpucache::prelude::*;

#[cache_scope(sign)]
fn sign(number: i32) -> &'static str {
    if number < 0 {
        return "negative";
    }
    match number {
        0 => return "zero",
        _ => "positive",
    }
}

fn find(haystack: &[i32], needle: i32) -> Option<usize> {
    for (index, item) in haystack.iter().enumerate() {
        gpucache::cache_scope!(search, {
            if *item == needle {
                return Some(index);
            }
        });
    }
    None
}

#[cache_scope(unit)]
fn unit(stop: bool, reached: &mut bool) {
    if stop {
        return;
    }
    *reached = true;
}

pub(crate) fn main() {
    assert_eq!([-1, 0, 1].map(sign), ["negative", "zero", "positive"]);
    assert_eq!((find(&[3, 5, 7], 5), find(&[3], 1)), (Some(1), None));
    let mut reached = false;
    unit(true, &mut reached);
    assert!(!reached);
    unit(false, &mut reached);
    assert!(reached);
    assert_eq!(gpucache::stats("sign").unwrap().entries, 3);
    assert_eq!(gpucache::stats("search").unwrap().entries, 3);
    assert_eq!(gpucache::stats("unit").unwrap().entries, 2);
}
