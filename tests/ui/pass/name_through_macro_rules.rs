//! Names, values, visibilities, signatures and bodies that another macro passes on.
#![deny(warnings)]
use gpucache::prelude::*;

macro_rules! scoped {
    ($(#[$attribute:meta])* $visibility:vis fn $function:ident in $name:expr, $recycle:literal, $body:block) => {
        $(#[$attribute])*
        #[cache_scope(name = $name, recycle = $recycle)]
        $visibility fn $function() -> usize $body
    };
}

macro_rules! by_identifier {
    ($name:ident, $text:literal) => {
        #[cache_scope($name)]
        fn $name() -> usize {
            gpucache::cache_scope!($text, { 1 })
        }
    };
}

macro_rules! item {
    ($item:item) => {
        #[cache_scope(whole_item)]
        $item
    };
}

macro_rules! block {
    ($name:expr, $body:block) => {
        gpucache::cache_scope!(name = $name, $body)
    };
}

scoped! {
    /// Passed on.
    #[must_use]
    pub(crate) fn passed in "passed", "off", { 2 }
}
scoped!(fn computed in format!("passed{}", 1), "keyed", { 3 });
by_identifier!(by_identifier, "by literal");
item! {
    fn whole_item() -> usize { 4 }
}

pub(crate) fn main() {
    assert_eq!((passed(), computed(), by_identifier(), whole_item()), (2, 3, 1, 4));
    assert_eq!(block!("passed block", { 5 }), 5);
    for name in ["passed", "passed1", "by_identifier", "by literal", "whole_item", "passed block"] {
        assert_eq!(gpucache::stats(name).unwrap().entries, 1, "{name}");
    }
}
