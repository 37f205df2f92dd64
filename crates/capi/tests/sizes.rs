//! Requests of sizes that no device has.
#![allow(clippy::unwrap_used)]

use gpucache_capi::{allocate, enter, free, leave};

/// Without a limit, no error advises to raise one.
#[test]
fn a_size_that_cannot_be_counted_is_refused_without_a_limit() {
    let entry = enter("of any size").unwrap();
    let address = allocate(100, -1, 0).unwrap();
    let error = allocate(usize::MAX, -1, 0).unwrap_err();
    let message = error.to_string();
    assert!(error.is_out_of_memory() && !message.contains("raise the limit"), "{message}");
    free(address).unwrap();
    leave(entry).unwrap();
}
