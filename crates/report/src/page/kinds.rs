//! Kinds of arrays. Arrays of one kind have the same scope, source line, type and shape, which the page stores once.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::run::Event;

/// The numbers of the texts in [`TEXTS`], and the values in [`NUMBERS`].
type Kind = ([usize; TEXTS.len()], [u64; 4]);

const TEXTS: [&str; 6] = ["scope", "site", "scope_site", "dtype", "shape", "stack"];
const NUMBERS: [&str; 4] = ["bytes", "stream", "thread", "device"];

/// Numbers for kinds, and for the texts in them.
#[derive(Debug, Default)]
pub(super) struct Kinds<'r> {
    texts: Numbered<&'r str>,
    kinds: Numbered<Kind>,
}

/// Values by their numbers, which count from 0.
#[derive(Debug)]
struct Numbered<T> {
    values: Vec<T>,
    numbers: HashMap<T, usize>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Numbered { values: Vec::new(), numbers: HashMap::new() }
    }
}

impl<T: Copy + Eq + std::hash::Hash> Numbered<T> {
    fn number(&mut self, value: T) -> usize {
        *self.numbers.entry(value).or_insert_with(|| {
            self.values.push(value);
            self.values.len() - 1
        })
    }
}

impl<'r> Kinds<'r> {
    /// The number of a text.
    pub(super) fn text(&mut self, text: &'r str) -> usize {
        self.texts.number(text)
    }

    /// The number of the kind of an allocation.
    pub(super) fn kind(&mut self, event: &'r Event) -> usize {
        let Event { scope, site, scope_site, dtype, shape, stack, .. } = event;
        let texts = [scope, site, scope_site, dtype, shape, stack].map(|text| self.texts.number(text));
        self.kinds.number((texts, [event.bytes, event.stream, event.thread, event.device]))
    }

    /// The texts, and the kinds as columns.
    pub(super) fn json(&self) -> (Value, Value) {
        let column = |name: &str, of: &dyn Fn(&Kind) -> u64| {
            (name.to_owned(), self.kinds.values.iter().map(of).collect::<Vec<_>>().into())
        };
        let texts = TEXTS.iter().enumerate().map(|(place, name)| column(name, &|kind| kind.0[place] as u64));
        let numbers = NUMBERS.iter().enumerate().map(|(place, name)| column(name, &|kind| kind.1[place]));
        let kinds = Value::Object(texts.chain(numbers).collect());
        (json!(self.texts.values), kinds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::example;

    #[test]
    fn what_is_alike_is_told_once() {
        let mut run = example();
        run.events[4] = run.events[2].clone();
        run.events[4].address += 4096;
        let mut kinds = Kinds::default();
        assert_eq!([0, 2, 4].map(|place| kinds.kind(&run.events[place])), [0, 1, 1]);
        let (texts, kinds) = kinds.json();
        assert_eq!(
            texts,
            json!([
                "",
                "src/main.rs:3:9",
                "f32",
                "32x32",
                "train, step",
                "src/main.rs:8:9",
                "src/main.rs:7:5",
                "u8",
                "1000",
                "layer at src/main.rs:8:9\nmain",
            ])
        );
        assert_eq!(
            (&kinds["scope"], &kinds["site"], &kinds["bytes"]),
            (&json!([0, 4]), &json!([1, 5]), &json!([4096, 1000]))
        );
    }
}
