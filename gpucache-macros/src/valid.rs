//! What is accepted. Every rejection of a well-formed input stands in this file, at the token that is wrong.

use crate::ast::{Argument, Block, Body, Function, Item, literal};
use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Error, Expr, Ident, LitStr, Path, Result};

/// The values of `recycle` and the variant of `gpucache::Recycle` that each stands for.
const RECYCLE: [(&str, &str); 4] = [("auto", "Auto"), ("range", "Range"), ("keyed", "Keyed"), ("off", "Off")];

/// Which scope to enter.
pub(crate) struct Scope {
    pub(crate) name: Name,
    /// A variant of `gpucache::Recycle`, or nothing for the default.
    pub(crate) recycle: Option<Ident>,
    /// Where `gpucache` is found, if not by its own name.
    pub(crate) krate: Option<Path>,
}

pub(crate) enum Name {
    Text(LitStr),
    Computed(Expr),
}

/// The scope and the body of `cache_scope!`.
pub(crate) fn block(block: Block) -> Result<(Scope, Body)> {
    let end = block.arguments.last().map_or_else(Span::call_site, Argument::span);
    let Some(body) = block.body else {
        return Err(Error::new(end, "the block to run is missing; write `cache_scope!(NAME, { .. })`"));
    };
    Ok((scope(block.arguments)?, body))
}

/// The scope that the arguments of either macro describe.
pub(crate) fn scope(arguments: Vec<Argument>) -> Result<Scope> {
    let mut name = None;
    let mut recycle = None;
    let mut krate = None;
    let start = arguments.first().map_or_else(Span::call_site, Argument::span);
    for (position, argument) in arguments.into_iter().enumerate() {
        let span = argument.span();
        match argument {
            Argument::Word(word) if position == 0 => name = Some(named(LitStr::new(&word.unraw().to_string(), span))?),
            Argument::Text(text) if position == 0 => name = Some(named(text)?),
            Argument::Setting { key, value } if key == "name" => once(&mut name, computed(value)?, &key)?,
            Argument::Setting { key, value } if key == "recycle" => once(&mut recycle, variant(&value)?, &key)?,
            Argument::Setting { key, value } if key == "crate" => once(&mut krate, path(value)?, &key)?,
            Argument::Setting { key, .. } => {
                return Err(Error::new(span, format!("unknown option `{key}`; {}", known_options())));
            }
            Argument::Text(_) if name.is_some() => return Err(twice("name", span)),
            Argument::Other(_) if position == 0 => return Err(Error::new(span, format!("not a name; {NAMES}"))),
            _ => return Err(Error::new(span, format!("only options follow the name; {}", known_options()))),
        }
    }
    let name = name.ok_or_else(|| Error::new(start, format!("the name of the scope is missing; {NAMES}")))?;
    Ok(Scope { name, recycle, krate })
}

const NAMES: &str = "it comes first and is an identifier, a string literal or `name = EXPRESSION`";

fn named(text: LitStr) -> Result<Name> {
    if text.value().is_empty() {
        return Err(Error::new(text.span(), "the name of a scope is empty; name the work that is repeated in it"));
    }
    Ok(Name::Text(text))
}

fn computed(value: Expr) -> Result<Name> {
    match literal(&value) {
        Some(text) => named(text.clone()),
        None => Ok(Name::Computed(value)),
    }
}

fn variant(value: &Expr) -> Result<Ident> {
    let text = literal(value).map(LitStr::value);
    let known = RECYCLE.iter().find(|(word, _)| text.as_deref() == Some(word));
    known.map(|(_, variant)| Ident::new(variant, Span::mixed_site())).ok_or_else(|| {
        Error::new(value.span(), format!("unknown value of `recycle`; known values: {}", known_recycling()))
    })
}

fn path(value: Expr) -> Result<Path> {
    match value {
        Expr::Path(value) if value.qself.is_none() => Ok(value.path),
        other => Err(Error::new(other.span(), "not a path to a crate; write `crate = path::to::gpucache`")),
    }
}

fn once<T>(slot: &mut Option<T>, value: T, key: &Ident) -> Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(twice(&key.to_string(), key.span())),
    }
}

fn twice(what: &str, span: Span) -> Error {
    Error::new(span, format!("`{what}` is given twice; keep one"))
}

fn known_options() -> String {
    format!("known options: `name = EXPRESSION`, `recycle = {}`, `crate = PATH`", known_recycling())
}

fn known_recycling() -> String {
    RECYCLE.map(|(word, _)| format!("\"{word}\"")).join(" | ")
}

impl Name {
    pub(crate) fn span(&self) -> Span {
        match self {
            Self::Text(text) => text.span(),
            Self::Computed(value) => value.span(),
        }
    }
}

impl Argument {
    fn span(&self) -> Span {
        match self {
            Self::Word(word) | Self::Setting { key: word, .. } => word.span(),
            Self::Text(text) => text.span(),
            Self::Other(other) => other.span(),
        }
    }
}

/// The function that an item is, if its body can stand inside a scope.
pub(crate) fn function(item: Item) -> Result<Function> {
    let function = match item {
        Item::Function(function) => *function,
        Item::Declaration(end) => {
            let message = "this function has no body to run inside a scope; move `#[cache_scope]` to its definition";
            return Err(Error::new(end, message));
        }
        Item::Other(start) => {
            let message = "not a function; `#[cache_scope]` runs the body of a function inside a scope";
            return Err(Error::new(start, message));
        }
    };
    match function.signature.constness {
        None => Ok(function),
        Some(constness) => {
            let message = "a `const fn` cannot enter a scope, since it may run in the compiler; remove `const`";
            Err(Error::new(constness.span, message))
        }
    }
}
