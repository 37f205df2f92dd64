//! A `#[test]` in place of the compiler's. With `#[macro_use] extern crate` at a crate's root it is the one that all modules of
//! the crate mean, and what macros of other crates expand to in them, so that no test's source is touched.

use proc_macro::TokenStream;
use quote::quote;
use syn::{ItemFn, parse_macro_input, parse_quote};

/// The compiler's `#[test]`, whose body becomes a function of its own that goes to the crate's `rounds` with the test's name.
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
