//! Properties, against the naive model, after every one of random allocations, frees and trims:
//!
//! 1. no two blocks overlap, all are aligned, pages are mapped behind every byte of them;
//! 2. what mapped memory can serve is served from the best fit, and without a call;
//! 3. otherwise the fewest possible granules are mapped, a growth step aside;
//! 4. trimming gives back exactly the handles in which no block lies;
//! 5. free neighbours are merged, counters are right;
//! 6. slots of nodes are used again.

use proptest::prelude::*;

use super::super::{ALIGN, Block, Range, RangeError, Tag};
use super::device::{Device, GRANULE, Refusal};
use super::model::{CAPACITY, Kind, Model};

#[derive(Clone, Debug)]
pub(super) enum Op {
    Allocate(u64),
    /// Free the block of this rank among those alive, modulo their number.
    Free(usize),
    Trim,
}

pub(super) fn ops() -> impl Strategy<Value = Vec<Op>> {
    let bytes = prop_oneof![
        8 => 1..=4 * ALIGN,
        6 => 1..=6 * GRANULE,
        2 => 1..=CAPACITY,
        1 => Just(0),
        1 => CAPACITY - ALIGN..=CAPACITY + ALIGN,
        1 => u64::MAX - 2 * GRANULE..=u64::MAX,
    ];
    let op =
        prop_oneof![10 => bytes.prop_map(Op::Allocate), 9 => any::<usize>().prop_map(Op::Free), 1 => Just(Op::Trim)];
    prop::collection::vec(op, 1..120)
}

pub(super) fn range(kind: Kind, memory: u64) -> Range<Device> {
    over(kind, Device::new(memory))
}

pub(super) fn over(kind: Kind, device: Device) -> Range<Device> {
    match kind {
        Kind::Span => Range::span(device, CAPACITY + ALIGN / 2),
        Kind::Chunks => Range::chunks(device),
    }
}

/// Granules of a test: with the small one, growth steps and handles are of several.
pub(super) fn granules() -> impl Strategy<Value = u64> {
    prop_oneof![Just(GRANULE), Just(ALIGN)]
}

/// A range, its model and the blocks that are out.
struct Pair {
    range: Range<Device>,
    model: Model,
    blocks: Vec<Block>,
}

impl Pair {
    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Allocate(bytes) => self.allocate(bytes),
            Op::Free(rank) if !self.blocks.is_empty() => self.free(rank % self.blocks.len()),
            Op::Free(_) => {}
            Op::Trim => self.trim(),
        }
        self.model.check(&self.range);
    }

    fn allocate(&mut self, bytes: u64) {
        let before = self.range.pages().clone();
        let rounded = bytes.max(1).checked_next_multiple_of(ALIGN);
        let best = rounded.and_then(|bytes| self.model.best_fit(&before, bytes));
        let least = rounded.and_then(|bytes| self.model.least_missing(&before, bytes));
        let got = self.range.allocate(bytes);
        let after = self.range.pages();
        if let Some(offset) = best {
            assert_eq!(got.as_ref().map(Block::offset), Ok(offset), "best fit for {bytes} bytes");
            assert_eq!(after.calls, before.calls, "a call though mapped memory fits");
        } else if self.model.kind == Kind::Span {
            self.expect_growth(bytes, &got, least, &before);
        } else if let Err(error) = &got {
            let rounded = bytes
                .max(1)
                .checked_next_multiple_of(before.granule)
                .filter(|&bytes| bytes <= before.memory - before.used());
            assert_eq!(rounded, None, "{error:?}");
        }
        if let (Ok(block), Some(rounded)) = (got, rounded) {
            assert_eq!(self.range.fit.bytes(&block), Some(rounded));
            self.model.take(self.range.pages(), block.offset(), rounded);
            self.blocks.push(block);
        }
    }

    fn expect_growth(&self, bytes: u64, got: &Result<Block, RangeError<Refusal>>, least: Option<u64>, before: &Device) {
        let mapped = self.range.pages().used() - before.used();
        match (got, least) {
            (Ok(_), Some(least)) => {
                let high_water = self.range.stats().peak_live;
                assert!(least <= mapped && mapped <= least.max(high_water / 128), "{mapped} for {least} missing");
            }
            (Err(error), None) => assert_eq!(*error, RangeError::Exhausted { bytes }),
            (Err(error), Some(least)) => {
                assert_eq!(*error, RangeError::Pages(Refusal::Full));
                assert!(before.used() + least > before.memory && mapped == 0);
            }
            (Ok(_), None) => panic!("{bytes} bytes fit nowhere"),
        }
    }

    fn free(&mut self, rank: usize) {
        let block = self.blocks.swap_remove(rank);
        let place = self.model.live.iter().position(|live| live.0 == block.offset()).unwrap();
        assert_eq!(self.range.free(block, Tag::NOBODY), self.model.live.swap_remove(place).1);
    }

    fn trim(&mut self) {
        let idle = self.model.idle_handles(self.range.pages());
        assert_eq!(self.range.trim(0), Ok(idle));
        assert_eq!(self.model.idle_handles(self.range.pages()), 0);
        self.model.trimmed();
    }
}

fn agree(kind: Kind, memory: u64, granule: u64, ops: &[Op]) {
    let device = Device { granule, ..Device::new(memory) };
    let mut pair = Pair { range: over(kind, device), model: Model::new(kind), blocks: Vec::new() };
    ops.iter().for_each(|op| pair.apply(op));
    while !pair.blocks.is_empty() {
        pair.free(0);
        pair.model.check(&pair.range);
    }
    pair.trim();
    assert_eq!(pair.range.stats().reserved, 0, "everything is free, so everything comes back");
    assert!(pair.range.fit.spans.slots() <= 4 * ops.len() as u32 + 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_span_agrees_with_the_model(ops in ops(), granule in granules(), memory in 8..=64_u64) {
        agree(Kind::Span, memory * GRANULE, granule, &ops);
    }

    #[test]
    fn chunks_agree_with_the_model(ops in ops(), granule in granules(), memory in 8..=64_u64) {
        agree(Kind::Chunks, memory * GRANULE, granule, &ops);
    }
}
