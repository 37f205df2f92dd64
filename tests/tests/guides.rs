//! The programs of the README and of the guides (`gpucache/docs/guides`): each page shows the text of a file in `examples/guides`, and
//! what that program prints.
//!
//! A page has its program in its first block of Rust, and the output in the first block of text after it. If there are more blocks of text,
//! each shows the output on another machine. `<..>` stands for any text within a line. Cargo builds the programs as a user does it, in this test's own folder of build products.
#![cfg(feature = "cuda")]
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

use gpucache_tests::process::number;

/// The requirements of the program of a page.
#[derive(Clone, Copy, PartialEq)]
enum Needs {
    /// Nothing: it prints the same on a host and on a GPU.
    Nothing,
    /// A GPU, and NVRTC. Without a GPU the program is only built.
    Gpu,
    /// A crate with kernels that take long to build: the package in `clients` builds and runs it.
    Client,
}

/// Each page with its program's name in `examples/guides`.
const PAGES: [(&str, &str, Needs); 8] = [
    ("README.md", "readme", Needs::Nothing),
    ("gpucache/docs/guides/train.md", "train", Needs::Nothing),
    ("gpucache/docs/guides/candle.md", "candle", Needs::Client),
    ("gpucache/docs/guides/serve.md", "serve", Needs::Nothing),
    ("gpucache/docs/guides/several_gpus.md", "several_gpus", Needs::Nothing),
    ("gpucache/docs/guides/offload.md", "offload", Needs::Nothing),
    ("gpucache/docs/guides/memory_grows.md", "memory_grows", Needs::Nothing),
    ("gpucache/docs/guides/graphs.md", "graphs", Needs::Gpu),
];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(workspace().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The program that a page shows, and its output on several machines.
fn shown(page: &str) -> Option<(String, Vec<String>)> {
    let blocks: Vec<&str> = page.split("\n```").skip(1).step_by(2).collect();
    let program = blocks.iter().position(|block| block.starts_with("rust"))?;
    let outputs = blocks[program..].iter().filter(|block| block.starts_with("text\n"));
    let body = |block: &str| block.split_once('\n').map(|(_, body)| format!("{body}\n"));
    let outputs: Vec<String> = outputs.filter_map(|block| body(block)).collect();
    if outputs.is_empty() { None } else { Some((body(blocks[program])?, outputs)) }
}

/// A program without the lines at its head that say what it is for, which a page says in its own words.
fn without_head(program: &str) -> &str {
    let head = program.lines().take_while(|line| line.starts_with("//!")).map(|line| line.len() + 1).sum();
    program[head..].trim_start()
}

/// Whether a printed line is as a page shows it.
fn agrees(shown: &str, printed: &str) -> bool {
    let Some((before, after)) = shown.split_once("<..>") else { return shown == printed };
    let Some(rest) = printed.strip_prefix(before) else { return false };
    (0..=rest.len()).filter(|&at| rest.is_char_boundary(at)).any(|at| agrees(after, &rest[at..]))
}

/// The first line in which the two differ.
fn difference(shown: &str, printed: &str) -> Option<String> {
    let (shown, printed): (Vec<&str>, Vec<&str>) = (shown.lines().collect(), printed.lines().collect());
    let lines = 0..shown.len().max(printed.len());
    let line =
        |text: &[&str], at: usize| text.get(at).map_or("(no line)".to_owned(), |line| line.trim_end().to_owned());
    let (shown, printed) = (|at| line(&shown, at), |at| line(&printed, at));
    let first = lines.into_iter().find(|&at| !agrees(&shown(at), &printed(at)))?;
    Some(format!("line {}: shown is\n{}\nand printed\n{}", first + 1, shown(first), printed(first)))
}

/// Builds all programs with the features of the whole workspace, as most are built already, and answers their folder.
fn built() -> PathBuf {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(workspace()).args(["build", "--quiet"]);
    for (_, name, _) in PAGES.into_iter().filter(|page| page.2 != Needs::Client) {
        command.args(["--example", &format!("guide_{name}")]);
    }
    let built = command.output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    // This test lies in `deps`, beside which the examples have a folder.
    std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples")
}

/// The output of a program. `None` if it needs a GPU and finds none.
fn printed(program: &Path, needs: Needs) -> Option<String> {
    let mut command = Command::new(program.with_extension(std::env::consts::EXE_EXTENSION));
    let variables = ["GPUCACHE_LIMIT", "GPUCACHE_TRACE", "GPUCACHE_WATCH"];
    variables.iter().for_each(|variable| _ = command.env_remove(variable));
    let folder = std::env::temp_dir().join(format!("gpucache-guides-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let done = command.current_dir(&folder).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let (output, errors) = (String::from_utf8(done.stdout).unwrap(), String::from_utf8_lossy(&done.stderr));
    if needs == Needs::Gpu && errors.contains("CUDA cannot be used here") && number("GPUCACHE_REQUIRE_GPU").is_none() {
        println!("SKIPPED {}: {errors}", program.display());
        return None;
    }
    assert!(done.status.success(), "{}: {errors}", program.display());
    Some(output)
}

#[test]
fn pages_show_the_programs_that_are_built() {
    for (page, name, _) in PAGES {
        let (program, _) = shown(&read(page)).unwrap_or_else(|| panic!("{page} has no program with its output"));
        let file = format!("examples/guides/{name}.rs");
        assert!(program == without_head(&read(&file)), "{page} shows another program than {file}");
    }
}

#[test]
fn every_page_of_the_folder_is_here() {
    for file in std::fs::read_dir(workspace().join("gpucache/docs/guides")).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        assert!(PAGES.iter().any(|page| page.0.ends_with(&format!("guides/{name}"))), "{name} is not tested");
    }
}

#[test]
fn programs_print_what_their_pages_show() {
    let programs = built();
    let mut faults = Vec::new();
    for (page, name, needs) in PAGES.into_iter().filter(|page| page.2 != Needs::Client) {
        let (_, outputs) = shown(&read(page)).unwrap();
        let Some(printed) = printed(&programs.join(format!("guide_{name}")), needs) else { continue };
        let differences: Vec<String> = outputs.iter().filter_map(|output| difference(output, &printed)).collect();
        if differences.len() == outputs.len() {
            faults.push(format!("{page}, {}", differences[0]));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_line_agrees_with_its_pattern() {
    assert!(agrees("3 hits", "3 hits") && !agrees("3 hits", "3 hits, 1 miss") && !agrees("3", "4"));
    assert!(agrees("<..> hits", "12 hits") && agrees("a <..>", "a ") && agrees("<..>ms, <..> B", "1.5ms, 7 B"));
    assert!(!agrees("<..> hits", "12 hits, 1 miss") && !agrees("a <..> b", "a 1 c"));
    assert_eq!(difference("a\nb\n", "a\nb\n"), None);
    assert!(difference("a\n", "a\nb\n").is_some() && difference("a\nb\n", "a\n").is_some());
}

#[test]
fn a_page_has_a_program_and_its_output() {
    let page = "# A\n```sh\nrun\n```\n\n```rust,no_run\nfn main() {}\n```\nIt prints\n```text\nx\n```\n";
    assert_eq!(shown(page), Some(("fn main() {}\n".into(), vec!["x\n".into()])));
    assert_eq!(shown("```rust\nf\n```"), None);
    assert_eq!(without_head("//! A.\n//! B.\n\nuse a;\n"), "use a;\n");
}
