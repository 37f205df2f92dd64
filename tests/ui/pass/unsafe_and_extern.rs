//! `unsafe fn`, `extern "C" fn` and functions with other attributes.
#![deny(warnings)]
use gpucache::prelude::*;

/// # Safety
/// `pointer` is valid for reads.
#[cache_scope(unsafe_function)]
unsafe fn read(pointer: *const u32) -> u32 {
    unsafe { *pointer }
}

#[cache_scope(callback)]
extern "C" fn callback(number: i32) -> i32 {
    number + 1
}

#[cache_scope(plugin)]
pub unsafe extern "C" fn plugin(number: i32) -> i32 {
    number + 2
}

#[inline(never)]
#[must_use]
#[cache_scope(documented)]
/// Documented behind the attribute.
#[track_caller]
#[expect(unused_variables)]
fn documented(unused: u8) -> u32 {
    std::panic::Location::caller().line()
}

pub(crate) fn main() {
    let number = 5;
    assert_eq!(unsafe { read(&number) }, 5);
    let pointer: extern "C" fn(i32) -> i32 = callback;
    assert_eq!(pointer(1), 2);
    assert_eq!(unsafe { plugin(1) }, 3);
    assert_eq!(documented(0), line!());
    for name in ["unsafe_function", "callback", "plugin", "documented"] {
        assert_eq!(gpucache::stats(name).unwrap().entries, 1, "{name}");
    }
}
