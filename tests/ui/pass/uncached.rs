//! `uncached!` inside scopes of both kinds: the scopes do not serve its arrays.
#![deny(warnings)]
use gpucache::prelude::*;

#[cache_scope(attribute)]
fn step(host: &Host) -> Array<f32, Host> {
    let scratch = Array::full(host, 3, 1.0).unwrap();
    let kept = gpucache::uncached!({ Array::full(host, 3, 2.0).unwrap() });
    assert_eq!(scratch.len(), kept.len());
    kept
}

pub(crate) fn main() {
    let host = Host::new();
    let kept = step(&host);
    assert_eq!(&kept[..], [2.0; 3]);
    gpucache::cache_scope!(block, {
        let kept = gpucache::uncached!({ Array::<u8, _>::zeros(&host, 1).unwrap() });
        assert_eq!(&kept[..], [0]);
    });
    for (name, served) in [("attribute", 1), ("block", 0)] {
        let stats = gpucache::stats(name).unwrap();
        assert_eq!((stats.entries, stats.allocations()), (1, served), "{name}");
    }
}
