//! A program in C calls each function of the library, on the host device, and environment variables have their effect there.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder with the library: that of this test.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("this test is a file");
    test.parent().expect("a file lies in a folder").to_path_buf()
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let told = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {told}", output.status);
    told
}

/// The program, compiled once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compiled("all_calls"))
}

fn compiled(name: &str) -> PathBuf {
    let (here, built) = (Path::new(env!("CARGO_MANIFEST_DIR")), built());
    let program = built.join(format!("gpucache_{name}"));
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut compile = Command::new(compiler);
    compile.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pthread"]).arg("-I").arg(here.join("include"));
    compile.arg(here.join(format!("tests/{name}.c"))).arg("-o").arg(&program);
    compile.arg("-L").arg(&built).arg("-lgpucache_capi").arg(format!("-Wl,-rpath,{}", built.display()));
    run(&mut compile);
    program
}

#[test]
fn a_program_in_c_calls_every_function() {
    assert_eq!(run(&mut Command::new(program())), "all calls answered\n");
}

#[test]
fn a_process_goes_on_after_the_thread_of_main() {
    assert_eq!(run(&mut Command::new(compiled("main_ends"))), "the process goes on\n");
}

#[test]
fn watch_writes_the_memory_of_scopes() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("watch.txt");
    let _ = std::fs::remove_file(&file);
    run(Command::new(program()).env("GPUCACHE_WATCH", &file));
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("process ") && text.contains("open_at_exit"), "{text}");
}

#[test]
fn the_program_names_every_function() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |file: &str| std::fs::read_to_string(here.join(file)).unwrap();
    let (header, program) = (read("include/gpucache.h"), read("tests/all_calls.c"));
    let functions = header
        .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .filter(|word| word.starts_with("gpucache_") && header.contains(&format!("{word}(")));
    let missing: Vec<_> = functions.filter(|function| !program.contains(&format!("{function}("))).collect();
    assert!(missing.is_empty(), "not called: {missing:?}");
}
