//! The name as an expression: over arguments, fields and constants, owned or borrowed.
#![deny(warnings)]
use gpucache::prelude::*;
use std::borrow::Cow;

const PREFIX: &str = "constant";

struct Layer {
    name: String,
}

impl Layer {
    #[cache_scope(name = self.name)]
    fn forward(&self) -> usize {
        self.name.len()
    }

    #[cache_scope(name = self.name)]
    fn consume(self) -> String {
        self.name
    }

    #[cache_scope(name = self.label(), recycle = "off")]
    fn backward(&mut self) {
        self.name.push('!');
    }

    fn label(&self) -> Cow<'_, str> {
        Cow::Borrowed("label")
    }
}

#[cache_scope(name = format!("layer{index}"))]
fn layer(index: usize) -> usize {
    index
}

#[cache_scope(name = name)]
fn borrowed(name: &str) {
    assert!(!name.is_empty());
}

#[cache_scope(recycle = "keyed", name = name)]
fn generic<N: AsRef<str>>(name: N) -> N {
    name
}

#[cache_scope(name = PREFIX)]
fn constant() {}

#[cache_scope(name = if wide { "wide" } else { "narrow" })]
fn chosen(wide: bool) {}

#[cache_scope(name = *text)]
fn unsized_place(text: &str) {}

pub(crate) fn main() {
    let mut own = Layer { name: "field".to_owned() };
    assert_eq!(own.forward(), 5);
    own.backward();
    assert_eq!(own.consume(), "field!");
    assert_eq!(layer(0) + layer(1) + layer(1), 2);
    borrowed("borrowed");
    assert_eq!(generic("generic".to_owned()), generic("generic"));
    constant();
    chosen(true);
    chosen(false);
    unsized_place("unsized");
    let step = 7;
    let value = gpucache::cache_scope!(name = format!("block{step}"), { step + 1 });
    assert_eq!(value, 8);

    let entries = |name| gpucache::stats(name).unwrap().entries;
    for name in ["field", "field!", "label", "layer0", "borrowed", "constant", "wide", "narrow", "unsized", "block7"] {
        assert_eq!(entries(name), 1, "{name}");
    }
    assert_eq!((entries("layer1"), entries("generic")), (2, 2));
}
