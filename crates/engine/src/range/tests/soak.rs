//! Random operations for a long time. Each block's place is compared with all other live blocks:
//! `cargo test --release -p gpucache-engine soak -- --ignored`.
//!
//! The check keeps the live blocks in order of address. This is slow, and independent of the code that it checks.

use std::collections::BTreeMap;

use super::super::{ALIGN, Range, RangeBlock, RangeSpan, SpanState, Tag};
use super::device::Device;

const OPERATIONS: u64 = 100_000_000;

/// A generator of the xorshift family (Marsaglia, 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

struct Soak {
    range: Range<Device>,
    random: Random,
    blocks: Vec<RangeBlock>,
    alive: BTreeMap<u64, u64>,
    live: u64,
}

impl Soak {
    fn operation(&mut self, number: u64) {
        // Waves between 0 and 4000 blocks, so the range fills and empties repeatedly.
        let target = 4000 - (number / 50_000 % 9) * 500;
        let missing = target.saturating_sub(self.blocks.len() as u64).min(1024);
        if self.random.below(8192) < 4096 + missing && self.blocks.len() < 5000 {
            self.allocate();
        } else if !self.blocks.is_empty() {
            self.free();
        }
        if self.random.below(100_000) == 0 {
            self.range.trim(0, |_| true).unwrap();
        }
        assert_eq!(self.range.stats.live, self.live, "operation {number}");
    }

    fn allocate(&mut self) {
        let magnitude = self.random.below(24);
        let bytes = 1 + self.random.below(1 << magnitude);
        let block = self.range.allocate(bytes).unwrap();
        let (offset, bytes) = (block.offset(), bytes.next_multiple_of(ALIGN));
        let below = self.alive.range(..offset + bytes).next_back().map_or(0, |(start, bytes)| start + bytes);
        assert!(below <= offset && offset.is_multiple_of(ALIGN), "{bytes} bytes at {offset}");
        self.alive.insert(offset, bytes);
        self.live += bytes;
        self.blocks.push(block);
    }

    fn free(&mut self) {
        let place = self.random.below(self.blocks.len() as u64) as usize;
        let block = self.blocks.swap_remove(place);
        let bytes = self.alive.remove(&block.offset()).unwrap();
        assert_eq!(self.range.free(block, Tag::NOBODY), bytes);
        self.live -= bytes;
    }

    /// Checks that spans cover the addresses and that no two free ones are neighbours. (Chunks may lie side by side.)
    fn check(&self, chunks: bool) {
        let mut spans: Vec<RangeSpan> = self.range.spans().collect();
        spans.sort_by_key(|span| span.offset);
        for pair in spans.windows(2) {
            let (left, right) = (pair[0], pair[1]);
            let apart = left.state == SpanState::Live || left.state != right.state || chunks;
            let tiled = left.end() == right.offset || chunks && left.end() < right.offset;
            assert!(tiled && apart, "{left:?} beside {right:?}");
        }
    }
}

fn soak(range: Range<Device>, chunks: bool) {
    let (random, blocks, alive) = (Random(0x9E37_79B9_7F4A_7C15), Vec::new(), BTreeMap::new());
    let mut soak = Soak { range, random, blocks, alive, live: 0 };
    for number in 1..=OPERATIONS {
        soak.operation(number);
        if number % 1_000_000 == 0 {
            soak.check(chunks);
        }
    }
}

fn device() -> Device {
    Device { granule: 64 << 10, ..Device::new(1 << 46) }
}

#[test]
#[ignore = "half a minute in release mode"]
fn soak_of_a_span() {
    soak(Range::span(device(), 1 << 46), false);
}

#[test]
#[ignore = "half a minute in release mode"]
fn soak_of_chunks() {
    soak(Range::chunks(device()), true);
}
