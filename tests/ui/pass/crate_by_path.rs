//! The attribute finds the crate by a path, if a program uses it through another crate.

mod facade {
    pub mod inner {
        pub use gpucache;
    }
}

use cached::prelude::*;
use facade::inner::gpucache as cached;

#[cached::prelude::cache_scope(by_path, crate = facade::inner::gpucache)]
fn step(host: &Host) -> cached::Result<f32> {
    Ok(Array::full(host, [3], 1.0f32)?.iter().sum())
}

#[cached::prelude::cache_scope(by_path, crate = crate::crate_by_path::facade::inner::gpucache, recycle = "keyed")]
async fn later(host: Host) -> cached::Result<f32> {
    Ok(Array::full(&host, [3], 1.0f32)?.iter().sum())
}

pub(crate) fn main() {
    assert_eq!(step(&Host::new()).unwrap(), 3.0);
    drop(later(Host::new()));
    assert_eq!(cached::stats("by_path").unwrap().entries, 1);
}
