//! Limits on the size of the code: functions fit half a screen and have few conditions, and each `unsafe` block has its own argument.
//!
//! `cargo test -p gpucache-tests --test measures -- --nocapture` prints the figures.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// The most lines of a function, from its `fn` to its closing brace.
const LONGEST: usize = 40;
/// The most conditions of a function: `if`, `while`, `&&`, `||`.
const CONDITIONS: usize = 5;
/// The most `unsafe` blocks in the crates, except in the files that face C.
const BLOCKS: usize = 111;
/// Files that C calls, or that handle what C passes. Each pointer needs a block there.
const FACING_C: [&str; 12] = [
    "c/",
    "cache/addresses.rs",
    "foreign/",
    "forks.rs",
    "device/cuda/borrowed.rs",
    "device/cuda/current.rs",
    "device/cuda/graph/",
    "device/cuda/memory/pinned.rs",
    "device/cuda/nvtx.rs",
    "device/cuda/graph_end.rs",
    "device/cuda/relaxed.rs",
    "nccl/",
];
/// The most `unsafe` blocks in these files.
const BLOCKS_FACING_C: usize = 107;

#[derive(Default)]
struct Found {
    path: String,
    lines: Vec<String>,
    /// The path, name, lines and conditions of each function.
    functions: Vec<(String, String, usize, usize)>,
    blocks: Vec<(String, usize)>,
    /// Blocks and impls without an argument above them, or with an argument that was used before.
    bare: Vec<(String, usize)>,
    conditions: usize,
    /// Each argument of each file, with the line of the last block that it was found at.
    said: std::collections::HashMap<(String, String), usize>,
}

impl Found {
    fn function(&mut self, name: &syn::Ident, lines: usize, walk: impl FnOnce(&mut Self)) {
        let before = std::mem::take(&mut self.conditions);
        walk(self);
        let own = std::mem::replace(&mut self.conditions, before);
        self.functions.push((self.path.clone(), name.to_string(), lines, own));
    }

    /// The comment right above a line, or above the statement that contains the line.
    fn argument(&self, line: usize) -> Option<String> {
        let text = |line: usize| self.lines[line].trim();
        let mut above = line.checked_sub(2)?;
        // For a block within a statement of several lines, the argument is above the statement, or above its arm or part.
        for _ in 0..6 {
            if text(above).starts_with("//") {
                break;
            }
            above = above.checked_sub(1)?;
        }
        let last = above;
        while above > 0 && text(above - 1).starts_with("//") {
            above -= 1;
        }
        let comment = (above..=last).map(text).collect::<Vec<_>>().join(" ");
        let is_own = ["as above", "as there", "see above", "the same as"].iter().all(|words| !comment.contains(words));
        (comment.contains("SAFETY:") && is_own).then_some(comment)
    }

    fn note_unsafe(&mut self, line: usize) {
        match self.argument(line) {
            // Two blocks of one statement may share an argument. Otherwise the same words count as copied.
            Some(words)
                if self.said.insert((self.path.clone(), words.clone()), line).is_none_or(|other| line - other < 6) => {}
            _ => self.bare.push((self.path.clone(), line)),
        }
    }
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        let text = list.tokens.to_string();
        list.path.is_ident("cfg") && (text == "test" || text.replace(' ', "") == "all(loom,test)")
    })
}

impl<'a> Visit<'a> for Found {
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        let lines = item.block.span().end().line - item.sig.span().start().line + 1;
        self.function(&item.sig.ident, lines, |found| visit::visit_item_fn(found, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        let lines = item.block.span().end().line - item.sig.span().start().line + 1;
        self.function(&item.sig.ident, lines, |found| visit::visit_impl_item_fn(found, item));
    }

    fn visit_expr_if(&mut self, item: &'a syn::ExprIf) {
        self.conditions += 1;
        visit::visit_expr_if(self, item);
    }

    fn visit_expr_while(&mut self, item: &'a syn::ExprWhile) {
        self.conditions += 1;
        visit::visit_expr_while(self, item);
    }

    fn visit_expr_binary(&mut self, item: &'a syn::ExprBinary) {
        self.conditions += usize::from(matches!(item.op, syn::BinOp::And(_) | syn::BinOp::Or(_)));
        visit::visit_expr_binary(self, item);
    }

    fn visit_expr_unsafe(&mut self, item: &'a syn::ExprUnsafe) {
        let line = item.span().start().line;
        self.blocks.push((self.path.clone(), line));
        self.note_unsafe(line);
        visit::visit_expr_unsafe(self, item);
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        if let Some(word) = item.unsafety {
            self.note_unsafe(word.span().start().line);
        }
        visit::visit_item_impl(self, item);
    }
}

fn house() -> Found {
    fn collect(folder: &Path, root: &Path, found: &mut Found) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
            let is_test = name.split('/').any(|part| part == "tests" || part == "tests.rs");
            if path.is_dir() && !is_test {
                collect(&path, root, found);
            } else if name.ends_with(".rs") && !is_test {
                let text = std::fs::read_to_string(&path).unwrap();
                (found.path, found.lines) = (name, text.lines().map(str::to_string).collect());
                found.visit_file(&syn::parse_file(&text).unwrap());
            }
        }
    }
    let mut found = Found::default();
    for root in ["../gpucache/src", "../crates/capi/src", "../crates/engine/src", "../crates/plan/src"] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(root);
        collect(&root, &root, &mut found);
    }
    found
}

#[test]
fn the_house_keeps_its_measures() {
    let Found { mut functions, blocks, bare, .. } = house();
    assert!(functions.len() > 500, "the functions are found");
    functions.sort_by_key(|function| std::cmp::Reverse(function.2));
    println!(
        "{} functions, the longest of {:?} lines",
        functions.len(),
        functions.iter().map(|f| f.2).take(5).collect::<Vec<_>>()
    );
    let long: Vec<_> = functions.iter().filter(|function| function.2 > LONGEST).cloned().collect();
    functions.sort_by_key(|function| std::cmp::Reverse(function.3));
    println!("most conditions: {:?}", &functions[..12]);
    let faces_c = |(path, _): &&(String, usize)| FACING_C.iter().any(|part| path.starts_with(part));
    let facing_c = blocks.iter().filter(faces_c).count();
    println!("{} unsafe blocks, and {facing_c} that face C", blocks.len() - facing_c);
    let twisted: Vec<_> = functions.iter().filter(|function| function.3 > CONDITIONS).cloned().collect();
    println!("{} functions of more than {CONDITIONS} conditions", twisted.len());
    assert!(bare.is_empty(), "without an argument: {bare:#?}");
    assert!(long.is_empty(), "{long:#?}");
    assert!(twisted.is_empty(), "more than {CONDITIONS} conditions: {twisted:#?}");
    assert!(blocks.len() - facing_c <= BLOCKS, "{} unsafe blocks", blocks.len() - facing_c);
    assert!(facing_c <= BLOCKS_FACING_C, "{facing_c} unsafe blocks that face C");
}
