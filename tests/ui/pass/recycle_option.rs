//! Each value of `recycle`, with and without a trailing comma, before and after the name.
#![deny(warnings)]
use gpucache::prelude::*;

#[cache_scope(auto, recycle = "auto")]
fn auto(host: &Host) -> Array<f32, Host> {
    Array::full(host, [2, 3], 3.0).unwrap()
}

#[cache_scope(range, recycle = "range")]
fn range(host: &Host) -> Array<f32, Host> {
    Array::full(host, [2, 3], 4.0).unwrap()
}

#[cache_scope(keyed, recycle = "keyed")]
fn keyed(host: &Host) -> Array<f32, Host> {
    Array::full(host, [2, 3], 1.0).unwrap()
}

#[rustfmt::skip]
#[cache_scope("off", recycle = "off",)]
fn off(host: &Host) -> Array<f32, Host> {
    Array::full(host, [2, 3], 2.0).unwrap()
}

#[cache_scope(recycle = "off", name = "reversed")]
fn reversed() {}

pub(crate) fn main() {
    let host = Host::new();
    for _ in 0..3 {
        assert_eq!(&auto(&host)[..], [3.0; 6]);
        assert_eq!(&range(&host)[..], [4.0; 6]);
        assert_eq!(&keyed(&host)[..], [1.0; 6]);
        assert_eq!(&off(&host)[..], [2.0; 6]);
        reversed();
        gpucache::cache_scope!(block, recycle = "auto", {});
        gpucache::cache_scope!(block, recycle = "range", {});
        gpucache::cache_scope!(block, recycle = "keyed", {});
        gpucache::cache_scope!(block, recycle = "off", {},);
    }
    assert_eq!(gpucache::stats("auto").unwrap().entries, 3);
    assert_eq!(gpucache::stats("range").unwrap().entries, 3);
    let keyed = gpucache::stats("keyed").unwrap();
    assert_eq!((keyed.entries, keyed.hits, keyed.allocations()), (3, 2, 3));
    assert_eq!(gpucache::stats("off").unwrap().entries, 3);
    assert_eq!(gpucache::stats("reversed").unwrap().entries, 3);
    assert_eq!(gpucache::stats("block").unwrap().entries, 12);
}
