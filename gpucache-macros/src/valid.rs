//! What is accepted. Every rejection of a well-formed input stands in this file, at the token that is wrong.

use crate::ast::{Argument, Block, Body, Function, Item, literal};
use crate::later::{self, Later};
use crate::tail;
use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprPath, Ident, LitStr, Path, PathSegment, Result};

/// The values of `recycle` and the variant of `gpucache::Recycle` that each stands for.
const RECYCLE: [(&str, &str); 4] = [("auto", "Auto"), ("range", "Range"), ("keyed", "Keyed"), ("off", "Off")];

/// The same of `placement` and `gpucache::Placement`.
const PLACEMENT: [(&str, &str); 3] = [("device", "Device"), ("host", "Host"), ("auto", "Auto")];

/// Which scope to enter.
pub(crate) struct Scope {
    pub(crate) name: Name,
    /// A variant of `gpucache::Recycle`, or nothing for the default.
    pub(crate) recycle: Option<Ident>,
    /// A variant of `gpucache::Placement`, if that is said.
    pub(crate) placement: Option<Ident>,
    /// The most bytes that it may hold on a thread, if that is said.
    pub(crate) limit: Option<Expr>,
    /// Where `gpucache` is found, if not by its own name.
    pub(crate) krate: Option<Path>,
}

pub(crate) enum Name {
    Text(LitStr),
    /// `self::step`: the end of a name that begins with the path of the module.
    OfModule(LitStr),
    Computed(Expr),
}

const AWAITED: &str = "an `.await` would leave other tasks of the thread inside the scope; \
    move the block to an `async fn` with `#[cache_scope(..)]`";

/// The scope and the body of `cache_scope!`.
pub(crate) fn block(block: Block) -> Result<(Scope, Body)> {
    let end = block.arguments.last().map_or_else(Span::call_site, Argument::span);
    let Some(body) = block.body else {
        return Err(Error::new(end, "the block to run is missing; write `cache_scope!(NAME, { .. })`"));
    };
    if let Some(place) = later::awaited(&body.statements) {
        return Err(Error::new(place, AWAITED));
    }
    Ok((scope(block.arguments)?, body))
}

/// The scope that the arguments of either macro describe.
pub(crate) fn scope(arguments: Vec<Argument>) -> Result<Scope> {
    let mut name = None;
    let mut recycle = None;
    let mut placement = None;
    let mut limit = None;
    let mut krate = None;
    let start = arguments.first().map_or_else(Span::call_site, Argument::span);
    for (position, argument) in arguments.into_iter().enumerate() {
        let span = argument.span();
        match argument {
            Argument::Word(word) if position == 0 => name = Some(named(LitStr::new(&word.unraw().to_string(), span))?),
            Argument::Text(text) if position == 0 => name = Some(named(text)?),
            Argument::Setting { key, value } if key == "name" => once(&mut name, computed(value)?, &key)?,
            Argument::Setting { key, value } if key == "recycle" => {
                once(&mut recycle, variant(&value, &key, &RECYCLE)?, &key)?;
            }
            Argument::Setting { key, value } if key == "placement" => {
                once(&mut placement, variant(&value, &key, &PLACEMENT)?, &key)?;
            }
            Argument::Setting { key, value } if key == "limit" => once(&mut limit, value, &key)?,
            Argument::Setting { key, value } if key == "crate" => once(&mut krate, path(value)?, &key)?,
            Argument::Setting { key, .. } => {
                return Err(Error::new(span, format!("unknown option `{key}`; {}", known_options())));
            }
            Argument::Text(_) if name.is_some() => return Err(twice("name", span)),
            Argument::Other(value) if position == 0 => name = Some(of_module(&value)?),
            Argument::Word(word) if is_recycling(&word) => {
                return Err(Error::new(
                    span,
                    format!("`{word}` is a value, not an option; write `recycle = \"{word}\"`"),
                ));
            }
            _ => return Err(Error::new(span, format!("only options follow the one name; {}", known_options()))),
        }
    }
    let name = name.ok_or_else(|| Error::new(start, format!("the name of the scope is missing; {NAMES}")))?;
    Ok(Scope { name, recycle, placement, limit, krate })
}

const NAMES: &str = "it comes first and is an identifier, `self::IDENTIFIER`, a string literal or `name = EXPRESSION`";

/// The name in `self::name`.
fn of_module(value: &Expr) -> Result<Name> {
    if let Expr::Path(ExprPath { qself: None, path, .. }) = value
        && let [module, PathSegment { ident, arguments }] = &*path.segments.iter().cloned().collect::<Vec<_>>()
        && module.ident == "self"
        && arguments.is_none()
    {
        return Ok(Name::OfModule(LitStr::new(&format!("::{}", ident.unraw()), ident.span())));
    }
    Err(Error::new(value.span(), format!("not a name; {NAMES}")))
}

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

fn is_recycling(word: &Ident) -> bool {
    RECYCLE.iter().any(|(known, _)| word == known)
}

/// The variant that the word stands for which an option has.
fn variant(value: &Expr, key: &Ident, words: &[(&str, &str)]) -> Result<Ident> {
    let known = known_words(words);
    let Some(text) = literal(value).map(LitStr::value) else {
        let message =
            format!("`{key}` takes a word in quotes, {known}; one chosen at run time is for `gpucache::Scope`");
        return Err(Error::new(value.span(), message));
    };
    let found = words.iter().find(|(word, _)| text == *word);
    found
        .map(|(_, variant)| Ident::new(variant, Span::mixed_site()))
        .ok_or_else(|| Error::new(value.span(), format!("unknown value of `{key}`; known values: {known}")))
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
    let (recycle, placement) = (known_words(&RECYCLE), known_words(&PLACEMENT));
    format!(
        "known options: `name = EXPRESSION`, `recycle = {recycle}`, `placement = {placement}`, `limit = BYTES`, \
        `crate = PATH`"
    )
}

fn known_words(words: &[(&str, &str)]) -> String {
    words.iter().map(|(word, _)| format!("\"{word}\"")).collect::<Vec<_>>().join(" | ")
}

impl Name {
    pub(crate) fn span(&self) -> Span {
        match self {
            Self::Text(text) | Self::OfModule(text) => text.span(),
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
            let message = "not a function; put `#[cache_scope]` on functions and methods, \
                and write `cache_scope!(NAME, { .. })` around a block";
            return Err(Error::new(start, message));
        }
    };
    if let Some(constness) = function.signature.constness {
        let message = "a `const fn` cannot enter a scope, since it may run in the compiler; remove `const`";
        return Err(Error::new(constness.span, message));
    }
    match later::returned(&function.signature.output) {
        Some((Later::Future, _)) if is_scoped_future(&function) => Ok(function),
        Some((later, place)) => Err(Error::new(place, outside(later))),
        None => Ok(function),
    }
}

/// Whether the future that a function returns is one that enters the scope at each poll.
fn is_scoped_future(function: &Function) -> bool {
    let mut statements = tail::parsed(&function.body.statements).unwrap_or_default();
    function.signature.asyncness.is_none() && tail::async_block(&mut statements).is_some()
}

/// What is wrong with a function whose work begins when it has returned.
const fn outside(later: Later) -> &'static str {
    match later {
        Later::Future => {
            "the returned future would be polled outside the scope; make it an `async fn`, \
            or end in `Box::pin(async move { future.await })`"
        }
        Later::Iterator => {
            "the returned iterator would run outside the scope; return a `Vec`, \
            or write `cache_scope!(NAME, { .. })` around what allocates"
        }
        Later::Closure => {
            "the returned closure would run outside the scope; \
            write `cache_scope!(NAME, { .. })` inside it, or around what allocates"
        }
    }
}
