//! `?` leaves the function, in both macros, and the scope with it.
#![deny(warnings)]
use gpucache::prelude::*;
use std::error::Error;

#[cache_scope(parse)]
fn parse(text: &str) -> Result<i32, Box<dyn Error>> {
    let number: i32 = text.parse()?;
    Ok(number * 2)
}

fn parse_in_block(text: &str) -> Option<u32> {
    let digit = gpucache::cache_scope!(digit, { text.chars().next()?.to_digit(10)? });
    Some(digit + 1)
}

#[cache_scope(allocate)]
fn allocate(host: &Host, len: usize) -> gpucache::Result<f32> {
    let ones = Array::full(host, len, 1.0_f32)?;
    Ok(ones.iter().sum())
}

pub(crate) fn main() {
    assert_eq!(parse("21").unwrap(), 42);
    assert!(parse("x").is_err());
    assert_eq!((parse_in_block("4"), parse_in_block("x"), parse_in_block("")), (Some(5), None, None));
    assert_eq!(allocate(&Host::new(), 3).unwrap(), 3.0);
    assert_eq!(gpucache::stats("parse").unwrap().entries, 2);
    assert_eq!(gpucache::stats("digit").unwrap().entries, 3);

    let outside = Array::<f32, Host>::zeros(&Host::new(), 3).unwrap();
    assert_eq!(outside.shape(), [3]);
    let allocate = gpucache::stats("allocate").unwrap();
    assert_eq!(allocate.allocations(), 1, "an early exit left the scope open");
}
