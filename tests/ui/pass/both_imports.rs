//! One `use` brings the attribute, of the prelude, and the block macro, of the root.
#![deny(warnings)]
use gpucache::{cache_scope, prelude::*};

#[cache_scope(both_outer)]
fn outer(host: &Host) -> gpucache::Result<f32> {
    let input = Array::full(host, 16, 1.0f32)?;
    cache_scope!(both_inner, { Ok(Array::full(host, 16, 2.0f32)?.iter().chain(&*input).sum()) })
}

mod inner {
    use gpucache::{cache_scope, prelude::*};

    #[cache_scope("both outer")]
    pub(crate) fn step() -> i32 {
        cache_scope!(both_inner, { 40 })
    }
}

pub(crate) fn main() {
    assert_eq!(outer(&Host::new()).unwrap() as i32 + inner::step(), 88);
    assert_eq!(gpucache::stats("both_outer").unwrap().entries, 1);
    assert_eq!(gpucache::stats("both_inner").unwrap().entries, 2);
}
