//! The guard in front of a scoped body. Only this file knows the API of `gpucache`.
//!
//! All names that the macros introduce have the span `Span::mixed_site()`, which makes local variables hygienic.

use crate::ast::literal;
use crate::valid::{Name, Scope};
use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::Expr;
use syn::spanned::Spanned;

/// `let _guard = Scope::new(name).recycle(recycle).placement(placement).limit(bytes).enter();`. `name` is a `&str`, and `krate` the
/// path of `gpucache`.
pub(crate) fn enter(krate: &TokenStream, scope: &Scope, name: &TokenStream) -> TokenStream {
    bound(krate, scope, name, &quote_spanned!(Span::mixed_site()=> enter()))
}

/// The same for one poll of a future. `is_polled` names a variable that says whether the future was polled before.
pub(crate) fn enter_poll(
    krate: &TokenStream,
    scope: &Scope,
    name: &TokenStream,
    is_polled: &TokenStream,
) -> TokenStream {
    bound(krate, scope, name, &quote_spanned!(Span::mixed_site()=> enter_poll(&mut #is_polled)))
}

/// The guard has the span of the scope's name, so that errors about the guard point there.
fn bound(krate: &TokenStream, scope: &Scope, name: &TokenStream, enter: &TokenStream) -> TokenStream {
    let recycle = scope.recycle.iter();
    let placement = scope.placement.iter();
    let limit = scope.limit.iter().map(|value| limit(krate, value));
    let guard = Ident::new("_guard", Span::mixed_site().located_at(scope.name.span()));
    let rests = quote_spanned!(Span::mixed_site()=> #(.placement(#krate::offload::Placement::#placement))*);
    let terms = quote_spanned!(Span::mixed_site()=> #(.recycle(#krate::Recycle::#recycle))*#rests #(#limit)*);
    quote_spanned!(Span::mixed_site()=> let #guard = #krate::Scope::new(#name)#terms.#enter;)
}

/// The call that sets the limit. The compiler reads a literal text, and reports one that is no limit at that text.
fn limit(krate: &TokenStream, value: &Expr) -> TokenStream {
    let Some(text) = literal(value) else {
        return quote_spanned!(Span::mixed_site()=> .limit(#value));
    };
    let here = Span::mixed_site().located_at(text.span());
    let parsed = quote_spanned!(here=> #krate::__private::limit(#text));
    quote_spanned!(Span::mixed_site()=> .with_limit({ const LIMIT: #krate::Limit = #parsed; LIMIT }))
}

/// The name as a `&str`. If an expression does not implement `AsName`, the compiler reports it at that expression.
pub(crate) fn name(krate: &TokenStream, scope: &Scope) -> TokenStream {
    match &scope.name {
        Name::Text(text) => text.to_token_stream(),
        // `concat!` makes this a literal.
        Name::OfModule(end) => quote_spanned!(Span::mixed_site()=> ::core::concat!(::core::module_path!(), #end)),
        Name::Computed(value) => {
            let here = Span::mixed_site().located_at(value.span());
            quote_spanned!(here=> #krate::__private::AsName::as_name(&(#value)))
        }
    }
}

/// A block with the user's statements. Its braces have our span at the place of the user's braces. Otherwise lints would report
/// the user's block as needless.
pub(crate) fn block(here: Span, statements: TokenStream) -> TokenStream {
    let mut block = Group::new(Delimiter::Brace, statements);
    block.set_span(Span::mixed_site().located_at(here));
    TokenTree::from(block).into()
}
