//! The name as a string literal of any kind.
use gpucache::prelude::*;

#[cache_scope("train step")]
fn plain() {}

#[cache_scope(r#"say "eval""#)]
fn raw() {}

#[cache_scope(name = "assigned")]
fn assigned() {}

pub(crate) fn main() {
    plain();
    raw();
    assigned();
    gpucache::cache_scope!("a block", {});
    gpucache::cache_scope!(name = "an assigned block", {});
    for name in ["train step", "say \"eval\"", "assigned", "a block", "an assigned block"] {
        assert_eq!(gpucache::stats(name).unwrap().entries, 1, "{name}");
    }
}
