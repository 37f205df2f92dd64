//! What many arrays have in common, told once: who allocates them, and what they are.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::run::Event;

type Kind = (usize, usize, usize, usize, [u64; 4]);

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

    /// The number of the kind that an allocation is of.
    pub(super) fn kind(&mut self, event: &'r Event) -> usize {
        let [scope, site, dtype, shape] =
            [&event.scope, &event.site, &event.dtype, &event.shape].map(|text| self.texts.number(text));
        self.kinds.number((scope, site, dtype, shape, [event.bytes, event.stream, event.thread, event.device]))
    }

    /// The texts, and the kinds as columns of numbers of texts and of numbers.
    pub(super) fn json(&self) -> (Value, Value) {
        let text = |of: fn(&Kind) -> usize| self.kinds.values.iter().map(of).collect::<Vec<_>>();
        let number = |place: usize| self.kinds.values.iter().map(|kind| kind.4[place]).collect::<Vec<_>>();
        let kinds = json!({
            "scope": text(|kind| kind.0),
            "site": text(|kind| kind.1),
            "dtype": text(|kind| kind.2),
            "shape": text(|kind| kind.3),
            "bytes": number(0),
            "stream": number(1),
            "thread": number(2),
            "device": number(3),
        });
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
        assert_eq!(texts, json!(["", "f32", "32x32", "train, step", "src/main.rs:7:5", "u8", "1000"]));
        assert_eq!((&kinds["scope"], &kinds["bytes"]), (&json!([0, 3]), &json!([4096, 1000])));
    }
}
