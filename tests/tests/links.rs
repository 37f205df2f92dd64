//! Links of the workspace's pages, in a clone: each relative link leads to a file, and each anchor to a heading.
//!
//! The pages in `gpucache/docs` are also modules of the documentation. There a link to another page is a reference, as `[limits]`, and
//! is defined twice: at the end of the page for a clone, and in `docs/links.txt` for rustdoc, which takes the first definition.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The Markdown files below a folder, without build outputs, hidden folders and symbolic links.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, kind, name) = (entry.path(), entry.file_type().unwrap(), entry.file_name());
        let is_ours = name != "target" && !name.to_string_lossy().starts_with('.');
        if kind.is_dir() && is_ours {
            found.extend(pages(&path));
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found
}

/// A page without code: neither fenced blocks nor code spans.
fn prose(page: &str) -> String {
    let mut is_code = false;
    let mut lines = Vec::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push(line);
        }
    }
    lines.join("\n").split('`').step_by(2).collect()
}

/// The text between any of these beginnings and the end of a link's target.
fn after<'a>(prose: &'a str, beginnings: &'a [&str], ends: &'a [char]) -> impl Iterator<Item = &'a str> {
    let found = beginnings.iter().flat_map(|beginning| prose.split(beginning).skip(1));
    found.filter_map(move |rest| rest.split(ends).next())
}

/// The targets of links and pictures.
fn targets(prose: &str) -> Vec<&str> {
    let ends = &[')', '"', '\n', ' '];
    after(prose, &["](", "src=\"", "srcset=\"", "href=\"", "]: "], ends).collect()
}

/// The anchors of a page: its headings as a forge writes them.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |letter: &char| letter.is_alphanumeric() || " -_".contains(*letter);
    headings.map(|heading| heading.chars().filter(kept).collect::<String>().to_lowercase().replace(' ', "-")).collect()
}

/// Why a link of a page leads nowhere.
fn fault(target: &str, page: &Path) -> Option<&'static str> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() { page.to_path_buf() } else { page.parent().unwrap().join(file) };
    if !path.exists() {
        return Some("no such file");
    }
    let is_dead = !anchor.is_empty() && !anchors(&read(&path)).contains(anchor);
    is_dead.then_some("no such heading")
}

/// References without a definition.
fn undefined(prose: &str) -> Vec<&str> {
    let used = after(prose, &["]["], &[']']);
    used.filter(|name| !prose.contains(&format!("\n[{name}]: "))).collect()
}

#[test]
fn relative_links_lead_to_files_and_headings() {
    let (mut count, mut faults) = (0, Vec::new());
    for page in pages(&workspace()) {
        let prose = prose(&read(&page));
        let named = |target: &str, fault: &str| format!("{}: {target}: {fault}", page.display());
        let targets = targets(&prose);
        faults.extend(targets.iter().filter_map(|target| Some(named(target, fault(target, &page)?))));
        faults.extend(undefined(&prose).iter().map(|name| named(name, "a reference without a definition")));
        count += targets.len();
    }
    assert!(count >= 20, "links are found: {count}");
    assert!(faults.is_empty(), "{faults:#?}");
}

/// The definitions of a page, by name.
fn definitions(page: &str) -> Vec<(&str, &str)> {
    let lines = page.lines().filter_map(|line| line.strip_prefix('['));
    lines.filter_map(|line| line.split_once("]: ")).collect()
}

#[test]
fn pages_of_the_documentation_define_links_for_rustdoc_too() {
    let folder = workspace().join("gpucache");
    let (root, shared) = (read(&folder.join("src/lib.rs")), read(&folder.join("docs/links.txt")));
    let root: String = root.lines().map(|line| format!("{}\n", line.trim())).collect();
    for (name, target) in definitions(&shared) {
        let module = target.strip_prefix("crate::docs::").unwrap().trim_start_matches("guides::");
        assert!(root.contains(&format!("\n{module}: \"../docs/")), "links.txt: {name} leads to no page: {target}");
    }
    for path in pages(&folder.join("docs")) {
        let (page, name) = (read(&path), path.strip_prefix(folder.join("docs")).unwrap().with_extension(""));
        let name = name.to_str().unwrap().replace('\\', "/");
        let links = "#[cfg_attr(not(doctest), doc = include_str!(\"../docs/links.txt\"))]\n";
        let is_module = root.contains(&format!(": \"../docs/{name}.md\";"));
        let lead = definitions(&page);
        let is_defined =
            lead.iter().all(|definition| definitions(&shared).iter().any(|(name, _)| *name == definition.0));
        assert!(is_defined || !is_module, "{name}.md: links.txt lacks one of {lead:?}");
        assert!(
            lead.is_empty() || !is_module || root.contains(&format!("{links}#[doc = include_str!($page)]")),
            "{name}.md needs links.txt"
        );
    }
}
