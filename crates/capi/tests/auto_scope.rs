//! The scope `auto` is switched off and on while a thread is inside it. In a process of its own, since the switch is one of the process.
#![allow(clippy::unwrap_used)]

use gpucache_capi::{allocate, enter, free, leave, set_auto_scope};

/// Allocates on the host. Returns by how many bytes the memory in use of the scope `auto` grows.
fn grows_by(bytes: usize) -> u64 {
    let busy = || gpucache::stats("auto").map_or(0, |stats| stats.busy_bytes);
    let before = busy();
    let address = allocate(bytes, -1, 0).unwrap();
    let grown = busy() - before;
    free(address).unwrap();
    grown
}

#[test]
fn a_thread_follows_with_its_next_allocation() {
    assert_eq!(grows_by(4096), 4096);
    set_auto_scope(false);
    assert_eq!(grows_by(12_345), 0);
    let entry = enter("step").unwrap();
    set_auto_scope(true);
    assert_eq!(grows_by(4096), 0, "the scope of the program serves");
    leave(entry).unwrap();
    assert_eq!(grows_by(4096), 4096);
    let entry = enter("step").unwrap();
    set_auto_scope(false);
    leave(entry).unwrap();
    assert_eq!(grows_by(4096), 0);
}
