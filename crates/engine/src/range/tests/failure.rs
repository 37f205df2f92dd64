//! Failure injection: calls of the device fail, one at a time, and each together with the one or two after it.
//!
//! 1. A failed allocation leaves spans and sizes as they were. So does a gather that failed before it unmapped anything.
//! 2. A failed trim keeps the memory that it could not return, and everything still agrees with the device.
//! 3. No gather reserves more than its limit or touches a block, whether it failed or not.
//! 4. After any failure the range still serves requests and can return everything.

use proptest::prelude::*;

use super::super::{Backing, Cut, GatherLimit, Range, RangeBlock, RangeSpan, SpanState, Stats, Tag};
use super::device::{Device, GRANULE};
use super::model::{CAPACITY, by_address};
use super::properties::{Op, granules, ops, over, pieces};

/// The most calls that fail in one case.
const MOST: usize = 24;

/// Everything about a range that a failed allocation must not change.
pub(super) fn picture(range: &Range<Device>) -> (Vec<RangeSpan>, Stats, Vec<(u64, u64)>) {
    let stats = Stats { map_calls: 0, unmap_calls: 0, peak_reserved: 0, ..range.stats };
    let mapped = range.pages.mapped.iter().map(|(offset, bytes)| (*offset, *bytes)).collect();
    (by_address(range), stats, mapped)
}

/// Checks that the range's sizes and states are those of the device.
pub(super) fn consistent(range: &Range<Device>) {
    assert_eq!(range.stats.reserved, range.pages.used());
    let mut backed = 0;
    for span in by_address(range).into_iter().filter(|span| span.state != SpanState::Hole) {
        assert!(range.pages.backs(span.offset, span.bytes), "{span:?}");
        backed += span.bytes;
    }
    assert_eq!(backed, range.stats.reserved);
}

fn live(spans: &[RangeSpan]) -> Vec<RangeSpan> {
    spans.iter().filter(|span| span.state == SpanState::Live).copied().collect()
}

/// Runs `ops`, in which the calls of `fails` fail. Returns how many calls were made.
fn run(backing: Backing, granule: u64, ops: &[Op], fails: std::ops::Range<u64>) -> u64 {
    let mut range = over(backing, Device { granule, ..Device::new(CAPACITY) });
    let can_roll_back = fails.end.saturating_sub(fails.start) <= 1;
    range.pages.fails = fails;
    let mut blocks: Vec<RangeBlock> = Vec::new();
    for op in ops {
        let (before, unmaps) = (picture(&range), range.stats.unmap_calls);
        match *op {
            Op::Allocate(bytes) => match range.allocate(bytes) {
                Ok(block) => blocks.push(block),
                Err(_) if can_roll_back => assert_eq!(picture(&range), before),
                Err(_) => {}
            },
            Op::Gather(bytes, aim, more) => {
                match range.gather(bytes, GatherLimit { aim, most: aim + more, cut: Cut::IfIdle }, |_| true, |_| true) {
                    Ok(Some(block)) => blocks.push(block),
                    Ok(None) => assert_eq!(picture(&range), before),
                    Err(_) => {
                        assert_eq!(live(&by_address(&range)), live(&before.0));
                        assert!(!can_roll_back || range.stats.unmap_calls > unmaps || picture(&range) == before);
                    }
                }
            }
            Op::Free(rank) if !blocks.is_empty() => {
                let block = blocks.swap_remove(rank % blocks.len());
                assert!(range.free(block, Tag::NOBODY) > 0);
            }
            Op::Split(rank, ref cuts) if !blocks.is_empty() => {
                let block = blocks.swap_remove(rank % blocks.len());
                blocks.extend(range.split(block, &pieces(cuts), Tag::NOBODY));
            }
            Op::Free(_) | Op::Split(..) => {}
            Op::Trim(keep) => {
                let trimmed = range.trim(keep, |_| true);
                let less = before.1.reserved - range.pages.used();
                assert!(trimmed.is_ok_and(|bytes| bytes == less) || range.pages.calls > range.pages.fails.start);
            }
        }
        if let Op::Gather(_, aim, more) = *op {
            let limit = aim + more;
            assert!(range.stats.reserved <= limit.max(before.1.reserved));
        }
        consistent(&range);
    }
    let calls = range.pages.calls;
    range.pages.fails = 0..0;
    blocks.into_iter().for_each(|block| assert!(range.free(block, Tag::NOBODY) > 0));
    range.trim(0, |_| true).unwrap();
    assert_eq!((range.stats.live, range.pages.used()), (0, 0));
    calls
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_call_may_fail(ops in ops(), granule in granules(), chunks in any::<bool>()) {
        let backing = if chunks { Backing::Chunks } else { Backing::Span };
        let calls = run(backing, granule, &ops, 0..0) as usize;
        // If there are few calls, all of them fail in turn. If there are many, as many as can be tried quickly, others in each case.
        let apart = calls.div_ceil(MOST).max(1);
        for failing in (ops.len() % apart..calls).step_by(apart).map(|call| call as u64) {
            for row in 1..=3 {
                run(backing, granule, &ops, failing..failing + row);
            }
        }
    }
}

/// A range over `addresses` with a block, a hole of 8 granules, 4 free ones, another hole of 8, and a block that ends at `end`.
fn two_holes(addresses: u64, end: u64) -> (Range<Device>, [RangeBlock; 2]) {
    let mut range = Range::span(Device::new(addresses), addresses);
    let mut next = |granules| range.allocate(granules * GRANULE).unwrap();
    let (first, hole, middle, other) = (next(4), next(8), next(4), next(8));
    let last = next(end / GRANULE - 24);
    range.free(hole, Tag::NOBODY);
    range.free(other, Tag::NOBODY);
    assert_eq!(range.trim(0, |_| true), Ok(16 * GRANULE));
    range.free(middle, Tag::NOBODY);
    (range, [first, last])
}

#[test]
fn a_block_over_two_holes_is_mapped_whole_or_not_at_all() {
    let (mut range, blocks) = two_holes(28 * GRANULE, 28 * GRANULE);
    let before = picture(&range);
    let calls = range.pages.calls;
    range.pages.fails = calls + 1..calls + 2;
    assert!(range.allocate(17 * GRANULE).is_err());
    assert_eq!(picture(&range), before);
    let block = range.allocate(17 * GRANULE).unwrap();
    assert_eq!(block.offset(), 4 * GRANULE);
    for block in blocks.into_iter().chain([block]) {
        range.free(block, Tag::NOBODY);
    }
    consistent(&range);
}

#[test]
fn a_retry_starts_from_what_a_failed_rollback_left() {
    // The range is so long that a handle is 2 granules. A step is 16 granules: more than the 10 that a block of 14 over both holes lacks.
    let (mut range, _blocks) = two_holes(4096 * GRANULE, 2100 * GRANULE);
    let calls = range.pages.calls;
    // The second hole cannot be mapped, and the first one, which four calls have just mapped, cannot be unmapped.
    range.pages.fails = calls + 4..calls + 6;
    let block = range.allocate(14 * GRANULE).unwrap();
    assert_eq!((block.offset(), range.fit.bytes(&block)), (4 * GRANULE, Some(14 * GRANULE)));
    assert_eq!(range.pages.calls, calls + 7);
    consistent(&range);
}
