//! Tests of one program run at the same time. State of the whole process, such as a trace or the process's limit, must belong to
//! one test alone. In a program that uses such state, each test first takes its turn, or there is only one test. The unit tests of
//! a library use no such state at all, since they are many and test many things.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::{self, Visit};

/// Calls that change state which other tests of the process use, or that other tests disturb.
const PROCESS_WIDE: [&str; 9] = [
    "trace :: start",
    "limit_process",
    "invalidate_all",
    "stats :: process",
    "set_default_placement",
    "set_hook",
    "set_var",
    "remove_var",
    // Of `gpucache_tests::meanwhile`: it invalidates all scopes and starts traces.
    "disturb",
];
/// Calls by which a test gets the process for itself: until the test ends, or because it runs in a child process.
const ALONE: [&str; 5] = ["turn", "alone", "gpu", "Gpu :: get", "LateGpu :: get"];

/// The functions of a file: name, whether it is a test, and text.
#[derive(Default)]
struct Functions(Vec<(String, bool, String)>);

impl Functions {
    /// Adds a function's text without the attributes, as words with spaces between.
    fn add(&mut self, name: &syn::Ident, attributes: &[syn::Attribute], block: &syn::Block) {
        let is_test = attributes.iter().any(|attribute| attribute.path().is_ident("test"));
        let text = words(block.to_token_stream());
        self.0.push((name.to_string(), is_test, text));
    }
}

/// The words of some code, without the contents of literals.
fn words(tokens: TokenStream) -> String {
    let word = |token| match token {
        TokenTree::Group(group) => format!("( {} )", words(group.stream())),
        TokenTree::Literal(_) => "0".to_owned(),
        other => other.to_string(),
    };
    tokens.into_iter().map(word).collect::<Vec<_>>().join(" ").replace(": :", "::")
}

impl<'a> Visit<'a> for Functions {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.add(&item.sig.ident, &item.attrs, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.add(&item.sig.ident, &item.attrs, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    /// The tests of `proptest!` are functions with other arguments. Their text is that of the macro.
    fn visit_macro(&mut self, item: &'a syn::Macro) {
        let text = item.tokens.to_string().replace("#[test]", "# [test]");
        if item.path.is_ident("proptest") && text.contains("# [test]") {
            text.split("# [test]").skip(1).for_each(|test| self.0.push(("proptest".into(), true, test.into())));
        }
    }
}

/// Whether a text calls a function of this name. Methods of other types do not count.
fn calls(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (text[..at].trim_end(), text[at + name.len()..].trim_start());
        let is_whole = !before.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_' || letter == '.')
            || text[..at].ends_with(' ') && !before.ends_with('.');
        is_whole && after.starts_with('(')
    })
}

fn functions_of(files: &[PathBuf]) -> Functions {
    let mut functions = Functions::default();
    for path in files {
        let file = syn::parse_file(&fs::read_to_string(path).unwrap()).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        functions.visit_file(&file);
    }
    functions
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| match path.is_dir() {
        true => rust_files(&path),
        false => Vec::from_iter((path.extension().is_some_and(|ending| ending == "rs")).then_some(path)),
    });
    files.collect()
}

/// The programs in a folder of tests: each file is one, and each folder with a `main.rs`.
fn programs(folder: &Path) -> BTreeMap<PathBuf, Vec<PathBuf>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = |path: &PathBuf| if path.is_dir() { rust_files(path) } else { vec![path.clone()] };
    let is_rust = |path: &PathBuf| path.is_dir() || path.extension().is_some_and(|ending| ending == "rs");
    entries.filter(is_rust).map(|path| (path.clone(), files(&path))).collect()
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// The tests of a program that use state of the whole process beside other tests, or beside which others do, and take no turn.
fn disturbed(functions: &Functions) -> Vec<String> {
    let Functions(all) = functions;
    let is_wide = |text: &str| PROCESS_WIDE.iter().any(|call| calls(text, call));
    let tests: Vec<_> = all.iter().filter(|(_, is_test, _)| *is_test).collect();
    if tests.len() < 2 || !all.iter().any(|(_, _, text)| is_wide(text)) {
        return Vec::new();
    }
    // A function that takes a turn gives it to the test that calls the function.
    let takes_turn = |text: &str| ALONE.iter().any(|call| calls(text, call));
    let helpers: Vec<_> = all.iter().filter(|(_, is_test, text)| !is_test && takes_turn(text)).collect();
    let is_alone = |text: &str| takes_turn(text) || helpers.iter().any(|(name, ..)| calls(text, name));
    tests.iter().filter(|(_, _, text)| !is_alone(text)).map(|(name, ..)| name.clone()).collect()
}

#[test]
fn tests_of_what_is_of_the_whole_process_take_turns() {
    let mut found = Vec::new();
    for folder in ["tests/tests", "crates/report/tests", "examples/tests"] {
        for (program, files) in programs(&workspace().join(folder)) {
            let tests = disturbed(&functions_of(&files));
            found.extend(tests.into_iter().map(|test| format!("{}: {test}", program.display())));
        }
    }
    assert!(found.is_empty(), "these take no turn, in programs with calls that reach the whole process: {found:#?}");
}

#[test]
fn unit_tests_leave_what_is_of_the_whole_process_alone() {
    let mut found = Vec::new();
    for folder in [
        "gpucache/src",
        "crates/engine/src",
        "crates/plan/src",
        "crates/report/src",
        "tests/driver/src",
        "gpucache-macros/src",
    ] {
        for path in rust_files(&workspace().join(folder)) {
            let Functions(all) = functions_of(std::slice::from_ref(&path));
            let is_wide = |text: &str| PROCESS_WIDE.iter().any(|call| calls(text, call));
            let tests = all.into_iter().filter(|(_, is_test, text)| *is_test && is_wide(text));
            found.extend(tests.map(|(name, ..)| format!("{}: {name}", path.display())));
        }
    }
    assert!(found.is_empty(), "these belong into a program of their own, in a folder `tests`: {found:#?}");
}

#[test]
fn a_test_that_takes_no_turn_is_found() {
    let found = |text: &str| {
        let mut functions = Functions::default();
        functions.visit_file(&syn::parse_file(text).unwrap());
        disturbed(&functions)
    };
    let wide = "#[test] fn one() { let _turn = turn(); trace::start(1); }";
    assert_eq!(found(&format!("{wide} #[test] fn two() {{ act(); }}")), ["two"]);
    assert_eq!(found(&format!("{wide} #[test] fn two() {{ act(); }} fn act() {{ let _turn = turn(); }}")), [""; 0]);
    assert_eq!(found("#[test] fn one() { trace::start(1); }"), [""; 0]);
    assert_eq!(found("#[test] fn one() { world.invalidate_all(); } #[test] fn two() {}"), [""; 0]);
    assert_eq!(found("#[test] fn one() { let _ = invalidate_all(); } #[test] fn two() {}"), ["one", "two"]);
}
