//! Checks what `gpucache/docs/porting.md` says about its programs: which lines of a port are new, and the numbers in its table.
//!
//! The programs of the page are tests of the documentation, so those tests check that they compile.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;

/// The end of each new or changed line of a port.
const MARK: &str = "// <-";

/// The lines of a program, those removed, those new in the port, and those that were only indented.
#[derive(Debug, PartialEq)]
struct Counts {
    lines: usize,
    gone: usize,
    new: usize,
    indented: usize,
}

/// The programs of a page, in order.
fn programs(page: &str) -> Vec<Vec<&str>> {
    let parts: Vec<&str> = page.split("\n```").collect();
    // Every other part lies within a block. Its first line names the language.
    parts.iter().skip(1).step_by(2).map(|part| part.lines().skip(1).collect()).collect()
}

/// The figures in the table's rows that link to a program.
fn table(page: &str) -> Vec<Counts> {
    let rows = page.lines().filter(|line| line.starts_with("| [`"));
    let figures = |row: &str| row.split('|').filter_map(|cell| cell.trim().parse().ok()).collect::<Vec<usize>>();
    rows.map(|row| match figures(row)[..] {
        [lines, gone, new, indented] => Counts { lines, gone, new, indented },
        _ => panic!("not four figures: {row}"),
    })
    .collect()
}

/// Compares a port with its original: lines without a mark must be in the original, in the same order.
fn compared(original: &[&str], port: &[&str]) -> Result<Counts, String> {
    let (mut rest, mut kept, mut indented) = (original.iter(), 0, 0);
    for line in port.iter().filter(|line| !line.ends_with(MARK)) {
        let Some(old) = rest.find(|old| old.trim() == line.trim()) else {
            return Err(format!("not in the original, or in another order: {line}"));
        };
        kept += 1;
        indented += usize::from(old != line);
    }
    Ok(Counts { lines: original.len(), gone: original.len() - kept, new: port.len() - kept, indented })
}

/// How often a program may panic because of an error, and how often it ignores one.
fn lapses(program: &[&str]) -> (usize, usize) {
    let count = |words: &[&str]| words.iter().map(|word| program.concat().matches(word).count()).sum();
    (count(&[".unwrap()", ".expect("]), count(&[".ok()", "let _ ="]))
}

#[test]
fn ports_are_what_the_page_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gpucache/docs/porting.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (programs, table) = (programs(&page), table(&page));
    assert_eq!((programs.len(), table.len()), (6, 3), "three programs, each with its port");
    for (pair, said) in programs.chunks(2).zip(table) {
        assert_eq!(compared(&pair[0], &pair[1]).unwrap(), said);
        let ((before, thrown_before), (after, thrown)) = (lapses(&pair[0]), lapses(&pair[1]));
        assert!(after <= before && thrown <= thrown_before, "the port handles errors worse: {:#?}", pair[1]);
    }
}

#[test]
fn lines_without_a_mark_are_compared() {
    let original = ["a", "b", "c", "d"];
    let counts = |lines, gone, new, indented| Ok(Counts { lines, gone, new, indented });
    assert_eq!(compared(&original, &["a", "B // <-", "  c", "d"]), counts(4, 1, 1, 1));
    assert_eq!(compared(&original, &["a", "x // <-", "b", "c", "d"]), counts(4, 0, 1, 0));
    assert!(compared(&original, &["a", "B", "c", "d"]).is_err());
    assert!(compared(&original, &["b", "a", "c", "d"]).is_err());
}
