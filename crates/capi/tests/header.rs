//! The header declares what the crate exports.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;

/// Makes the header anew if this variable is set, instead of comparing.
const WRITE: &str = "GPUCACHE_WRITE_HEADER";

#[test]
fn the_header_is_that_of_the_code() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let made = cbindgen::generate(here).expect("the crate has functions for C");
    let mut text = Vec::new();
    made.write(&mut text);
    let (text, file) = (String::from_utf8(text).unwrap(), here.join("include/gpucache.h"));
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let known = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(known == text, "include/gpucache.h is old: run `{WRITE}=1 cargo test -p gpucache-capi --test header`");
}
