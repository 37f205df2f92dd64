use gpucache::device::Virtual;
use gpucache::error::Bound;
use gpucache::prelude::*;
use gpucache::{Limit, cache_scope};

#[cache_scope("text", limit = "1MiB")]
fn text(device: &Virtual) -> gpucache::Result<()> {
    device.zeros::<u8>(2 << 20).map(drop)
}

const MOST: Limit = Limit::soft(1 << 20);

#[cache_scope("value", limit = MOST)]
fn value(device: &Virtual) -> gpucache::Result<()> {
    device.zeros::<u8>(2 << 20).map(drop)
}

#[cache_scope("bytes", limit = 1 << 20)]
fn bytes(device: &Virtual) -> gpucache::Result<()> {
    device.zeros::<u8>(2 << 20).map(drop)
}

#[cache_scope("generic", limit = "50%")]
fn generic<D: Device>(device: &D) -> gpucache::Result<()> {
    device.zeros::<u8>(3 << 20).map(drop)
}

fn main() {
    let device = Virtual::new(4 << 20);
    let of_scope = |error: gpucache::Error| error.shortage().unwrap().bound == Bound::Scope;
    assert!(of_scope(text(&device).unwrap_err()) && of_scope(bytes(&device).unwrap_err()));
    assert!(of_scope(generic(&device).unwrap_err()));
    value(&device).unwrap();
    let chosen = String::from("soft 1MiB");
    cache_scope!(block, limit = &chosen, { device.zeros::<u8>(2 << 20).unwrap() });
    let error = cache_scope!(wrong, limit = chosen.trim_start_matches("soft 1"), { device.zeros::<u8>(1).unwrap_err() });
    assert!(error.is_unavailable(), "{error}");
}
