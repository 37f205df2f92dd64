//! The layers of the crates `gpucache` and `gpucache-engine`: no module uses a module above it, only listed places contain `unsafe`, files
//! are short, and no two types of a crate have one name. The compiler enforces the borders between crates.
//!
//! The test looks at tokens, so it also covers macros and conditional code. A module may not use another one of the same
//! rank. Only `lib.rs` uses all modules.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};

use proc_macro2::{Spacing, TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// The layers, from the top. Modules on one line have the same rank.
const LAYERS: [&[&str]; 16] = [
    &["graph"],
    &["scope"],
    &["diagnosis"],
    &["stats"],
    &["nccl", "offload"],
    &["array", "foreign"],
    &["cache"],
    &["planner"],
    &["home"],
    &["pressure"],
    &["record"],
    &["range"],
    &["order"],
    // In `gpucache` these are handles; in the engine they are the devices themselves.
    &["device"],
    &["trace"],
    &["base", "plan"],
];

/// Places that may contain `unsafe`.
const UNSAFE: [&str; 20] = [
    "device/",
    "array/",
    "foreign/",
    "nccl/",
    "cache/access.rs",
    "cache/addresses.rs",
    "cache/block.rs",
    "cache/caller.rs",
    "cache/current.rs",
    "cache/owner.rs",
    "graph/launch.rs",
    "graph/scope.rs",
    "home/hold.rs",
    "home/returns.rs",
    "home/tests/",
    "order/tests/",
    "offload/unwritten.rs",
    "pressure/barrier.rs",
    "record/lives.rs",
    "scope/stack.rs",
];

/// The files that use a layer above theirs, and why. A device's handle has methods for all that is known of the device, statistics of
/// higher layers included, so that a program finds them there. The library that serves other crates opens before `main`, and is the only
/// code that runs in a program which calls nothing of this crate, so it reads the variable that asks for a scope.
const EXCEPTIONS: [(&str, &str); 2] = [("device/handle.rs", "stats"), ("foreign/entrance.rs", "scope")];

/// The crates that have layers (`HOUSE`), and the same with `gpucache-plan`, which has three folders and no `unsafe`.
const HOUSE: [&str; 2] = ["../gpucache/src", "../crates/engine/src"];
const ALL: [&str; 3] = ["../gpucache/src", "../crates/engine/src", "../crates/plan/src"];

const LONGEST_FILE: usize = 400;

/// Types of which a build has one of two, by `cfg`.
const TWO_BUILDS: [&str; 1] = ["Gate"];

/// No layer has more than one of this many parts of the lines.
const LARGEST_LAYER: usize = 5;

/// A file of a crate: its path below `src`, and its text.
struct Source {
    path: String,
    text: String,
}

/// The types that a file defines outside of tests: structs, enums, unions, traits and aliases. Those in functions count too.
#[derive(Default)]
struct Types(Vec<String>);

/// The current place in the code.
struct Checker<'a> {
    path: &'a str,
    layer: &'a str,
    /// The depth of the current module in the crate.
    depth: usize,
    found: Vec<String>,
}

fn rank(layer: &str) -> Option<usize> {
    LAYERS.iter().position(|names| names.contains(&layer))
}

impl Source {
    /// The names of the modules on the way to the file.
    fn modules(&self) -> Vec<&str> {
        let path = self.path.trim_end_matches(".rs").trim_end_matches("/mod");
        path.split('/').collect()
    }

    fn is_test(&self) -> bool {
        self.modules().contains(&"tests")
    }

    fn tokens(&self) -> TokenStream {
        // Text that is not valid Rust could hide anything, so it is parsed first.
        syn::parse_file(&self.text).unwrap_or_else(|error| panic!("{}: {error}", self.path));
        self.text.parse().unwrap_or_else(|error| panic!("{}: {error}", self.path))
    }

    /// Uses of modules that this file must not use.
    fn upward_uses(&self) -> Vec<String> {
        if self.path == "lib.rs" {
            return Vec::new();
        }
        let modules = self.modules();
        let mut checker = Checker { path: &self.path, layer: modules[0], depth: modules.len(), found: Vec::new() };
        match rank(checker.layer) {
            Some(_) => checker.visit(self.tokens()),
            None => checker.found.push(format!("`{}` is not a layer: give it a place", checker.layer)),
        }
        checker.found.iter().map(|what| format!("{}: {what}", self.path)).collect()
    }

    /// The lines that contain `unsafe`, or switch a lint against it off.
    fn unsafe_lines(&self) -> Vec<usize> {
        let mut lines = Vec::new();
        idents(self.tokens(), &mut |ident| {
            if ident == "unsafe" || ident == "unsafe_code" {
                lines.push(ident.span().start().line);
            }
        });
        lines
    }
}

impl<'a> Visit<'a> for Types {
    fn visit_item(&mut self, item: &'a syn::Item) {
        let (attributes, name) = match item {
            syn::Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Union(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Type(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Mod(item) => (&item.attrs, None),
            _ => return visit::visit_item(self, item),
        };
        let is_test = attributes.iter().any(|attribute| match &attribute.meta {
            syn::Meta::List(list) if list.path.is_ident("cfg") => {
                let mut words = Vec::new();
                idents(list.tokens.clone(), &mut |word| words.push(word.to_string()));
                words.iter().any(|word| word == "test") && !words.iter().any(|word| word == "not")
            }
            _ => false,
        });
        if !is_test {
            self.0.extend(name.map(ToString::to_string));
            visit::visit_item(self, item);
        }
    }
}

fn idents(tokens: TokenStream, act: &mut impl FnMut(&proc_macro2::Ident)) {
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => act(&ident),
            TokenTree::Group(group) => idents(group.stream(), act),
            _ => {}
        }
    }
}

fn is_word(tokens: &[TokenTree], word: &str) -> bool {
    matches!(tokens, [TokenTree::Ident(ident), ..] if ident == word)
}

/// Whether the tokens begin with `::`; skips it.
fn skip_colons(tokens: &mut &[TokenTree]) -> bool {
    let [TokenTree::Punct(first), TokenTree::Punct(second), rest @ ..] = *tokens else { return false };
    let is_path = first.as_char() == ':' && first.spacing() == Spacing::Joint && second.as_char() == ':';
    if is_path {
        *tokens = rest;
    }
    is_path
}

impl Checker<'_> {
    fn visit(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut rest = &tokens[..];
        while let [first, after @ ..] = rest {
            rest = after;
            match first {
                // `$crate` means the crate that defines the macro, at the place where the macro is used.
                TokenTree::Punct(dollar) if dollar.as_char() == '$' => {
                    rest = if is_word(after, "crate") { &after[1..] } else { after }
                }
                TokenTree::Group(group) => self.visit(group.stream()),
                TokenTree::Ident(word) if word == "mod" => rest = self.visit_module(after),
                TokenTree::Ident(word) if word == "crate" => rest = self.visit_root(after, self.depth),
                TokenTree::Ident(word) if word == "super" => rest = self.visit_root(after, 1),
                _ => {}
            }
        }
    }

    /// Visits `name { .. }` after `mod`, one module deeper.
    fn visit_module<'t>(&mut self, tokens: &'t [TokenTree]) -> &'t [TokenTree] {
        let [TokenTree::Ident(_), TokenTree::Group(body), rest @ ..] = tokens else { return tokens };
        self.depth += 1;
        self.visit(body.stream());
        self.depth -= 1;
        rest
    }

    /// Visits the tokens after `crate`, or after the first `super`, which lead `up` modules up.
    fn visit_root<'t>(&mut self, mut tokens: &'t [TokenTree], mut up: usize) -> &'t [TokenTree] {
        loop {
            let is_path = skip_colons(&mut tokens);
            match tokens {
                [TokenTree::Ident(word), rest @ ..] if is_path && word == "super" => {
                    up += 1;
                    tokens = rest;
                }
                _ if up < self.depth => return tokens,
                // `pub(crate)` and `pub(super)`, which name no module.
                [] if !is_path => return tokens,
                _ if !is_path => {
                    self.found.push("uses the crate's root under another name".into());
                    return tokens;
                }
                _ => return self.visit_from_root(tokens),
            }
        }
    }

    /// Visits the first names of a path from the crate's root.
    fn visit_from_root<'t>(&mut self, tokens: &'t [TokenTree]) -> &'t [TokenTree] {
        let Some((first, rest)) = tokens.split_first() else { return tokens };
        match first {
            TokenTree::Ident(name) => self.used(&name.to_string()),
            TokenTree::Group(names) => {
                let names: Vec<TokenTree> = names.stream().into_iter().collect();
                let is_comma = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',');
                for path in names.split(is_comma).filter(|path| !path.is_empty()) {
                    self.visit_from_root(path);
                }
            }
            other => self.found.push(format!("uses `{other}` of the crate's root")),
        }
        rest
    }

    fn used(&mut self, name: &str) {
        let (own, other) = (rank(self.layer), rank(name));
        match other {
            _ if name == self.layer || EXCEPTIONS.contains(&(self.path, name)) => {}
            Some(_) if other > own => {}
            Some(_) => self.found.push(format!("`{}` uses `{name}`, which is not below it", self.layer)),
            None => self.found.push(format!("uses `crate::{name}`, which is no layer: name the module it comes from")),
        }
    }
}

fn sources(roots: &[&str]) -> Vec<Source> {
    fn collect(folder: &Path, root: &Path, found: &mut Vec<Source>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, root, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
                found.push(Source { path: name, text: std::fs::read_to_string(&path).unwrap() });
            }
        }
    }
    let mut found = Vec::new();
    for root in roots {
        let (root, before) = (Path::new(env!("CARGO_MANIFEST_DIR")).join(root), found.len());
        collect(&root, &root, &mut found);
        assert!(found.len() > before + 20, "the crate's files are found");
    }
    found
}

#[test]
fn no_module_uses_one_above_it() {
    let found: Vec<String> = sources(&HOUSE).iter().flat_map(Source::upward_uses).collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn unsafe_stands_where_it_may() {
    let allowed = |source: &&Source| !UNSAFE.iter().any(|place| source.path.starts_with(place));
    let found: Vec<_> =
        sources(&HOUSE).iter().filter(allowed).map(|file| (file.path.clone(), file.unsafe_lines())).collect();
    let found: Vec<_> = found.iter().filter(|(_, lines)| !lines.is_empty()).collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn files_are_short() {
    let lines = |source: Source| (source.text.lines().count(), source.path);
    let found: Vec<_> = sources(&ALL).into_iter().map(lines).filter(|(lines, _)| *lines > LONGEST_FILE).collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn no_two_types_of_a_crate_have_one_name() {
    for root in ALL {
        let mut places = std::collections::BTreeMap::<String, Vec<String>>::new();
        for source in sources(&[root]).iter().filter(|source| !source.is_test()) {
            let mut types = Types::default();
            types.visit_file(&syn::parse_file(&source.text).unwrap());
            types.0.into_iter().for_each(|name| places.entry(name).or_default().push(source.path.clone()));
        }
        assert!(places.len() > 50, "{root}: its types are found");
        places.retain(|name, places| places.len() > 1 && !TWO_BUILDS.contains(&name.as_str()));
        assert!(places.is_empty(), "{root}: {places:#?}");
    }
}

#[test]
fn no_layer_is_most_of_the_house() {
    let mut layers = std::collections::BTreeMap::<String, usize>::new();
    for source in sources(&HOUSE) {
        *layers.entry(source.modules()[0].to_string()).or_default() += source.text.lines().count();
    }
    let all: usize = layers.values().sum();
    println!("{all} lines: {layers:?}");
    let found: Vec<_> = layers.iter().filter(|(_, lines)| *lines * LARGEST_LAYER > all).collect();
    assert!(found.is_empty(), "more than a fifth of {all} lines: {found:?}");
}

/// The number of errors found in a text at `path`.
fn complaints(path: &str, text: &str) -> usize {
    Source { path: path.into(), text: text.into() }.upward_uses().len()
}

#[test]
fn upward_uses_are_found() {
    let bad = |path, text| assert_eq!(complaints(path, text), 1, "{path}: {text}");
    bad("device/host.rs", "use crate::cache::Block;");
    bad("device/mod.rs", "use crate::{base::error::Error, cache::{Block, View}};");
    bad("cache/block.rs", "fn f() { let _ = crate::array::Array::new(); }");
    bad("cache/block.rs", "fn f() { matches!(x, crate::scope::Recycle::Off); }");
    bad("cache/block.rs", "use super::super::scope::Guard;");
    bad("cache/mod.rs", "use super::scope::Guard;");
    bad("cache/block.rs", "mod tests { use super::super::super::array::Array; }");
    bad("base/key.rs", "#[cfg(test)] mod tests { fn f() { crate::device::Host::new(); } }");
    bad("cache/mod.rs", "use crate::Array;");
    bad("cache/mod.rs", "use crate::*;");
    bad("cache/mod.rs", "use crate as root;");
    bad("plan/mod.rs", "use crate::base::error::Error;");
    bad("base/key.rs", "use crate::plan::Buffer;");
    bad("pressure/reclaim.rs", "use crate::home::Shared;");
    bad("planner/mod.rs", "use crate::cache::Cache;");
    bad("kitchen/mod.rs", "fn f() {}");
    bad("base/key.rs", "macro_rules! m { ($($x:tt)*) => { $crate::f(crate::device::Host) }; }");
    bad("helpers.rs", "fn f() {}");
}

#[test]
fn downward_uses_are_not() {
    let good = |path, text| assert_eq!(complaints(path, text), 0, "{path}: {text}");
    good("scope/stack.rs", "use crate::{array::Array, cache::current::{self, Current}, base::*};");
    good("cache/block.rs", "use super::owner::Cache; pub(super) fn f(_: super::Home) {} pub(crate) struct S;");
    good("device/cuda/memory.rs", "use super::super::Backend; use super::super::super::base::error::Error;");
    good("cache/mod.rs", "use crate::cache::current; pub(in crate::cache) struct S;");
    good("cache/owner.rs", "mod tests { use super::*; use super::super::Block; }");
    good("range/mod.rs", "/// See [`crate::scope`].\nuse crate::order::Epoch;");
    good("scope/mod.rs", "macro_rules! m { () => { $crate::Scope::new() }; }");
    good("lib.rs", "mod scope; pub use crate::scope::Guard;");
}

#[test]
fn unsafe_is_found_in_code_alone() {
    let lines = |text: &str| Source { path: "scope/mod.rs".into(), text: text.into() }.unsafe_lines();
    assert_eq!(lines("fn f() {\n    m!(unsafe { g() })\n}"), [2]);
    assert_eq!(lines("#![allow(unsafe_code)]"), [1]);
    assert_eq!(lines("//! unsafe\nfn f() { \"unsafe\"; }"), [0; 0]);
}
