//! Writes the expansion: a guard in front of the body's own block, never a closure around it. So `?`, `return`,
//! `break 'label`, lifetimes and `impl Trait` keep their meaning.
//!
//! The guard is bound before the body's block, so it drops after the body's locals. Futures are the exception: see
//! `future`.

use crate::ast::{Body, Function};
use crate::valid::Scope;
use crate::{future, guard};
use proc_macro2::{Group, Span, TokenStream};
use quote::{quote, quote_spanned};

/// The function with its body inside the scope. If it returns a future, the body of that future is inside the scope.
pub(crate) fn function(function: Function, scope: &Scope) -> TokenStream {
    let Function { attributes, visibility, defaultness, mut signature, body } = function;
    let Body { brace, attributes: inner, statements } = body;
    let krate = found_at(scope, quote_spanned!(Span::mixed_site()=> ::gpucache));
    let here = brace.span.join();
    let scoped = if signature.asyncness.is_some() {
        future::of_async_fn(&krate, scope, &mut signature, here, statements)
    } else if let Some(returned) = future::returned(&krate, scope, &signature.output, &statements) {
        returned
    } else {
        guarded(&krate, scope, guard::block(here, statements))
    };
    let body = guard::block(here, quote!(#(#inner)* #scoped));
    quote!(#(#attributes)* #visibility #defaultness #signature #body)
}

/// The block of `cache_scope!` as an expression.
pub(crate) fn block(krate: TokenStream, scope: &Scope, body: Body) -> TokenStream {
    let Body { brace, attributes, statements } = body;
    let body = guard::block(brace.span.join(), quote!(#(#attributes)* #statements));
    let guarded = guarded(&found_at(scope, krate), scope, body);
    quote_spanned!(Span::mixed_site()=> { #guarded })
}

/// The error of a rejected `cache_scope!`, followed by its body, so that the compiler reports nothing else as missing.
pub(crate) fn rejected_block(rejection: &syn::Error, body: Option<Group>) -> TokenStream {
    let error = rejection.to_compile_error();
    let body = body.map(|body| guard::block(body.span(), body.stream()));
    quote_spanned!(Span::mixed_site()=> { #error #body })
}

/// The path of the crate: the scope's `crate` option, or else `krate`.
fn found_at(scope: &Scope, krate: TokenStream) -> TokenStream {
    scope.krate.as_ref().map_or(krate, |path| quote!(#path))
}

fn guarded(krate: &TokenStream, scope: &Scope, body: TokenStream) -> TokenStream {
    let enter = guard::enter(krate, scope, &guard::name(krate, scope));
    quote_spanned!(Span::mixed_site()=> #enter #body)
}
