//! `impl Trait` as a return type and as a parameter.
#![deny(warnings)]
use gpucache::prelude::*;

#[cache_scope(iterator)]
fn evens(limit: &u32) -> impl Iterator<Item = u32> + '_ {
    (0..*limit).filter(|number| number % 2 == 0)
}

#[cache_scope(closure)]
fn adder(by: i32) -> impl Fn(i32) -> i32 {
    move |number| number + by
}

#[cache_scope(parameter)]
fn total(items: impl IntoIterator<Item = u32>) -> u32 {
    items.into_iter().sum()
}

#[cache_scope(nested_in_result)]
fn parsed(text: &str) -> Result<impl std::fmt::Display + use<>, std::num::ParseIntError> {
    let number: i32 = text.parse()?;
    Ok(number)
}

fn main() {
    assert_eq!(total(evens(&7)), 12);
    assert_eq!(adder(2)(3), 5);
    assert_eq!(parsed("8").map(|number| number.to_string()), Ok("8".to_owned()));
    assert!(parsed("eight").is_err());
    assert_eq!(gpucache::stats("iterator").unwrap().entries, 1);
    assert_eq!(gpucache::stats("nested_in_result").unwrap().entries, 2);
}
