//! Stands for the functions in C++ where they are not compiled.

use gpucache::{Error, Result};

fn missing() -> Error {
    let remedy = "install the wheel, or build it by `pip install .` in crates/python";
    Error::unavailable("gpucache.torch", "this build of gpucache lacks its feature `torch`", remedy)
}

pub(super) fn functions() -> Result<Vec<(&'static str, usize)>> {
    Err(missing())
}

pub(super) fn find_error(_path: &str) -> bool {
    false
}

pub(super) fn set_limit(_limit: &str) -> Result<()> {
    Err(missing())
}

pub(super) fn note_limit(_device: i32) {}

pub(super) fn used_devices() -> u64 {
    0
}
