//! The figures of each scope: entries, arrays, the parts that served them, and the peak of live memory.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::lives::Life;
use crate::run::{Op, Run};

/// The parts that serve arrays, by the words of the file, in the order of the page's columns.
pub(super) const SERVED: [&str; 4] = ["plan", "list", "range", "device"];

#[derive(Debug, Default)]
struct Scope<'r> {
    site: &'r str,
    entries: u64,
    arrays: u64,
    bytes: u64,
    served: [u64; SERVED.len()],
    live: u64,
    peak: u64,
}

/// The number of the part that served an array; that of the device for an unknown word.
pub(super) fn served(word: &str) -> usize {
    SERVED.iter().position(|other| *other == word).unwrap_or(SERVED.len() - 1)
}

/// A row for each scope, and one without a name for arrays outside scopes: name, source line, entries, arrays, bytes, arrays by the part
/// that served them, and the peak of live bytes. The highest peaks come first.
pub(super) fn rows(run: &Run, lives: &[Life<'_>]) -> Vec<Value> {
    let mut scopes: HashMap<&str, Scope<'_>> = HashMap::new();
    let owners: HashMap<u64, &Life<'_>> = lives.iter().map(|life| (life.allocation.id, life)).collect();
    for event in &run.events {
        let scope = match (event.op, owners.get(&event.id)) {
            (Op::Free, Some(life)) => scopes.entry(&life.allocation.scope).or_default(),
            (Op::Enter | Op::Allocate, _) => scopes.entry(&event.scope).or_default(),
            _ => continue,
        };
        match event.op {
            Op::Enter => scope.entries += 1,
            Op::Free => scope.live = scope.live.saturating_sub(event.bytes),
            _ => {
                scope.arrays += 1;
                scope.bytes = scope.bytes.saturating_add(event.bytes);
                scope.served[served(&event.served)] += 1;
                scope.live = scope.live.saturating_add(event.bytes);
            }
        }
        scope.peak = scope.peak.max(scope.live);
        scope.site = if scope.site.is_empty() && event.op != Op::Free { &event.scope_site } else { scope.site };
    }
    let mut rows: Vec<_> = scopes.into_iter().collect();
    rows.sort_unstable_by_key(|(name, scope)| (u64::MAX - scope.peak, *name));
    let row = |(name, scope): &(&str, Scope<'_>)| {
        let Scope { site, entries, arrays, bytes, served, peak, .. } = scope;
        json!([name, site, entries, arrays, bytes, served, peak])
    };
    rows.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lives::lives;
    use crate::run::tests::example;

    #[test]
    fn each_scope_has_a_row() {
        let run = example();
        let inner = json!(["inner", "src/main.rs:9:9", 1, 1, 2_097_152, [0, 0, 1, 0], 2_097_152]);
        let outside = json!(["", "", 0, 1, 4096, [0, 0, 0, 1], 4096]);
        let step = json!(["train, step", "src/main.rs:7:5", 1, 1, 1000, [1, 0, 0, 0], 1000]);
        assert_eq!(rows(&run, &lives(&run)), [inner, outside, step]);
    }
}
