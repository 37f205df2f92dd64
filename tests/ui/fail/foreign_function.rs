use gpucache::prelude::*;

unsafe extern "C" {
    #[cache_scope(length)]
    safe fn labs(number: std::ffi::c_long) -> std::ffi::c_long;
}

fn main() {
    assert_eq!(labs(-1), 1);
}
