//! The attribute from the prelude and the short block form in one file.
#![deny(warnings)]
#[macro_use]
extern crate gpucache;

use gpucache::prelude::*;

#[cache_scope(attribute)]
fn step(number: i32) -> i32 {
    cache_scope!(block, recycle = "off", { number + 1 })
}

mod inner {
    use gpucache::prelude::cache_scope;

    #[cache_scope(inner)]
    pub(crate) fn step() -> i32 {
        cache_scope!(block, { 40 })
    }
}

pub(crate) fn main() {
    assert_eq!(step(1) + inner::step(), 42);
    assert_eq!(gpucache::stats("attribute").unwrap().entries, 1);
    assert_eq!(gpucache::stats("block").unwrap().entries, 2);
}
