//! Every public item of the crate has an example in its documentation: types, traits, functions, methods and macros.
//!
//! An item is public if its module is, or if the module re-exports it. The test checks the items that `lib.rs` and the public
//! modules declare or name by `pub use`, with their public methods, and the methods of traits. No two public items have the same
//! name, so a name alone identifies an item. The tests of the documentation compile the examples; this test only counts their
//! fences.
//!
//! `cargo test -p gpucache-tests --test examples -- --nocapture` prints how many there are.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::path::Path;

use syn::{Attribute, ImplItem, Item, TraitItem, UseTree, Visibility};

/// The crate's files as one list of items, with the names of the public ones.
#[derive(Default)]
struct Crate {
    /// The items of each file, by its path below `src`.
    files: Vec<(String, Vec<Item>)>,
    public: BTreeSet<String>,
}

/// The checked items, and those without an example.
#[derive(Default)]
struct Found {
    all: usize,
    bare: Vec<String>,
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn doc(attributes: &[Attribute]) -> String {
    let docs = attributes.iter().filter(|attribute| attribute.path().is_ident("doc"));
    docs.map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(syn::MetaNameValue { value: syn::Expr::Lit(text), .. }) => match &text.lit {
            syn::Lit::Str(line) => line.value() + "\n",
            _ => String::new(),
        },
        // `hidden`, or a file whose fences are beside it.
        syn::Meta::List(list) => format!("({})", list.tokens),
        _ => String::new(),
    })
    .collect()
}

/// Whether an item is hidden from the documentation, since only the macros need it.
fn is_hidden(attributes: &[Attribute]) -> bool {
    let docs = attributes.iter().filter(|attribute| attribute.path().is_ident("doc"));
    docs.filter_map(|attribute| attribute.parse_args::<syn::Ident>().ok()).any(|argument| argument == "hidden")
}

/// Whether a text has a block of Rust that is not empty.
fn has_example(attributes: &[Attribute]) -> bool {
    const RUST: [&str; 3] = ["", "no_run", "should_panic"];
    let (text, mut is_open, mut found) = (doc(attributes), false, false);
    for line in text.lines() {
        if let Some(language) = line.trim().strip_prefix("```") {
            found |= !is_open && RUST.contains(&language.trim());
            is_open = !is_open;
        }
    }
    found && !is_open
}

impl Crate {
    fn of(files: Vec<(String, String)>) -> Crate {
        let mut found = Crate::default();
        for (path, text) in files {
            let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
            found.files.push((path, file.items));
        }
        found.public = found.names_of("lib.rs");
        // Modules that are re-exported as modules.
        let modules = found.public.iter().map(|name| format!("{name}/mod.rs"));
        let modules: Vec<String> = modules.filter(|path| found.has(path)).collect();
        modules.iter().for_each(|path| found.public.append(&mut found.names_of(path)));
        found
    }

    fn items(&self, path: &str) -> &[Item] {
        &self.files.iter().find(|file| file.0 == path).unwrap_or_else(|| panic!("{path} is not there")).1
    }

    fn has(&self, path: &str) -> bool {
        self.files.iter().any(|file| file.0 == path)
    }

    /// The file of a module that `lib.rs` declares.
    fn file_of(&self, module: &str) -> String {
        let file = format!("{module}.rs");
        if self.has(&file) { file } else { format!("{module}/mod.rs") }
    }

    /// The public names of a file that is a public module, and of the modules that it declares.
    fn names_of(&self, path: &str) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        self.collect_names(self.items(path), &mut names);
        names
    }

    fn collect_names(&self, items: &[Item], names: &mut BTreeSet<String>) {
        for item in items {
            match item {
                Item::Use(item) if is_public(&item.vis) => collect_uses(&item.tree, names),
                Item::Mod(item) if is_public(&item.vis) && !is_hidden(&item.attrs) => match &item.content {
                    Some((_, items)) => self.collect_names(items, names),
                    None => names.extend(self.names_of(&self.file_of(&item.ident.to_string()))),
                },
                // Other items of a public module are checked by name too.
                item => names.extend(declared(item).filter(|item| item.0).map(|item| item.1)),
            }
        }
    }

    /// Checks every public item.
    fn examples(&self) -> Found {
        let mut found = Found::default();
        for (path, items) in &self.files {
            items.iter().for_each(|item| self.look_at(path, item, &mut found));
        }
        found
    }

    fn look_at(&self, path: &str, item: &Item, found: &mut Found) {
        if let Some((true, name, attributes)) = declared(item)
            && (matches!(item, Item::Macro(_)) || self.public.contains(&name))
        {
            found.note(path, &name, attributes);
        }
        match item {
            Item::Trait(item) if self.public.contains(&item.ident.to_string()) => {
                for method in item.items.iter().filter_map(trait_method) {
                    found.note(path, &format!("{}::{}", item.ident, method.sig.ident), &method.attrs);
                }
            }
            Item::Impl(item) if item.trait_.is_none() => self.look_at_methods(path, item, found),
            Item::Mod(module) if path == "lib.rs" && !is_hidden(&module.attrs) => {
                module.content.iter().flat_map(|(_, items)| items).for_each(|item| look_at_macros(path, item, found));
            }
            _ => {}
        }
    }

    fn look_at_methods(&self, path: &str, item: &syn::ItemImpl, found: &mut Found) {
        let syn::Type::Path(of) = &*item.self_ty else { return };
        let name = of.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
        if !self.public.contains(&name) {
            return;
        }
        for method in &item.items {
            if let ImplItem::Fn(method) = method
                && is_public(&method.vis)
            {
                found.note(path, &format!("{name}::{}", method.sig.ident), &method.attrs);
            }
        }
    }
}

impl Found {
    fn note(&mut self, path: &str, name: &str, attributes: &[Attribute]) {
        if is_hidden(attributes) {
            return;
        }
        self.all += 1;
        if !has_example(attributes) {
            self.bare.push(format!("{path}: {name}"));
        }
    }
}

/// The items that a public module re-exports from the crate of macros. That crate has no examples, since they need this crate.
fn look_at_macros(path: &str, item: &Item, found: &mut Found) {
    if let Item::Use(item) = item
        && let UseTree::Path(from) = &item.tree
        && from.ident == "gpucache_macros"
    {
        let mut names = BTreeSet::new();
        collect_uses(&from.tree, &mut names);
        names.iter().for_each(|name| found.note(path, &format!("{name} of {}", from.ident), &item.attrs));
    }
}

fn trait_method(item: &TraitItem) -> Option<&syn::TraitItemFn> {
    match item {
        TraitItem::Fn(method) => Some(method),
        _ => None,
    }
}

/// Whether an item is public in its module, its name, and its attributes. `None` for an item that needs no example.
fn declared(item: &Item) -> Option<(bool, String, &[Attribute])> {
    let (is_public, name, attributes) = match item {
        Item::Struct(item) => (is_public(&item.vis), &item.ident, &item.attrs),
        Item::Enum(item) => (is_public(&item.vis), &item.ident, &item.attrs),
        Item::Union(item) => (is_public(&item.vis), &item.ident, &item.attrs),
        Item::Trait(item) => (is_public(&item.vis), &item.ident, &item.attrs),
        Item::Type(item) => (is_public(&item.vis), &item.ident, &item.attrs),
        Item::Const(item) => (is_public(&item.vis), &item.ident, &item.attrs),
        Item::Static(item) => (is_public(&item.vis), &item.ident, &item.attrs),
        Item::Fn(item) => (is_public(&item.vis), &item.sig.ident, &item.attrs),
        Item::Macro(item) => {
            let is_exported = item.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export"));
            (is_exported, item.ident.as_ref()?, &item.attrs)
        }
        _ => return None,
    };
    Some((is_public, name.to_string(), attributes))
}

fn collect_uses(tree: &UseTree, names: &mut BTreeSet<String>) {
    match tree {
        UseTree::Path(path) => collect_uses(&path.tree, names),
        UseTree::Name(name) => _ = names.insert(name.ident.to_string()),
        UseTree::Rename(_) => panic!("a public item under another name: teach this test to follow it"),
        UseTree::Glob(_) => panic!("a public module hands on all of another one: name what it hands on"),
        UseTree::Group(group) => group.items.iter().for_each(|tree| collect_uses(tree, names)),
    }
}

/// The crate in the first folder, and the crates whose items it re-exports.
fn from_disk(roots: &[&str]) -> Crate {
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
    for root in roots {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(root);
        collect(&root, &root, &mut files);
    }
    Crate::of(files)
}

#[test]
fn every_public_item_has_an_example() {
    let found = from_disk(&["../gpucache/src", "../crates/engine/src", "../crates/plan/src/layout"]).examples();
    println!("{} public items", found.all);
    assert!(found.all > 150, "the public items are found: {}", found.all);
    assert!(found.bare.is_empty(), "{} of {} have no example: {:#?}", found.bare.len(), found.all, found.bare);
}

/// The names of a crate's items without an example.
fn bare(files: &[(&str, &str)]) -> Vec<String> {
    let files = files.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect();
    let names = Crate::of(files).examples().bare;
    names.into_iter().map(|name| name.split_once(": ").unwrap().1.to_string()).collect()
}

#[test]
fn items_without_an_example_are_found() {
    let all = ["S", "S::new", "E", "T", "T::method", "f", "m", "Inner"];
    let text = "
        pub struct S; impl S { pub fn new() -> S { S } fn own() {} pub(crate) fn shared() {}
        #[doc(hidden)] pub fn for_macros() {} }
        pub enum E { A } pub trait T { fn method(&self); } pub fn f() {} pub struct Hidden; fn g() {}
        #[macro_export] macro_rules! m { () => {} }";
    let face = "mod a; pub mod b; pub use a::{E, S, T, f};";
    assert_eq!(bare(&[("lib.rs", face), ("a.rs", text), ("b/mod.rs", "pub struct Inner;")]), all);
    let taken = "pub mod prelude { pub use gpucache_macros::attribute; } #[doc(hidden)] pub mod p { pub use gpucache_macros::x; }";
    assert_eq!(bare(&[("lib.rs", taken)]), ["attribute of gpucache_macros"]);
}

#[test]
fn an_example_is_a_block_of_rust() {
    let is_bare = |doc: &str| !bare(&[("lib.rs", &format!("{doc}\npub struct S;"))]).is_empty();
    assert!(!is_bare("/// A.\n///\n/// ```\n/// f();\n/// ```"));
    assert!(!is_bare("/// ```no_run\n/// f();\n/// ```"));
    assert!(!is_bare("#[doc = \"```\"] #[doc = include_str!(\"f.rs\")] #[doc = \"```\"]"));
    assert!(is_bare("/// A."));
    assert!(is_bare("/// ```text\n/// f();\n/// ```"));
    assert!(is_bare("/// ```ignore\n/// f();\n/// ```"));
    assert!(is_bare("// ```\n// f();\n// ```"));
}
