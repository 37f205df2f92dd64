//! The name as an identifier: raw identifiers lose their `r#`, and names of options are valid names.
use gpucache::prelude::*;

#[cache_scope(identifier)]
fn plain() {}

#[cache_scope(r#match)]
fn raw() {}

#[cache_scope(name)]
fn called_name() {}

#[cache_scope(recycle)]
fn called_recycle() {}

pub(crate) fn main() {
    plain();
    plain();
    raw();
    called_name();
    called_recycle();
    gpucache::cache_scope!(r#loop, {});
    assert_eq!(gpucache::stats("identifier").unwrap().entries, 2);
    for name in ["match", "name", "recycle", "loop"] {
        assert_eq!(gpucache::stats(name).unwrap().entries, 1, "{name}");
    }
    assert!(gpucache::stats("r#match").is_none());
}
