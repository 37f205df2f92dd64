//! A panic leaves the scopes through which it unwinds.
#![deny(warnings)]
use gpucache::prelude::*;
use std::panic::catch_unwind;

#[cache_scope(panics)]
fn panics(host: &Host) {
    let array = Array::<f32, _>::zeros(host, 1).unwrap();
    assert_eq!(array.len(), 2, "on purpose");
}

#[cache_scope(diverges)]
fn diverges() -> ! {
    panic!("on purpose")
}

pub(crate) fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let host = Host::new();
    assert!(catch_unwind(|| panics(&Host::new())).is_err());
    assert!(catch_unwind(|| diverges()).is_err());
    assert!(catch_unwind(|| gpucache::cache_scope!(block, { panic!("on purpose") })).is_err());
    let outside = Array::<f32, _>::zeros(&host, 1).unwrap();
    assert_eq!(&outside[..], [0.0]);
    for (name, served) in [("panics", 1), ("diverges", 0), ("block", 0)] {
        let stats = gpucache::stats(name).unwrap();
        assert_eq!((stats.entries, stats.allocations()), (1, served), "{name}");
    }
}
