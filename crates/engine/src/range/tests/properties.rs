//! Properties that are checked against the simple model after each of random allocations, frees, trims, gathers and splits:
//!
//! 1. No two blocks overlap. All are aligned, and all their bytes have pages.
//! 2. If mapped memory can serve a request, the best fit serves it, without a call.
//! 3. Otherwise the fewest possible granules are mapped, except for a growth step.
//! 4. A trim returns exactly the handles that contain no block, as far as its limit allows.
//! 5. Free neighbours are merged, and counters are right.
//! 6. Slots of nodes are used again.
//! 7. A gather serves a request if it can do so within its limit. It unmaps no more than necessary, and waits only if necessary. If it
//!    cannot serve the request, it changes nothing.
//! 8. A split leaves the first valid pieces and frees the rest.

use proptest::prelude::*;

use super::super::{ALIGN, Backing, Cut, GatherLimit, Range, RangeBlock, RangeError, Tag};
use super::device::{Device, GRANULE, Refusal};
use super::model::{CAPACITY, Model};

/// Pieces of a block. Each is given by the gap before it, in units of [`ALIGN`], and its bytes.
pub(super) type Cuts = Vec<(u64, u64)>;
const CUTS: usize = 6;

#[derive(Clone, Debug)]
pub(super) enum Op {
    Allocate(u64),
    /// Frees the block of this rank among the live ones, modulo their number.
    Free(usize),
    /// Trims down to this many bytes.
    Trim(u64),
    /// The bytes, the aim of reserved bytes, and how many more may be reserved.
    Gather(u64, u64, u64),
    /// Divides a block.
    Split(usize, Cuts),
}

pub(super) fn ops() -> impl Strategy<Value = Vec<Op>> {
    let bytes = || {
        prop_oneof![
            8 => 1..=4 * ALIGN,
            6 => 1..=6 * GRANULE,
            2 => 1..=CAPACITY,
            1 => Just(0),
            1 => CAPACITY - ALIGN..=CAPACITY + ALIGN,
            1 => u64::MAX - 2 * GRANULE..=u64::MAX,
        ]
    };
    let large = prop_oneof![6 => 1..=CAPACITY / 2, 2 => bytes()];
    let keep = prop_oneof![2 => Just(0), 1 => 0..=CAPACITY];
    let more = prop_oneof![2 => Just(0), 1 => 0..=CAPACITY];
    let op = prop_oneof![
        10 => bytes().prop_map(Op::Allocate),
        9 => any::<usize>().prop_map(Op::Free),
        1 => keep.prop_map(Op::Trim),
        3 => (large, 0..=CAPACITY, more).prop_map(|(bytes, aim, more)| Op::Gather(bytes, aim, more)),
        2 => (any::<usize>(), cuts()).prop_map(|(rank, cuts)| Op::Split(rank, cuts)),
    ];
    prop::collection::vec(op, 1..120)
}

pub(super) fn cuts() -> impl Strategy<Value = Cuts> {
    let bytes = prop_oneof![8 => 0..=4 * ALIGN, 4 => 0..=2 * GRANULE, 1 => u64::MAX - ALIGN..=u64::MAX];
    prop::collection::vec((prop_oneof![Just(0), 0..=8_u64], bytes), 0..=CUTS)
}

/// The pieces that these cuts make of a block. They may lie outside of it.
pub(super) fn pieces(cuts: &Cuts) -> Vec<(u64, u64)> {
    let mut at = 0_u64;
    let place = |&(gap, bytes): &(u64, u64)| {
        let offset = at.saturating_add(gap * ALIGN) / ALIGN * ALIGN;
        at = offset.saturating_add(bytes.max(1)).checked_next_multiple_of(ALIGN).unwrap_or(u64::MAX);
        (offset, bytes)
    };
    cuts.iter().map(place).collect()
}

pub(super) fn range(backing: Backing, memory: u64) -> Range<Device> {
    over(backing, Device::new(memory))
}

pub(super) fn over(backing: Backing, device: Device) -> Range<Device> {
    match backing {
        Backing::Span => Range::span(device, CAPACITY + ALIGN / 2),
        Backing::Chunks => Range::chunks(device),
    }
}

/// Granules of a test. With the small one, growth steps have several granules.
pub(super) fn granules() -> impl Strategy<Value = u64> {
    prop_oneof![Just(GRANULE), Just(ALIGN)]
}

/// A range, its model and the live blocks.
struct Pair {
    range: Range<Device>,
    model: Model,
    blocks: Vec<RangeBlock>,
}

impl Pair {
    fn apply(&mut self, op: &Op) {
        let (pinned, alive) = (self.model.pinned, self.blocks.len());
        match *op {
            Op::Allocate(bytes) => self.allocate(bytes),
            Op::Free(rank) if alive > 0 => self.free(rank % alive),
            Op::Split(rank, ref cuts) if alive > 0 => self.split(rank % alive, &pieces(cuts)),
            Op::Free(_) | Op::Split(..) => {}
            Op::Trim(0) => self.trim(0),
            Op::Trim(keep) => self.trim(pinned + keep),
            Op::Gather(bytes, aim, more) => {
                let memory = self.range.pages.memory;
                let limit = GatherLimit {
                    aim: (pinned + aim).min(memory),
                    most: (pinned + aim + more).min(memory),
                    cut: Cut::Never,
                };
                self.gather(bytes, limit);
            }
        }
        self.model.check(&self.range);
    }

    fn allocate(&mut self, bytes: u64) {
        let before = self.range.pages.clone();
        let rounded = bytes.max(1).checked_next_multiple_of(ALIGN);
        let best = rounded.and_then(|bytes| self.model.best_fit(&before, bytes));
        let least = rounded.and_then(|bytes| self.model.least_missing(&before, bytes));
        let got = self.range.allocate(bytes);
        let after = &self.range.pages;
        if let Some(offset) = best {
            assert_eq!(got.as_ref().map(RangeBlock::offset), Ok(offset), "best fit for {bytes} bytes");
            assert_eq!(after.calls, before.calls, "a call though mapped memory fits");
        } else if self.model.backing == Backing::Span {
            self.expect_growth(bytes, &got, least, &before);
        } else if let Err(error) = &got {
            let rounded = bytes
                .max(1)
                .checked_next_multiple_of(before.granule)
                .filter(|&bytes| bytes <= before.memory - before.used());
            assert_eq!(rounded, None, "{error:?}");
        }
        if let Ok(block) = got {
            self.take(block, bytes);
        }
    }

    /// Adds a block that was requested with `bytes`.
    fn take(&mut self, block: RangeBlock, bytes: u64) {
        let rounded = bytes.max(1).next_multiple_of(ALIGN);
        assert_eq!(self.range.fit.bytes(&block), Some(rounded));
        self.model.take(&self.range.pages, block.offset(), rounded);
        self.blocks.push(block);
    }

    fn expect_growth(
        &self,
        bytes: u64,
        got: &Result<RangeBlock, Option<RangeError<Refusal>>>,
        least: Option<u64>,
        before: &Device,
    ) {
        let mapped = self.range.pages.used() - before.used();
        match (got, least) {
            (Ok(_), Some(least)) => {
                let high_water = self.range.stats.peak_live;
                assert!(least <= mapped && mapped <= least.max(high_water / 128), "{mapped} for {least} missing");
            }
            (Err(error), None) => assert_eq!(*error, None),
            (Err(error), Some(least)) => {
                assert_eq!(*error, Some(RangeError::Pages(Refusal::Full)));
                assert!(before.used() + least > before.memory && mapped == 0);
            }
            (Ok(_), None) => panic!("{bytes} bytes fit nowhere"),
        }
    }

    fn gather(&mut self, bytes: u64, limit: GatherLimit) {
        let before = self.range.pages.clone();
        let rounded = bytes.max(1).checked_next_multiple_of(ALIGN);
        let best = rounded.and_then(|bytes| self.model.best_fit(&before, bytes));
        let exchanges = rounded.map_or(Vec::new(), |bytes| self.model.exchanges(&before, bytes));
        let beyond = |bytes: u64, missing: u64| missing.saturating_sub(bytes.saturating_sub(before.used()));
        let serves = |&(missing, idle): &(u64, u64)| beyond(limit.most, missing) <= idle;
        let got = self.range.gather(bytes, limit, |_| true, |_| true).unwrap();
        let after = &self.range.pages;
        match &got {
            Some(block) if best.is_some() => assert_eq!((Some(block.offset()), after.calls), (best, before.calls)),
            Some(_) => {
                assert!(exchanges.iter().any(serves), "{bytes} under {limit:?}");
                assert!(after.used() <= limit.most.max(before.used()), "{} under {limit:?}", after.used());
                let lacks = exchanges.iter().any(|&(missing, idle)| beyond(limit.aim, missing) > idle);
                assert!(lacks || after.used() <= limit.aim.max(before.used()), "{} under {limit:?}", after.used());
                let needs = exchanges.iter().map(|&(missing, idle)| beyond(limit.aim, missing).min(idle)).max();
                expect_few_unmapped(&before, after, needs.unwrap_or(0));
            }
            None => {
                assert!(best.is_none() && (exchanges.is_empty() || !exchanges.iter().all(serves)));
                assert_eq!(after.calls, before.calls);
            }
        }
        if let Some(block) = got {
            self.take(block, bytes);
        }
    }

    fn split(&mut self, rank: usize, pieces: &[(u64, u64)]) {
        let block = self.blocks.swap_remove(rank);
        let (start, bytes) = self.model.release(block.offset());
        let rounded = |bytes: u64| bytes.max(1).checked_next_multiple_of(ALIGN);
        let lies_within = |&(offset, length): &(u64, u64)| {
            rounded(length).and_then(|length| offset.checked_add(length)).is_some_and(|end| end <= bytes)
        };
        let valid = pieces.iter().take_while(|piece| lies_within(piece)).count();
        let calls = self.range.pages.calls;
        let blocks = self.range.split(block, pieces, Tag::NOBODY);
        assert_eq!((blocks.len(), self.range.pages.calls), (valid, calls));
        for (block, &(offset, bytes)) in blocks.into_iter().zip(pieces) {
            assert_eq!(block.offset(), start + offset);
            self.take(block, bytes);
        }
    }

    fn free(&mut self, rank: usize) {
        let block = self.blocks.swap_remove(rank);
        let (_, bytes) = self.model.release(block.offset());
        assert_eq!(self.range.free(block, Tag::NOBODY), bytes);
    }

    fn trim(&mut self, keep: u64) {
        let (idle, used) = (self.model.idle_bytes(&self.range.pages), self.range.pages.used());
        let trimmed = self.range.trim(keep, |_| true).unwrap();
        let left = self.range.pages.used();
        let shortest = self.model.idle_handles(&self.range.pages).map(|handle| handle.1).min();
        assert_eq!((trimmed, trimmed <= idle), (used - left, true));
        assert!(left >= keep.min(used), "{left} left of {used} to keep {keep}");
        assert!(shortest.is_none_or(|bytes| left - bytes < keep), "{left} left to keep {keep}");
        self.model.trimmed(keep);
    }
}

/// Checks that only as many handles were unmapped as make `need` bytes. The last one may exceed it.
fn expect_few_unmapped(before: &Device, after: &Device, need: u64) {
    let is_gone = |(offset, bytes): &(&u64, &u64)| after.mapped.get(offset) != Some(bytes);
    let gone: Vec<u64> = before.mapped.iter().filter(is_gone).map(|(_, &bytes)| bytes).collect();
    let shortest = gone.iter().min().copied().unwrap_or(0);
    let sum: u64 = gone.iter().sum();
    assert!(sum == 0 || sum - shortest < need, "{gone:?} unmapped for {need}");
}

fn agree(backing: Backing, pinned: u64, device: Device, ops: &[Op]) {
    let range = match pinned {
        0 => over(backing, device),
        pinned => Range::span(device, pinned + CAPACITY),
    };
    let mut pair = Pair { range, model: Model::new(backing, pinned), blocks: Vec::new() };
    let first = (pinned > 0).then(|| pair.range.allocate(pinned).unwrap());
    pair.model.live.extend(first.as_ref().map(|block| (block.offset(), pinned)));
    (pair.model.peak_live, pair.model.peak_reserved) = (pinned, pinned);
    ops.iter().for_each(|op| pair.apply(op));
    while !pair.blocks.is_empty() {
        pair.free(0);
        pair.model.check(&pair.range);
    }
    first.map(|block| pair.range.free(block, Tag::NOBODY));
    pair.range.trim(0, |_| true).unwrap();
    assert_eq!(pair.range.stats.reserved, 0, "everything is free, so everything comes back");
    assert!(pair.range.fit.spans.slots() as usize <= (4 + 2 * CUTS) * ops.len() + 3);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_span_agrees_with_the_model(ops in ops(), granule in granules(), memory in 8..=64_u64) {
        agree(Backing::Span, 0, Device { granule, ..Device::new(memory * GRANULE) }, &ops);
    }

    #[test]
    fn chunks_agree_with_the_model(ops in ops(), granule in granules(), memory in 8..=64_u64) {
        agree(Backing::Chunks, 0, Device { granule, ..Device::new(memory * GRANULE) }, &ops);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// So much memory stays live that a handle has 4 granules, and a step 32.
    #[test]
    fn a_span_with_long_handles_agrees_with_the_model(ops in ops(), memory in 8..=64_u64) {
        let pinned = 4096 * ALIGN;
        agree(Backing::Span, pinned, Device { granule: ALIGN, ..Device::new(pinned + memory * GRANULE) }, &ops);
    }
}
