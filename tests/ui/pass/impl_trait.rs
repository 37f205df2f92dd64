//! `impl Trait` as a return type and as a parameter; code that runs later, with the scope around its creation.
#![deny(warnings)]
use gpucache::prelude::*;

#[cache_scope(display)]
fn shown(number: &u32) -> impl std::fmt::Display + '_ {
    number
}

#[cache_scope(iterator)]
fn evens(limit: &u32) -> Option<impl Iterator<Item = u32> + '_> {
    Some((0..*limit).filter(|number| number % 2 == 0))
}

fn odds(limit: &u32) -> impl Iterator<Item = u32> + '_ {
    gpucache::cache_scope!(block, { (0..*limit).filter(|number| number % 2 == 1) })
}

#[cache_scope(lent)]
fn lent<'a>(adder: &'a dyn Fn(i32) -> i32) -> &'a dyn Fn(i32) -> i32 {
    adder
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

pub(crate) fn main() {
    assert_eq!(shown(&3).to_string(), "3");
    assert_eq!(evens(&7).map(total), Some(12));
    assert_eq!(total(odds(&7)), 9);
    assert_eq!(lent(&|number| number + 2)(3), 5);
    assert_eq!(parsed("8").map(|number| number.to_string()), Ok("8".to_owned()));
    assert!(parsed("eight").is_err());
    for name in ["display", "iterator", "block", "lent"] {
        assert_eq!(gpucache::stats(name).unwrap().entries, 1, "{name}");
    }
    assert_eq!(gpucache::stats("nested_in_result").unwrap().entries, 2);
}
