//! A `#[test]` that replaces the compiler's. With `#[macro_use] extern crate` at a crate's root it applies in all modules of
//! the crate, and in code that macros of other crates generate there. So the sources of the tests stay unchanged.

use proc_macro::TokenStream;
use quote::quote;
use syn::{ItemFn, parse_macro_input, parse_quote};

/// The compiler's `#[test]` on a function that passes the original body, as a function, to the crate's `rounds` with the test's name.
#[proc_macro_attribute]
pub fn test(_arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut test = parse_macro_input!(item as ItemFn);
    let (name, output, block) = (&test.sig.ident, &test.sig.output, &test.block);
    test.block = parse_quote!({
        fn body() #output #block
        crate::rounds(concat!(module_path!(), "::", stringify!(#name)), body)
    });
    quote!(#[::core::prelude::v1::test] #test).into()
}
