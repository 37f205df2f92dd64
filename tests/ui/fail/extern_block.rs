use gpucache::prelude::*;

#[cache_scope(foreign)]
unsafe extern "C" {
    safe fn labs(number: std::ffi::c_long) -> std::ffi::c_long;
}

fn main() {
    assert_eq!(labs(-1), 1);
}
