//! No file of the crates uses a file that uses it, directly or indirectly, except a module and its own children.
//!
//! Code is judged by its tokens, as in `layers`. A name that a module only re-exports leads to the file that it comes from. Code
//! that is compiled only for tests may use any file.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use syn::UseTree;

type Module = Vec<String>;

/// The modules of a crate: their texts, and the names that each re-exports, with the paths that the names stand for.
#[derive(Default)]
struct House {
    texts: BTreeMap<Module, String>,
    handed_on: BTreeMap<Module, BTreeMap<String, Vec<String>>>,
}

impl House {
    fn of(files: impl IntoIterator<Item = (String, String)>) -> House {
        let mut house = House::default();
        for (path, text) in files {
            let path = path.trim_end_matches(".rs").trim_end_matches("/mod").trim_end_matches("lib");
            let module: Module = path.split('/').filter(|part| !part.is_empty()).map(str::to_string).collect();
            let file = syn::parse_file(&text).unwrap();
            let mut names = BTreeMap::new();
            for item in file.items {
                if let syn::Item::Use(item) = item
                    && !matches!(item.vis, syn::Visibility::Inherited)
                {
                    flatten(&item.tree, Vec::new(), &mut names);
                }
            }
            house.handed_on.insert(module.clone(), names);
            house.texts.insert(module, text);
        }
        house
    }

    fn from_disk(root: &Path) -> House {
        fn collect(folder: &Path, root: &Path, found: &mut Vec<(String, String)>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    collect(&path, root, found);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
                    found.push((name, std::fs::read_to_string(&path).unwrap()));
                }
            }
        }
        let mut files = Vec::new();
        collect(root, root, &mut files);
        House::of(files)
    }

    /// The file that a path from the crate's root leads to.
    fn resolve(&self, path: &[String], steps: u32) -> Option<Module> {
        let known = (0..=path.len()).rev().find(|&length| self.texts.contains_key(&path[..length]))?;
        let (module, rest) = path.split_at(known);
        let named = rest.first().and_then(|name| self.handed_on[module].get(name));
        match named {
            Some(target) if steps > 0 => {
                let target: Vec<String> = self.absolute(module, target).into_iter().chain(rest[1..].to_vec()).collect();
                self.resolve(&target, steps - 1)
            }
            _ => Some(module.to_vec()),
        }
    }

    /// A path in a module, as a path from the root.
    fn absolute(&self, module: &[String], path: &[String]) -> Vec<String> {
        let (mut base, mut rest) = (module.to_vec(), path);
        if path.first().is_some_and(|first| first == "crate") {
            (base, rest) = (Vec::new(), &path[1..]);
        }
        while let Some((first, others)) = rest.split_first()
            && (first == "super" || first == "self")
        {
            if first == "super" {
                base.pop();
            }
            rest = others;
        }
        base.extend(rest.iter().cloned());
        base
    }

    /// The files that a file uses, except those around it and those within it.
    fn uses(&self, module: &Module) -> BTreeSet<Module> {
        let mut paths = Vec::new();
        collect_paths(self.texts[module].parse().unwrap(), 0, &mut paths);
        let targets = paths.iter().filter_map(|(depth, path)| {
            let inner: Vec<String> = (0..*depth).map(|_| "(a module within)".to_string()).collect();
            let place: Vec<String> = module.iter().cloned().chain(inner).collect();
            self.resolve(&self.absolute(&place, path), 8)
        });
        targets.filter(|target| !target.starts_with(module) && !module.starts_with(target)).collect()
    }

    /// The circles: sets of files each of which uses all the others, directly or indirectly.
    fn circles(&self) -> Vec<Vec<String>> {
        let is_tested = |module: &&Module| !module.iter().any(|name| name == "tests" || name == "instrumented");
        let modules: Vec<&Module> = self.texts.keys().filter(is_tested).collect();
        let uses: BTreeMap<&Module, BTreeSet<Module>> =
            modules.iter().map(|&module| (module, self.uses(module))).collect();
        let reached = |from: &Module| {
            let mut found = BTreeSet::new();
            let mut due: Vec<&Module> = vec![from];
            while let Some(module) = due.pop() {
                for next in uses.get(module).into_iter().flatten() {
                    if found.insert(next) {
                        due.push(next);
                    }
                }
            }
            found
        };
        let reach: BTreeMap<&Module, BTreeSet<&Module>> =
            modules.iter().map(|&module| (module, reached(module))).collect();
        let circle = |module: &&Module| -> BTreeSet<Module> {
            let others =
                reach[*module].iter().filter(|other| reach.get(**other).is_some_and(|back| back.contains(*module)));
            others.map(|&other| other.clone()).collect()
        };
        let all: BTreeSet<BTreeSet<Module>> = modules.iter().map(circle).filter(|circle| !circle.is_empty()).collect();
        all.into_iter().map(|circle| circle.into_iter().map(|module| module.join("/")).collect()).collect()
    }
}

fn flatten(tree: &UseTree, mut path: Vec<String>, names: &mut BTreeMap<String, Vec<String>>) {
    match tree {
        UseTree::Path(part) => {
            path.push(part.ident.to_string());
            flatten(&part.tree, path, names);
        }
        UseTree::Name(name) => {
            path.push(name.ident.to_string());
            names.insert(name.ident.to_string(), path);
        }
        UseTree::Rename(rename) => {
            path.push(rename.ident.to_string());
            names.insert(rename.rename.to_string(), path);
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| flatten(tree, path.clone(), names)),
        UseTree::Glob(_) => {}
    }
}

/// All paths that begin with `crate`, `super` or `self`. Each comes with the number of modules within the file that it is nested
/// in.
fn collect_paths(tokens: TokenStream, depth: usize, found: &mut Vec<(usize, Vec<String>)>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut place = 0;
    while place < tokens.len() {
        match &tokens[place] {
            TokenTree::Punct(punct) if punct.as_char() == '#' && is_for_tests(tokens.get(place + 1)) => {
                place += 2;
                while place < tokens.len() && !ends_item(&tokens[place]) {
                    place += 1;
                }
            }
            TokenTree::Ident(word) if word == "mod" && matches!(tokens.get(place + 2), Some(TokenTree::Group(_))) => {
                if let Some(TokenTree::Group(body)) = tokens.get(place + 2) {
                    collect_paths(body.stream(), depth + 1, found);
                }
                place += 2;
            }
            TokenTree::Ident(word) if word == "crate" || word == "super" || word == "self" => {
                place = follow(&tokens, place, Vec::new(), depth, found);
                continue;
            }
            TokenTree::Group(group) => collect_paths(group.stream(), depth, found),
            _ => {}
        }
        place += 1;
    }
}

/// Reads the path that begins at `place`. Returns where it ends.
fn follow(
    tokens: &[TokenTree],
    mut place: usize,
    mut path: Vec<String>,
    depth: usize,
    found: &mut Vec<(usize, Vec<String>)>,
) -> usize {
    loop {
        match tokens.get(place) {
            Some(TokenTree::Ident(word)) => {
                path.push(word.to_string());
                place += 1;
            }
            Some(TokenTree::Group(group)) if !path.is_empty() => {
                let names: Vec<TokenTree> = group.stream().into_iter().collect();
                let is_comma = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',');
                for part in names.split(is_comma).filter(|part| !part.is_empty()) {
                    follow(part, 0, path.clone(), depth, found);
                }
                return place + 1;
            }
            _ => {
                found.push((depth, path));
                return place;
            }
        }
        match (tokens.get(place), tokens.get(place + 1)) {
            (Some(TokenTree::Punct(one)), Some(TokenTree::Punct(two)))
                if one.as_char() == ':' && two.as_char() == ':' =>
            {
                place += 2;
            }
            _ => {
                found.push((depth, path));
                return place;
            }
        }
    }
}

fn is_for_tests(attribute: Option<&TokenTree>) -> bool {
    attribute.is_some_and(|attribute| {
        let text = attribute.to_string().replace(' ', "");
        text == "[cfg(test)]" || text == "[cfg(all(loom,test))]"
    })
}

fn ends_item(token: &TokenTree) -> bool {
    match token {
        TokenTree::Punct(punct) => punct.as_char() == ';',
        TokenTree::Group(group) => group.delimiter() == proc_macro2::Delimiter::Brace,
        _ => false,
    }
}

#[test]
fn no_files_use_each_other() {
    for (root, least) in
        [("../gpucache/src", 40), ("../crates/engine/src", 100), ("../crates/plan/src", 20), ("../crates/capi/src", 5)]
    {
        let house = House::from_disk(&Path::new(env!("CARGO_MANIFEST_DIR")).join(root));
        assert!(house.texts.len() > least, "the crate's files are found");
        let circles = house.circles();
        assert!(circles.is_empty(), "{circles:#?}");
    }
}

#[test]
fn circles_are_found() {
    let circles = |files: &[(&str, &str)]| {
        House::of(files.iter().map(|&(path, text)| (path.to_string(), text.to_string()))).circles()
    };
    let face = (
        "a/mod.rs",
        "mod one; mod two; mod three; pub(crate) use one::One; pub(crate) use two::{self, Two as Second};",
    );
    let two = [vec!["a/one".to_string(), "a/two".to_string()]];
    assert_eq!(
        circles(&[face, ("a/one.rs", "use super::two::Two;"), ("a/two.rs", "fn f(_: super::one::One) {}")]),
        two
    );
    assert_eq!(circles(&[face, ("a/one.rs", "use super::Second;"), ("a/two.rs", "use crate::a::{One, Other};")]), two);
    let nested = "#[cfg(all(test, x))] mod m { use super::super::one::One; }";
    assert_eq!(circles(&[face, ("a/one.rs", "use super::two;"), ("a/two.rs", nested)]), two);
    let through = [
        ("a/one.rs", "use super::two::X;"),
        ("a/two.rs", "use super::three::X;"),
        ("a/three.rs", "use crate::a::One;"),
    ];
    assert_eq!(circles(&[face, through[0], through[1], through[2]]).concat().len(), 3);

    let fine = |files: &[(&str, &str)]| assert_eq!(circles(files), [[""; 0]; 0]);
    fine(&[
        face,
        ("a/one.rs", "use super::two::Two;"),
        ("a/two.rs", "#[cfg(test)] mod tests { use super::super::one::One; }"),
    ]);
    fine(&[face, ("a/one.rs", "use super::two::Two;"), ("a/two.rs", "use super::CONSTANT; struct Two;")]);
    fine(&[("b.rs", "mod c; use c::C; struct B;"), ("b/c.rs", "use super::B; struct C;")]);
    fine(&[face, ("a/one.rs", "fn f() { self.two(); }"), ("a/two.rs", "use crate::a::One;")]);
}
