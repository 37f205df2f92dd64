//! Finds code that runs after its scope was left: in functions that return a future, an iterator or a closure, and in blocks
//! that contain an `await`.
//!
//! A return type is judged by its name, because macros know nothing else about it. A type behind an alias, in a `Result` or in
//! a tuple is taken for a plain value.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{GenericArgument, PathArguments, PathSegment, ReturnType, Token, Type, TypeParamBound};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Later {
    /// The caller polls it.
    Future,
    /// The caller asks it for values.
    Iterator,
    /// The caller calls it.
    Closure,
}

/// The kind of value that a function returns and that runs after its body, and the place of that type in the signature.
pub(crate) fn returned(output: &ReturnType) -> Option<(Later, Span)> {
    match output {
        ReturnType::Default => None,
        ReturnType::Type(_, output) => of(output),
    }
}

fn of(output: &Type) -> Option<(Later, Span)> {
    match output {
        Type::ImplTrait(opaque) => of_bounds(&opaque.bounds),
        Type::TraitObject(object) => of_bounds(&object.bounds),
        Type::Paren(paren) => of(&paren.elem),
        Type::Group(group) => of(&group.elem),
        Type::Path(path) => path.path.segments.last().and_then(of_segment),
        _ => None,
    }
}

fn of_bounds(bounds: &Punctuated<TypeParamBound, Token![+]>) -> Option<(Later, Span)> {
    bounds.iter().find_map(|bound| match bound {
        TypeParamBound::Trait(bound) => bound.path.segments.last().and_then(of_trait),
        _ => None,
    })
}

fn of_trait(last: &PathSegment) -> Option<(Later, Span)> {
    let later = match last.ident.to_string().as_str() {
        "Future" | "IntoFuture" => Later::Future,
        "Iterator"
        | "DoubleEndedIterator"
        | "ExactSizeIterator"
        | "FusedIterator"
        | "ParallelIterator"
        | "IndexedParallelIterator"
        | "Stream" => Later::Iterator,
        "Fn" | "FnMut" | "FnOnce" | "AsyncFn" | "AsyncFnMut" | "AsyncFnOnce" => Later::Closure,
        _ => return None,
    };
    Some((later, last.ident.span()))
}

/// Judges the target of a smart pointer, or an alias with a well-known name.
fn of_segment(last: &PathSegment) -> Option<(Later, Span)> {
    match last.ident.to_string().as_str() {
        "Box" | "Pin" | "Rc" | "Arc" => pointed_to(last).and_then(of),
        "BoxFuture" | "LocalBoxFuture" => Some((Later::Future, last.span())),
        "BoxStream" | "LocalBoxStream" => Some((Later::Iterator, last.span())),
        _ => None,
    }
}

fn pointed_to(pointer: &PathSegment) -> Option<&Type> {
    let PathArguments::AngleBracketed(arguments) = &pointer.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(target) => Some(target),
        _ => None,
    })
}

/// The first `await` among the tokens that belongs to their own function, and not to an async block or closure inside.
pub(crate) fn awaited(statements: &TokenStream) -> Option<Span> {
    let mut is_other = false;
    for token in statements.clone() {
        match token {
            TokenTree::Ident(word) if word == "async" => is_other = true,
            TokenTree::Ident(word) if word == "await" && !is_other => return Some(word.span()),
            // The tokens after `async` belong to it up to the end of its block.
            TokenTree::Group(group) if is_other => is_other = group.delimiter() != Delimiter::Brace,
            TokenTree::Group(group) => match awaited(&group.stream()) {
                None => {}
                found => return found,
            },
            _ => {}
        }
    }
    None
}
