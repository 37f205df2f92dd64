//! Lists the identifiers that a computed name of a scope uses.
//!
//! A parameter may be used only in the name. The code that moves it into a future would not use it, and the compiler would report
//! it as unused.

use crate::valid::{Name, Scope};
use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use std::collections::HashSet;
use syn::ext::IdentExt;

/// The identifiers in the expression of a name, and those inside the braces of its format strings.
pub(crate) struct Mentions(HashSet<String>);

impl Mentions {
    pub(crate) fn of(scope: &Scope) -> Self {
        let mut words = HashSet::new();
        if let Name::Computed(value) = &scope.name {
            collect(value.to_token_stream(), &mut words);
        }
        Self(words)
    }

    /// A statement that uses the variable, if the name does.
    pub(crate) fn use_of(&self, variable: &Ident) -> Option<TokenStream> {
        let is_mentioned = self.0.contains(&variable.unraw().to_string());
        is_mentioned.then(|| quote_spanned!(Span::mixed_site()=> let _ = &#variable;))
    }
}

fn collect(tokens: TokenStream, words: &mut HashSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => drop(words.insert(ident.unraw().to_string())),
            TokenTree::Group(group) => collect(group.stream(), words),
            TokenTree::Literal(literal) => collect_inlined(&literal.to_string(), words),
            TokenTree::Punct(_) => {}
        }
    }
}

/// Collects `text` and `width` from `"{text:>width$}"`. An extra word at most suppresses a warning.
fn collect_inlined(literal: &str, words: &mut HashSet<String>) {
    for argument in literal.split('{').skip(1) {
        let argument = argument.split('}').next().unwrap_or_default();
        words.extend(argument.split(|c: char| c != '_' && !c.is_alphanumeric()).map(str::to_owned));
    }
}
