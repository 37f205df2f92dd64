//! Locals and temporaries of a body drop inside the scope; parameters passed by value drop after it.
#![deny(warnings)]
use gpucache::prelude::*;

/// Allocates when it is dropped, so that the scope around the drop counts the allocation.
struct AllocatesOnDrop;

impl AllocatesOnDrop {
    fn value(&self) -> u32 {
        1
    }
}

impl Drop for AllocatesOnDrop {
    fn drop(&mut self) {
        assert_eq!(Array::<u8, _>::zeros(&Host::new(), 1).unwrap().len(), 1);
    }
}

#[cache_scope(local)]
fn local() -> u32 {
    let local = AllocatesOnDrop;
    local.value()
}

#[cache_scope(temporary)]
fn temporary() -> u32 {
    AllocatesOnDrop.value()
}

#[cache_scope(parameter)]
fn parameter(parameter: AllocatesOnDrop) -> u32 {
    parameter.value()
}

#[cache_scope(ignored_parameter)]
fn ignored_parameter(_: AllocatesOnDrop) -> u32 {
    1
}

fn served(name: &str) -> u64 {
    let stats = gpucache::stats(name).unwrap();
    stats.allocations()
}

pub(crate) fn main() {
    assert_eq!(local() + temporary() + parameter(AllocatesOnDrop) + ignored_parameter(AllocatesOnDrop), 4);
    let block = gpucache::cache_scope!(block, { AllocatesOnDrop.value() + local() });
    assert_eq!(block, 2);
    assert_eq!((served("local"), served("temporary"), served("block")), (2, 1, 1));
    assert_eq!((served("parameter"), served("ignored_parameter")), (0, 0));
}
