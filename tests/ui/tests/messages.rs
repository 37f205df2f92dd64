//! Programs that must not compile, and the messages that they get; one mistake per file.
//!
//! The messages in `fail` are gpucache's own: the first line of each names the cause and the remedy. Those in
//! `compiler` come from the compiler, and are about the program's own lines.
//!
//! `TRYBUILD=overwrite` writes the messages again. Read each before you keep it.

use std::path::Path;

/// The most lines of a message, so that it is read without scrolling.
const LINES: usize = 15;
/// The least number of mistakes with a message of our own.
const MISTAKES: usize = 80;

#[test]
fn mistakes_and_their_messages() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("fail/*.rs");
    cases.compile_fail("compiler/*.rs");
}

/// The messages in a folder, with the names of their files.
fn messages(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let paths = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let paths = paths.filter(|path| path.extension().is_some_and(|extension| extension == "stderr"));
    paths.map(|path| (path.display().to_string(), std::fs::read_to_string(&path).unwrap())).collect()
}

#[test]
fn messages_are_short() {
    let own = messages("fail");
    assert!(own.len() >= MISTAKES, "{} mistakes", own.len());
    for (path, message) in own.iter().chain(&messages("compiler")) {
        let lines = message.lines().count();
        assert!(lines <= LINES, "{path} has {lines} lines");
        let errors = message.lines().filter(|line| line.starts_with("error")).count();
        assert_eq!(errors, 1, "{path} is of more than one mistake");
    }
}

/// The remedy follows the cause after a colon or a semicolon, or it is the word `unsafe` that has to be added.
#[test]
fn first_lines_have_two_parts() {
    for (path, message) in messages("fail") {
        let first = message.lines().next().unwrap_or_default();
        let said = first.split_once(": ").map_or("", |(_, said)| said);
        let has_remedy = said.contains(": ") || said.contains("; ") || said.contains("requires an `unsafe impl`");
        assert!(has_remedy, "{path} names no remedy: {first}");
    }
}
