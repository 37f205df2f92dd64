//! What the macros expand to: a guard in front of the body's own block, never a closure around it, so that `?`, `return`,
//! `break 'label`, lifetimes and `impl Trait` mean what they meant.
//!
//! The guard is bound before the body's block and so drops after the body's locals. A future is the exception: a guard
//! must not live across a suspension, so the future is polled from a closure that holds one during each poll.

use crate::ast::{Body, Function};
use crate::valid::{Name, Scope};
use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::parse::Parser;
use syn::spanned::Spanned;
use syn::token::Brace;
use syn::{Expr, ExprAsync, ExprCall, ExprPath, GenericArgument, PathArguments, ReturnType, Stmt, Type};

/// The function with its body, or the body of the future that it returns, inside the scope.
pub(crate) fn function(function: Function, scope: &Scope) -> TokenStream {
    let Function { attributes, visibility, defaultness, signature, body } = function;
    let Body { brace, attributes: inner, statements } = body;
    let krate = quote_spanned!(Span::mixed_site()=> ::gpucache);
    let block = surround(brace, &statements);
    let scoped = if signature.asyncness.is_some() {
        let inference = fake_return(&signature.output);
        polled(&krate, scope, &quote_spanned!(Span::mixed_site()=> async move { #inference #block }))
    } else if let Some(rewritten) = returned_future(&krate, scope, &signature.output, &statements) {
        rewritten
    } else {
        let enter = enter(&krate, scope, &name(scope));
        quote_spanned!(Span::mixed_site()=> #enter #block)
    };
    quote_spanned! {Span::mixed_site()=>
        #(#attributes)* #visibility #defaultness #signature { #(#inner)* #scoped }
    }
}

/// The block of `cache_scope!` as an expression.
pub(crate) fn block(krate: &TokenTree, scope: &Scope, body: &Body) -> TokenStream {
    let enter = enter(&krate.to_token_stream(), scope, &name(scope));
    let Body { brace, attributes, statements } = body;
    let block = surround(*brace, &quote_spanned!(Span::mixed_site()=> #(#attributes)* #statements));
    quote_spanned!(Span::mixed_site()=> { #enter #block })
}

/// The error of a rejected `cache_scope!`, and its body so that nothing else is reported missing.
pub(crate) fn rejected_block(rejection: &syn::Error, body: Option<TokenTree>) -> TokenStream {
    let error = rejection.to_compile_error();
    quote_spanned!(Span::mixed_site()=> { #error #body })
}

/// The body's own block. Its braces are ours, though they stand where the user's do: lints would call the user's needless.
fn surround(brace: Brace, statements: &TokenStream) -> TokenStream {
    let mut block = Group::new(Delimiter::Brace, statements.clone());
    block.set_span(Span::mixed_site().located_at(brace.span.join()));
    TokenTree::from(block).into()
}

fn enter(krate: &TokenStream, scope: &Scope, name: &TokenStream) -> TokenStream {
    let recycle = match &scope.recycle {
        Some(variant) => quote_spanned!(Span::mixed_site()=> #krate::__private::Recycle::#variant),
        None => quote_spanned!(Span::mixed_site()=> #krate::__private::DEFAULT),
    };
    quote_spanned!(Span::mixed_site()=> let _guard = #krate::__private::enter(#name, #recycle);)
}

/// The name as a `&str`; one that is not `AsRef<str>` is reported at the user's expression.
fn name(scope: &Scope) -> TokenStream {
    match &scope.name {
        Name::Text(text) => text.to_token_stream(),
        Name::Computed(value) => {
            let here = Span::mixed_site().located_at(value.span());
            quote_spanned!(here=> ::core::convert::AsRef::<str>::as_ref(&(#value)))
        }
    }
}

/// Awaits `future` with a guard held during each poll.
///
/// A computed name is kept as a `String`: it may borrow from parameters that move into the future.
fn polled(krate: &TokenStream, scope: &Scope, future: &TokenStream) -> TokenStream {
    let name = name(scope);
    let (kept, name) = match scope.name {
        Name::Text(_) => (None, name),
        Name::Computed(_) => (
            Some(quote_spanned!(Span::mixed_site()=> let name = ::std::borrow::ToOwned::to_owned(#name);)),
            quote_spanned!(Span::mixed_site()=> &name),
        ),
    };
    let enter = enter(krate, scope, &name);
    quote_spanned! {Span::mixed_site()=>
        #kept
        let mut future = ::core::pin::pin!(#future);
        ::core::future::poll_fn(move |context| {
            #enter
            ::core::future::Future::poll(future.as_mut(), context)
        })
        .await
    }
}

/// The statements of a function that returns `Box::pin(async { .. })` or an async block, with that block polled inside
/// the scope; none if the body ends in anything else.
fn returned_future(
    krate: &TokenStream,
    scope: &Scope,
    output: &ReturnType,
    statements: &TokenStream,
) -> Option<TokenStream> {
    if matches!(output, ReturnType::Default) {
        return None;
    }
    let mut statements = syn::Block::parse_within.parse2(statements.clone()).ok()?;
    let Some(Stmt::Expr(tail, None)) = statements.last_mut() else { return None };
    let outer = async_block(tail)?;
    let inner = ExprAsync { attrs: Vec::new(), ..outer.clone() };
    let scoped = polled(krate, scope, &inner.to_token_stream());
    outer.block.stmts = vec![Stmt::Expr(Expr::Verbatim(scoped), None)];
    Some(quote_spanned!(Span::mixed_site()=> #(#statements)*))
}

fn async_block(tail: &mut Expr) -> Option<&mut ExprAsync> {
    match tail {
        Expr::Async(block) => Some(block),
        Expr::Call(ExprCall { func, args, .. }) if args.len() == 1 && is_box_pin(func) => match args.first_mut() {
            Some(Expr::Async(block)) => Some(block),
            _ => None,
        },
        _ => None,
    }
}

fn is_box_pin(function: &Expr) -> bool {
    let Expr::Path(ExprPath { path, .. }) = function else { return false };
    let mut last = path.segments.iter().rev().map(|segment| &segment.ident);
    last.next().is_some_and(|method| method == "pin") && last.next().is_some_and(|owner| owner == "Box")
}

/// A `return` that never runs: it gives the async block its type, so that `?` infers and a wrong value is reported where
/// it is written and not against the macro.
fn fake_return(output: &ReturnType) -> Option<TokenStream> {
    let mut output = match output {
        ReturnType::Default => Type::Verbatim(quote_spanned!(Span::mixed_site()=> ())),
        ReturnType::Type(_, output) if matches!(**output, Type::Never(_) | Type::ImplTrait(_)) => return None,
        ReturnType::Type(_, output) => (**output).clone(),
    };
    erase_impl(&mut output);
    let here = Span::mixed_site().located_at(output.span());
    Some(quote_spanned! {here=>
        #[allow(unreachable_code, clippy::all, clippy::pedantic)]
        if false {
            let fake: #output = loop {};
            return fake;
        }
    })
}

/// Puts `_` for each `impl Trait` in a return type, as a `let` cannot name one.
fn erase_impl(output: &mut Type) {
    match output {
        Type::ImplTrait(opaque) => *output = Type::Verbatim(quote_spanned!(opaque.span()=> _)),
        Type::Path(path) => {
            path.path.segments.iter_mut().for_each(|segment| erase_impl_arguments(&mut segment.arguments))
        }
        Type::Tuple(tuple) => tuple.elems.iter_mut().for_each(erase_impl),
        Type::Reference(reference) => erase_impl(&mut reference.elem),
        Type::Array(array) => erase_impl(&mut array.elem),
        Type::Paren(paren) => erase_impl(&mut paren.elem),
        Type::Group(group) => erase_impl(&mut group.elem),
        _ => {}
    }
}

fn erase_impl_arguments(arguments: &mut PathArguments) {
    let PathArguments::AngleBracketed(arguments) = arguments else { return };
    for argument in &mut arguments.args {
        if let GenericArgument::Type(argument) = argument {
            erase_impl(argument);
        }
    }
}
