//! Without NCCL's library, each call says so. The library is looked for once, so this is a process of its own, and loads no made-up one.
#![cfg(feature = "cuda")]
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use gpucache::nccl::{self, Communicator, Id};
use gpucache_tests::gpu::device;

#[test]
fn without_the_library_each_call_says_so() {
    let error = match nccl::version() {
        Ok((major, minor, _)) => return assert!((major, minor) >= (2, 19), "{major}.{minor}"),
        Err(error) => error,
    };
    assert!(error.is_unavailable() && error.to_string().contains("LD_LIBRARY_PATH"), "{error}");
    assert!(!nccl::is_available());
    assert!(Id::new().unwrap_err().is_unavailable());
    let Some(gpu) = device() else { return };
    let refused = Communicator::connect(&gpu, &Id::from_bytes([1; 128]), 0, 1, Duration::from_secs(1)).unwrap_err();
    assert!(refused.is_unavailable() && refused.to_string().contains("libnccl"), "{refused}");
}
