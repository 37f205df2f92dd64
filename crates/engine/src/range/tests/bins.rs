//! The index by size alone. It must give the same answer as a search of all spans, with many spans in one class and with few.

use proptest::prelude::*;

use super::super::ALIGN;
use super::super::bins::Bins;
use super::super::spans::{SpanState, Spans};

/// The index, and a list of the same spans by (bytes, offset, node).
struct Pair {
    spans: Spans,
    bins: Bins,
    all: Vec<(u64, u64, u32)>,
}

impl Pair {
    fn insert(&mut self, units: u64) {
        let (offset, bytes) = (self.spans.slots() as u64 * 977 % 1009 * ALIGN, units * ALIGN);
        let id = self.spans.alone(offset, bytes, SpanState::Free);
        self.bins.insert(&mut self.spans, id);
        self.all.push((bytes, offset, id));
    }

    fn remove(&mut self, rank: usize) {
        if !self.all.is_empty() {
            let (_, _, id) = self.all.swap_remove(rank % self.all.len());
            self.bins.remove(&mut self.spans, id);
        }
    }

    fn agree(&self, bytes: u64) {
        let expected = self.all.iter().filter(|span| span.0 >= bytes).min().map(|span| span.2);
        assert_eq!(self.bins.next(&self.spans, (bytes, 0)), expected, "{bytes} bytes");
    }
}

fn units() -> impl Strategy<Value = u64> {
    prop_oneof![
        1..=4_u64,
        120..=140_u64,
        1..=5000_u64,
        (0..56_u32, 0..256_u64).prop_map(|(shift, low)| (1 << shift) + low % (1 << shift))
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn finds_what_a_search_of_all_finds(ops in prop::collection::vec((units(), any::<usize>(), 0..5_u8), 1..300)) {
        let mut pair = Pair { spans: Spans::new(0), bins: Bins::new(), all: Vec::new() };
        for (units, rank, op) in ops {
            if op < 3 { pair.insert(units) } else { pair.remove(rank) }
            pair.agree(units * ALIGN);
            pair.all.iter().step_by(7).for_each(|span| pair.agree(span.0));
        }
    }
}
