//! Futures. A guard must not live across a suspension, so a closure polls the scoped future and holds a guard
//! during each poll.
//!
//! An async block replaces the body of an `async fn` here. It must behave like that body: it owns all of each parameter, drops
//! them in the same order, and knows its return type before the first statement.

use crate::bindings::take_bindings;
use crate::mentions::Mentions;
use crate::valid::{Name, Scope};
use crate::{guard, tail};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    Expr, ExprAsync, ExprPath, FnArg, GenericArgument, Ident, Local, LocalInit, Pat, PathArguments, ReturnType,
    Signature, Stmt, Type,
};

/// The statements that replace those of an `async fn` whose block is `here`. Removes `mut` from parameters that get it inside.
pub(crate) fn of_async_fn(
    krate: &TokenStream,
    scope: &Scope,
    signature: &mut Signature,
    here: Span,
    statements: TokenStream,
) -> TokenStream {
    let mentions = Mentions::of(scope);
    let parameters = signature.inputs.iter_mut().enumerate();
    let parameters = parameters.map(|parameter| moved_in(parameter, &mentions)).collect::<TokenStream>();
    let inference = fake_return(&signature.output);
    let body = guard::block(here, statements);
    let body = guard::block(here, quote!(#inference #parameters #body));
    let polled = polled(krate, scope, &quote_spanned!(Span::mixed_site()=> async move #body));
    // The compiler does not count the drop of a captured `self` as a use of the values assigned to it.
    let mutable = signature.receiver().and_then(|receiver| receiver.mutability);
    let lints = mutable.map(|_| quote!(#![allow(unused_assignments)]));
    quote!(#lints #polled)
}

/// The statements of a function whose body ends in an async block that [`tail`] finds. The block is polled inside the
/// scope. `None` if the body ends in anything else.
pub(crate) fn returned(
    krate: &TokenStream,
    scope: &Scope,
    output: &ReturnType,
    statements: &TokenStream,
) -> Option<TokenStream> {
    if matches!(output, ReturnType::Default) {
        return None;
    }
    let mut statements = tail::parsed(statements)?;
    let outer = tail::async_block(&mut statements)?;
    let mut inner = ExprAsync { attrs: Vec::new(), ..outer.clone() };
    inner.block.stmts = with_uses(std::mem::take(&mut inner.block.stmts), &Mentions::of(scope));
    let scoped = polled(krate, scope, &inner.to_token_stream());
    outer.block.stmts = vec![Stmt::Expr(Expr::Verbatim(scoped), None)];
    Some(quote_spanned!(Span::mixed_site()=> #(#statements)*))
}

/// The statements of an async block, with a use behind each `let x = x` whose variable the scope's name mentions. The code
/// that `async_trait` generates has such a `let` for each parameter.
fn with_uses(statements: Vec<Stmt>, mentions: &Mentions) -> Vec<Stmt> {
    let with_use = |statement: Stmt| {
        let used = moved_by(&statement).and_then(|variable| mentions.use_of(variable));
        std::iter::once(statement).chain(used.map(|used| Stmt::Expr(Expr::Verbatim(used), None)))
    };
    statements.into_iter().flat_map(with_use).collect()
}

/// The variable of `let x = x;`.
fn moved_by(statement: &Stmt) -> Option<&Ident> {
    let Stmt::Local(Local { pat: Pat::Ident(to), init: Some(LocalInit { expr, .. }), .. }) = statement else {
        return None;
    };
    let Expr::Path(ExprPath { path, .. }) = &**expr else { return None };
    path.get_ident().filter(|from| **from == to.ident)
}

/// Awaits `future` with a guard held during each poll.
///
/// A computed name is stored as a `String`, because it may borrow from parameters that move into the future.
fn polled(krate: &TokenStream, scope: &Scope, future: &TokenStream) -> TokenStream {
    let name = guard::name(krate, scope);
    let (kept, name) = match scope.name {
        Name::Text(_) | Name::OfModule(_) => (None, name),
        Name::Computed(_) => (
            Some(quote_spanned!(Span::mixed_site()=> let name = ::std::borrow::ToOwned::to_owned(#name);)),
            quote_spanned!(Span::mixed_site()=> &name),
        ),
    };
    let is_polled = quote_spanned!(Span::mixed_site()=> is_polled);
    let enter = guard::enter_poll(krate, scope, &name, &is_polled);
    quote_spanned! {Span::mixed_site()=>
        #kept
        let mut #is_polled = false;
        let mut future = ::core::pin::pin!(#future);
        ::core::future::poll_fn(move |context| {
            #enter
            ::core::future::Future::poll(future.as_mut(), context)
        })
        .await
    }
}

/// Moves one parameter into the async block. Otherwise the block would capture single fields, and an assignment to a field would
/// change a copy.
fn moved_in((position, parameter): (usize, &mut FnArg), mentions: &Mentions) -> TokenStream {
    let parameter = match parameter {
        FnArg::Typed(parameter) => parameter,
        FnArg::Receiver(receiver) => {
            let this = receiver.self_token;
            return quote_spanned!(Span::mixed_site()=> let _ = &#this;);
        }
    };
    if matches!(*parameter.pat, Pat::Wild(_)) {
        let name = Ident::new(&format!("_ignored{position}"), Span::mixed_site());
        *parameter.pat = Pat::Verbatim(name.to_token_stream());
        return quote_spanned!(Span::mixed_site()=> let #name = #name;);
    }
    let mut bindings = Vec::new();
    take_bindings(&mut parameter.pat, &mut bindings);
    let attributes = &parameter.attrs;
    let moved = bindings.iter().map(|(mutability, name)| {
        let used = mentions.use_of(name);
        quote_spanned! {Span::mixed_site()=>
            #(#attributes)*
            #[allow(clippy::used_underscore_binding, clippy::no_effect_underscore_binding)]
            let #mutability #name = #name;
            #used
        }
    });
    moved.collect()
}

/// A `return` that never runs. It tells the compiler the type of the async block, so that `?` infers its error type and a
/// wrong value is reported in the user's code instead of the macro.
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

/// Replaces each `impl Trait` in a return type by `_`, because a `let` cannot name it.
fn erase_impl(output: &mut Type) {
    match output {
        Type::ImplTrait(opaque) => *output = Type::Verbatim(quote_spanned!(opaque.span()=> _)),
        Type::Path(path) => path.path.segments.iter_mut().for_each(|segment| erase_impl_in(&mut segment.arguments)),
        Type::Tuple(tuple) => tuple.elems.iter_mut().for_each(erase_impl),
        Type::Reference(reference) => erase_impl(&mut reference.elem),
        Type::Array(array) => erase_impl(&mut array.elem),
        Type::Paren(paren) => erase_impl(&mut paren.elem),
        Type::Group(group) => erase_impl(&mut group.elem),
        _ => {}
    }
}

fn erase_impl_in(arguments: &mut PathArguments) {
    let PathArguments::AngleBracketed(arguments) = arguments else { return };
    for argument in &mut arguments.args {
        if let GenericArgument::Type(argument) = argument {
            erase_impl(argument);
        }
    }
}
