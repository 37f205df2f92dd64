//! The suite of properties on every device. Without a GPU, the tests of `cuda` run over the made-up driver.
#![allow(clippy::panic, clippy::expect_used)]

use gpucache::prelude::*;
use gpucache_tests::{Faulty, conformance};

conformance!(host, host_device);
conformance!(host_stream, host_stream);
conformance!(faulty, faulty_device);

fn host_device() -> Option<Host> {
    Some(Host::new())
}

fn host_stream() -> Option<Host> {
    Host::new_stream().ok()
}

/// When the test drops it, this device checks that every block was freed and no rule was broken.
fn faulty_device() -> Option<Faulty> {
    Some(Faulty::new())
}

#[cfg(feature = "cuda")]
conformance!(cuda, cuda_device);

#[cfg(feature = "cuda")]
fn cuda_device() -> Option<Cuda> {
    use std::sync::LazyLock;
    // Kept, so that the tests share one context.
    static CUDA: LazyLock<Option<Cuda>> = LazyLock::new(gpucache_tests::gpu::device);
    CUDA.clone()
}

/// The device of dry runs has no contents to compare, but it serves arrays without elements like the others.
#[test]
fn no_elements_of_any_type_on_the_virtual_device() {
    let device = gpucache::device::Virtual::new(1 << 30);
    conformance::shapes::no_elements_of_any_type(&device, &conformance::Context::default()).expect("served");
}
