//! A handler of a shortage in a Rust program calls this crate, within an allocation of this crate.
#![allow(clippy::unwrap_used)]

use std::sync::Mutex;

use gpucache::Scope;
use gpucache::device::{Device, Host};
use gpucache_capi::{allocate, enter, free, set_limit};

/// The host.
const DEVICE: i32 = -1;

#[test]
fn a_handler_may_allocate_and_free() {
    static KEPT: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    let entry = enter("short").unwrap();
    set_limit(DEVICE, "8MiB").unwrap();
    KEPT.lock().unwrap().extend((0..6).map(|_| allocate(1 << 20, DEVICE, 0).unwrap()));
    let _handler = Host::new().on_pressure(|_| {
        let small = allocate(4096, DEVICE, 0).unwrap();
        KEPT.lock().unwrap().drain(..).for_each(|address| free(address).unwrap());
        free(small).unwrap();
        // Its scopes are those of the thread. They leave the scopes in whose name the library works as they are.
        drop(Scope::new("short").enter());
        assert!(enter("inner").unwrap_err().to_string().contains("handler"));
    });
    let large = allocate(7 << 20, DEVICE, 0).unwrap();
    assert!(KEPT.lock().unwrap().is_empty(), "the handler ran");
    free(large).unwrap();
    let before = gpucache::stats("short").unwrap().allocations();
    free(allocate(4096, DEVICE, 0).unwrap()).unwrap();
    assert_eq!(gpucache::stats("short").unwrap().allocations(), before + 1, "the scope serves on");
    gpucache_capi::leave(entry).unwrap();
}
