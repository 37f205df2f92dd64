//! The memory of a device at its peak, with the holes between live arrays; and the arrays that are live at the end.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::bands::Bands;
use crate::lives::Life;
use crate::run::Event;

/// Shorter gaps come from rounding.
const SHORTEST_HOLE: u64 = 256;

/// The live arrays after an event, in groups: scope, dtype, shape, arrays, bytes and source line. The most bytes come first.
pub(super) fn holders(lives: &[&Life<'_>], at: usize) -> Vec<Value> {
    let mut groups: HashMap<_, (u64, u64)> = HashMap::new();
    for life in lives.iter().filter(|life| life.is_alive_after(at)) {
        let Event { scope, dtype, shape, site, .. } = life.allocation;
        let (arrays, bytes) = groups.entry((scope, dtype, shape, site)).or_default();
        *arrays += 1;
        *bytes = bytes.saturating_add(life.allocation.bytes);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_unstable_by_key(|(key, (_, bytes))| (u64::MAX - bytes, *key));
    let row =
        |((scope, dtype, shape, site), (arrays, bytes)): &(_, _)| json!([scope, dtype, shape, arrays, bytes, site]);
    groups.iter().map(row).collect()
}

/// The arrays that were not dropped before the trace ended, in the same groups.
pub(super) fn left(lives: &[&Life<'_>]) -> Vec<Value> {
    holders(lives, usize::MAX)
}

/// The holes between the live arrays after an event: address, place in the picture and bytes. The longest come first.
pub(super) fn holes(lives: &[&Life<'_>], bands: &Bands, at: usize) -> Vec<(u64, u64, u64)> {
    let alive = lives.iter().filter(|life| life.is_alive_after(at));
    let mut alive: Vec<(u64, u64)> = alive.map(|life| (life.allocation.address, life.end_address())).collect();
    alive.sort_unstable();
    let between = alive.windows(2).filter(|two| bands.find(two[0].0) == bands.find(two[1].0));
    let holes = between.map(|two| (two[0].1, bands.offset(two[0].1), two[1].0.saturating_sub(two[0].1)));
    let mut holes: Vec<_> = holes.filter(|hole| hole.2 >= SHORTEST_HOLE).collect();
    holes.sort_unstable_by_key(|hole| u64::MAX - hole.2);
    holes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lives::lives;
    use crate::run::tests::example;

    #[test]
    fn holders_are_those_who_are_alive_then() {
        let run = example();
        let all = lives(&run);
        let all: Vec<&Life<'_>> = all.iter().collect();
        let inner = json!(["inner", "f64", "262144", 1, 2_097_152, "src/main.rs:10:9"]);
        let outside = json!(["", "f32", "32x32", 1, 4096, "src/main.rs:3:9"]);
        let step = json!(["train, step", "u8", "1000", 1, 1000, "src/main.rs:8:9"]);
        assert_eq!(holders(&all, 4), [inner.clone(), outside.clone(), step]);
        assert_eq!(holders(&all, 7), [inner, outside.clone()]);
        assert_eq!(left(&all), [outside], "the trace has no free of it");
    }

    #[test]
    fn holes_lie_between_arrays_that_are_alive() {
        let mut run = example();
        run.events[0].address = 0x0070_0000 - 8192;
        run.events[2].address = 0x0070_0000 - 2048;
        let all = lives(&run);
        let bands = Bands::of(all.iter());
        let all: Vec<&Life<'_>> = all.iter().collect();
        let begin = 0x0070_0000 - 4096;
        assert_eq!(holes(&all, &bands, 4), [(begin, 4096, 2048), (begin + 3048, 7144, 1048)]);
        assert_eq!(holes(&all, &bands, 7), [(begin, 4096, 4096)]);
        assert_eq!(holes(&all, &bands, 9), []);
    }
}
