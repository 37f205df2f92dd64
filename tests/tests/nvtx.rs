//! Scopes are NVTX ranges with their names, if the library is found. A program in this file runs with a mock library, which
//! prints its calls.
#![cfg(all(feature = "cuda", feature = "tracing", target_os = "linux"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::Command;

use gpucache::{Scope, cache_scope, prelude::*, uncached};

/// The library in C; it prints each call as a line on stderr.
const LIBRARY: &str = r#"
#include <stdio.h>
static unsigned long long count;
unsigned long long nvtxRangeStartA(const char *name) { fprintf(stderr, "<%s %llu>\n", name, ++count); return count; }
void nvtxRangeEnd(unsigned long long number) { fprintf(stderr, "</%llu>\n", number); }
"#;

/// If this variable is set, the program of this file runs instead of its test.
const CHILD: &str = "GPUCACHE_TEST_OF_NVTX";

/// Builds the library under this name, and returns its folder.
fn library(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("nvtx of {name}"));
    std::fs::create_dir_all(&folder).unwrap();
    let source = folder.join("nvtx.c");
    std::fs::write(&source, LIBRARY).unwrap();
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let built = Command::new(compiler).args(["-shared", "-fPIC", "-o"]).arg(folder.join(name)).arg(source).status();
    assert!(built.unwrap().success());
    folder
}

/// The ranges of a program that finds its libraries in this folder.
fn ranges(folder: &Path) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "a_program_with_scopes", "--nocapture"]);
    let output = child.env(CHILD, "1").env("LD_LIBRARY_PATH", folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told = String::from_utf8(output.stderr).unwrap();
    told.lines().filter(|line| line.starts_with('<')).map(str::to_string).collect()
}

#[test]
fn a_program_with_scopes() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let host = Host::new();
    for layer in 0..2 {
        cache_scope!(name = format!("layer{layer}"), {
            Scope::new("attention\0of all").run(|| drop(host.zeros::<u8>(64).unwrap()));
            uncached!({ drop(host.zeros::<u8>(64).unwrap()) });
        });
    }
    let (first, second) = (Scope::new("first").enter(), Scope::new("second").enter());
    drop(first);
    drop(second);
    std::thread::spawn(|| cache_scope!(elsewhere, {})).join().unwrap();
}

#[test]
fn scopes_are_ranges_of_their_names() {
    let layers = ["<layer0 1>", "<attention 2>", "</2>", "</1>", "<layer1 3>", "<attention 4>", "</4>", "</3>"];
    let in_another_order = ["<first 5>", "<second 6>", "</5>", "</6>", "<elsewhere 7>", "</7>"];
    let expected = [&layers[..], &in_another_order].concat();
    for name in ["libnvtx3interop.so.1", "libnvToolsExt.so.1"] {
        assert_eq!(ranges(&library(name)), expected, "{name}");
    }
}

#[test]
fn without_the_library_there_are_no_ranges() {
    assert_eq!(ranges(Path::new("/nonexistent")), [""; 0]);
}
