//! Checks that the package reads well at a registry: links and pictures of its pages lead to files in the package.
//!
//! The README of the package is the README of the workspace, except that its links begin in the package's own folder. It is a
//! separate file, since neither a registry nor a forge follows a symbolic link to find what a link is relative to.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = workspace().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The packages for a registry, with their folders.
const PACKAGES: [(&str, &str); 6] = [
    ("gpucache", "gpucache"),
    ("gpucache-capi", "crates/capi"),
    ("gpucache-engine", "crates/engine"),
    ("gpucache-macros", "gpucache-macros"),
    ("gpucache-plan", "crates/plan"),
    ("gpucache-report", "crates/report"),
];

/// The files that a registry would get.
fn packaged(package: &str) -> BTreeSet<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["package", "--list", "--allow-dirty", "--offline", "--package", package]);
    let output = cargo.current_dir(workspace()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(|line| line.replace('\\', "/")).collect()
}

/// A page without code blocks.
fn prose(page: &str) -> String {
    let outside_fences = page.split("```").step_by(2);
    outside_fences.flat_map(|part| part.split('`').step_by(2)).collect()
}

/// The targets of a page's links and pictures.
fn links(page: &str) -> Vec<String> {
    let prose = prose(page);
    let begins = ["](", "src=\"", "srcset=\"", "href=\"", "]: "];
    let after = begins.iter().flat_map(|begin| prose.split(begin).skip(1));
    after.filter_map(|rest| rest.split([')', '"', '\n', ' ']).next()).map(str::to_string).collect()
}

/// The anchors of a page's headings.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let letters =
        |heading: &str| heading.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter)).collect();
    headings.map(letters).map(|name: String| name.to_lowercase().replace(' ', "-")).collect()
}

/// Why a link of a packaged page leads nowhere.
fn fault(link: &str, path: &str, page: &str, files: &BTreeSet<String>) -> Option<&'static str> {
    let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
    if target.contains("://") {
        return None;
    }
    if target.is_empty() {
        return (!anchors(page).contains(anchor)).then_some("no such heading");
    }
    let folder = Path::new(path).parent().unwrap();
    let is_there = plain(&folder.join(target)).is_some_and(|path| files.contains(path.to_str().unwrap()));
    (!is_there).then_some("no such file in the package")
}

fn faults(path: &str, page: &str, files: &BTreeSet<String>) -> Vec<String> {
    let found = links(page).into_iter().filter_map(|link| Some((fault(&link, path, page, files)?, link)));
    found.map(|(fault, link)| format!("{path}: {link}: {fault}")).collect()
}

#[test]
fn links_of_the_package_lead_to_its_files() {
    let files = packaged("gpucache");
    let pages: Vec<&String> = files.iter().filter(|file| file.ends_with(".md")).collect();
    assert!(pages.len() >= 6, "the pages are found: {pages:?}");
    let found: Vec<String> =
        pages.iter().flat_map(|path| faults(path, &read(Path::new("gpucache").join(path)), &files)).collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// The files that a source includes, as its text names them.
fn included(text: &str) -> Vec<&str> {
    let begins = ["include_str!(\"", "include_bytes!(\"", "include!(\"", "#[path = \""];
    begins.iter().flat_map(|begin| text.split(begin).skip(1)).filter_map(|rest| rest.split('"').next()).collect()
}

/// A path without its steps upward. `None` if it leaves the package.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part.as_os_str() == ".." {
            true if !plain.pop() => return None,
            true => {}
            false => plain.push(part),
        }
    }
    Some(plain)
}

/// So a package builds as the workspace does, although the gate builds no packed package.
#[test]
fn packages_have_the_files_that_their_sources_include() {
    let mut count = 0;
    for (package, folder) in PACKAGES {
        let files = packaged(package);
        assert!(files.contains("src/lib.rs") && files.contains("Cargo.toml"), "{package}: {files:?}");
        for source in files.iter().filter(|file| file.starts_with("src/") && file.ends_with(".rs")) {
            let text = read(Path::new(folder).join(source));
            for name in included(&text) {
                let path = plain(&Path::new(source).parent().unwrap().join(name)).expect("a path in the package");
                assert!(files.contains(path.to_str().unwrap()), "{package}: {source} includes {name}");
                count += 1;
            }
        }
    }
    assert!(count >= 10, "includes are found: {count}");
}

/// Without its feature, nothing of `tracing` is built.
#[test]
fn who_does_not_ask_for_tracing_has_none() {
    let tree = |features: &[&str]| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["tree", "--offline", "--edges", "normal", "--prefix", "none", "--package", "gpucache"])
            .args(features);
        let output = cargo.current_dir(workspace()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let others = ["--features", "foreign,nvrtc,cublas,nccl,half,float8,num-complex,serde"];
    for features in [&["--no-default-features"][..], &[], &others] {
        assert!(!tree(features).contains("tracing"), "{features:?}");
    }
    assert!(tree(&["--features", "tracing"]).contains("tracing v"));
}

#[test]
fn the_readme_of_the_package_is_that_of_the_workspace() {
    let (own, packaged) = (read("README.md"), read("gpucache/README.md"));
    let differs = own.replace("](gpucache/", "](").replace("=\"gpucache/", "=\"") != packaged;
    let anew = r#"sed 's|](gpucache/|](|g; s|="gpucache/|="|g' README.md > gpucache/README.md"#;
    assert!(!differs, "write it anew: {anew}");
    let missing: Vec<String> = links(&own)
        .into_iter()
        .filter(|link| !link.contains("://") && !link.starts_with('#'))
        .filter(|link| !workspace().join(link.split('#').next().unwrap()).exists())
        .collect();
    assert!(missing.is_empty(), "in the workspace: {missing:?}");
}

#[test]
fn links_that_lead_nowhere_are_found() {
    let files = ["README.md", "docs/a.svg", "docs/using.md"].map(str::to_string).into();
    let count = |path: &str, page: &str| faults(path, page, &files).len();
    for page in [
        "![a](docs/b.svg)",
        "[a](../README.md)",
        "[a](#none)",
        "<img src=\"b.svg\">",
        "<source srcset=\"b.svg\">",
        "[a]: b.md",
    ] {
        assert_eq!(count("README.md", page), 1, "{page}");
    }
    for page in ["![a](docs/a.svg)", "[a](docs/using.md#b)", "# A b, c\n[a](#a-b-c)", "`[a](b)`", "```\n[a](b)\n```"] {
        assert_eq!(count("README.md", page), 0, "{page}");
    }
    assert_eq!(count("docs/using.md", "![a](a.svg) [b](https://example.com)"), 0);
    assert_eq!(count("docs/guides/train.md", "[a](../using.md)"), 0);
    assert_eq!(count("docs/guides/train.md", "[a](../../../using.md)"), 1);
}
