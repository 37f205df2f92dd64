//! Decides which input is accepted. Every rejection of input that parses is in this file, and points to the wrong token.

use crate::ast::{Argument, Block, Body, Function, Item, literal};
use crate::bindings::take_bindings;
use crate::later::{self, Later};
use crate::locals;
use crate::tail;
use proc_macro2::{Span, TokenStream};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, ExprPath, FnArg, Ident, LitStr, Pat, PatType, Path, PathSegment, Result};

/// The values of `recycle`, and the variant of `gpucache::Recycle` for each.
const RECYCLE: [(&str, &str); 4] = [("auto", "Auto"), ("range", "Range"), ("keyed", "Keyed"), ("off", "Off")];

/// The values of `placement`, and the variant of `gpucache::offload::Placement` for each.
const PLACEMENT: [(&str, &str); 3] = [("device", "Device"), ("host", "Host"), ("auto", "Auto")];

/// The scope to enter, with its options.
pub(crate) struct Scope {
    pub(crate) name: Name,
    /// A variant of `gpucache::Recycle`; `None` for the default.
    pub(crate) recycle: Option<Ident>,
    /// A variant of `gpucache::offload::Placement`, if the option is given.
    pub(crate) placement: Option<Ident>,
    /// The most bytes that it may hold on a thread, if that is said.
    pub(crate) limit: Option<Expr>,
    /// The path of `gpucache`, if the option `crate` is given.
    pub(crate) krate: Option<Path>,
}

pub(crate) enum Name {
    Text(LitStr),
    /// `self::step`: the end of a name that begins with the module's path.
    OfModule(LitStr),
    Computed(Expr),
}

const AWAITED: &str = "during this `.await` the thread's other tasks would run inside the scope; \
    move the block to an `async fn` with `#[cache_scope(..)]`";

const AWAITED_OUTSIDE: &str = "during this `.await` the thread's other tasks would run outside of their scopes; \
    await before the block or behind it";

/// Checks the statements of `uncached!`.
pub(crate) fn uncached(statements: &TokenStream) -> Result<()> {
    later::awaited(statements).map_or(Ok(()), |place| Err(Error::new(place, AWAITED_OUTSIDE)))
}

/// The scope and the body of `cache_scope!`.
pub(crate) fn block(block: Block) -> Result<(Scope, Body)> {
    let end = block.arguments.last().map_or_else(Span::call_site, Argument::span);
    let Some(body) = block.body else {
        return Err(Error::new(
            end,
            "the block to run inside the scope is missing; write `cache_scope!(NAME, { .. })`",
        ));
    };
    if let Some(place) = later::awaited(&body.statements) {
        return Err(Error::new(place, AWAITED));
    }
    if let Some(Argument::Word(word)) = block.arguments.first()
        && locals::is_variable(word)
    {
        return Err(variable(word, "local variable"));
    }
    Ok((scope(block.arguments)?, body))
}

/// Rejects a name that is also a parameter of the function, unless it is the function's own name: then it is clear which one is meant.
pub(crate) fn not_a_parameter(arguments: &[Argument], function: &Function) -> Result<()> {
    let Some(Argument::Word(word)) = arguments.first() else { return Ok(()) };
    let is_same = |input: &FnArg| matches!(input, FnArg::Typed(PatType { pat, .. }) if names(pat, word));
    if *word != function.signature.ident && function.signature.inputs.iter().any(is_same) {
        Err(variable(word, "parameter"))
    } else {
        Ok(())
    }
}

fn names(pattern: &Pat, word: &Ident) -> bool {
    let mut bindings = Vec::new();
    take_bindings(&mut pattern.clone(), &mut bindings);
    bindings.iter().any(|(_, name)| name == word)
}

fn variable(word: &Ident, what: &str) -> Error {
    let message = format!(
        "`{word}` is a {what}, but the scope would be named \"{word}\"; \
        write `name = {word}` for its value, or `\"{word}\"` for this name"
    );
    Error::new(word.span(), message)
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
            _ => return Err(Error::new(span, format!("only options may follow the name; {}", known_options()))),
        }
    }
    let name = name.ok_or_else(|| Error::new(start, format!("the name of the scope is missing; {NAMES}")))?;
    Ok(Scope { name, recycle, placement, limit, krate })
}

const NAMES: &str =
    "write an identifier, `self::IDENTIFIER`, a string literal or `name = EXPRESSION` as the first argument";

/// The name of the form `self::name`.
fn of_module(value: &Expr) -> Result<Name> {
    if let Expr::Path(ExprPath { qself: None, path, .. }) = value
        && let [module, PathSegment { ident, arguments }] = &*path.segments.iter().cloned().collect::<Vec<_>>()
        && module.ident == "self"
        && arguments.is_none()
    {
        return Ok(Name::OfModule(LitStr::new(&format!("::{}", ident.unraw()), ident.span())));
    }
    Err(Error::new(value.span(), format!("this is not a scope's name; {NAMES}")))
}

fn named(text: LitStr) -> Result<Name> {
    if text.value().is_empty() {
        return Err(Error::new(
            text.span(),
            "the name of the scope is empty; name the scope after the work that it repeats",
        ));
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

/// The variant for the word that an option has as its value.
fn variant(value: &Expr, key: &Ident, words: &[(&str, &str)]) -> Result<Ident> {
    let known = known_words(words);
    let Some(text) = literal(value).map(LitStr::value) else {
        let message = format!(
            "`{key}` must be one of the string literals {known}; to choose it at run time, use `gpucache::Scope`"
        );
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
        other => Err(Error::new(other.span(), "`crate` must be a path; write `crate = path::to::gpucache`")),
    }
}

fn once<T>(slot: &mut Option<T>, value: T, key: &Ident) -> Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(twice(&key.to_string(), key.span())),
    }
}

fn twice(what: &str, span: Span) -> Error {
    Error::new(span, format!("`{what}` is given twice; remove one of them"))
}

fn known_options() -> String {
    let (recycle, placement) = (known_words(&RECYCLE), known_words(&PLACEMENT));
    format!(
        "known options: `name = EXPRESSION`, `recycle = {recycle}`, `placement = {placement}`, \
        `limit = \"20GiB\" | \"80%\" | EXPRESSION` (a `u64`, a `Limit` or a text), \
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

/// Returns the item as a function, if its body can run inside a scope.
pub(crate) fn function(item: Item) -> Result<Function> {
    let function = match item {
        Item::Function(function) => *function,
        Item::Declaration(end) => {
            let message =
                "this function has no body to run inside a scope; put `#[cache_scope]` on a function with a body";
            return Err(Error::new(end, message));
        }
        Item::Other(start) => {
            let message = "`#[cache_scope]` works on functions and methods only; \
                write `cache_scope!(NAME, { .. })` around a block instead";
            return Err(Error::new(start, message));
        }
    };
    if let Some(constness) = function.signature.constness {
        let message = "a `const fn` cannot enter a scope, because the compiler may run it; remove `const`";
        return Err(Error::new(constness.span, message));
    }
    if function.signature.asyncness.is_some()
        && let Some(attribute) = function.attributes.iter().find(|attribute| is_main(attribute))
    {
        let message = "this function runs once, so its scope would be entered once and nothing in it would repeat; \
            put `#[cache_scope]` on the function that repeats and call it from here";
        return Err(Error::new(attribute.path().span(), message));
    }
    match later::returned(&function.signature.output) {
        Some((Later::Future, _)) if is_scoped_future(&function) => Ok(function),
        Some((later, place)) => Err(Error::new(place, outside(later))),
        None => Ok(function),
    }
}

/// Whether the attribute makes the function a program's `main`, as `#[tokio::main]` does.
fn is_main(attribute: &Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|last| last.ident == "main")
}

/// Whether the function returns a future that enters the scope at each poll.
fn is_scoped_future(function: &Function) -> bool {
    let mut statements = tail::parsed(&function.body.statements).unwrap_or_default();
    function.signature.asyncness.is_none() && tail::async_block(&mut statements).is_some()
}

/// The message for a function whose work begins after it has returned.
const fn outside(later: Later) -> &'static str {
    match later {
        Later::Future => {
            "the returned future would be polled outside the scope; make this an `async fn`, \
            or end the body with `Box::pin(async move { future.await })`"
        }
        Later::Iterator => {
            "the returned iterator would run outside the scope; return a `Vec`, \
            or write `cache_scope!(NAME, { .. })` around the code that allocates"
        }
        Later::Closure => {
            "the returned closure would run outside the scope; \
            write `cache_scope!(NAME, { .. })` inside the closure, or around the code that allocates"
        }
    }
}
