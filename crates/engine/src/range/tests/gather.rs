//! Large blocks out of fragmented memory: where the pages come from, and which memory stays.

use super::super::{Backing, GatherLimit, Range, RangeBlock, RangeError, SpanState, Tag};
use super::device::{Device, GRANULE, Refusal};
use super::failure::{consistent, picture};
use super::model::by_address;
use super::properties::range;

const MEMORY: u64 = 64 * GRANULE;

/// 12 places of 2 granules each: every other one is free, the rest are blocks. A handle is 1 granule.
fn fragmented() -> (Range<Device>, Vec<RangeBlock>) {
    let mut range = range(Backing::Span, MEMORY);
    let blocks: Vec<_> = (0..12).map(|_| range.allocate(2 * GRANULE).unwrap()).collect();
    let (free, pinned): (Vec<_>, Vec<_>) =
        blocks.into_iter().partition(|block| (block.offset() / GRANULE).is_multiple_of(4));
    free.into_iter().for_each(|block| assert_eq!(range.free(block, Tag::NOBODY), 2 * GRANULE));
    (range, pinned)
}

/// The granules at which spans of this state begin.
fn starts(range: &Range<Device>, state: SpanState) -> Vec<u64> {
    by_address(range).into_iter().filter(|span| span.state == state).map(|span| span.offset / GRANULE).collect()
}

#[test]
fn pages_move_from_the_highest_free_spans() {
    let (mut range, _pinned) = fragmented();
    let block = range.gather(8 * GRANULE, GatherLimit::at(0), |_| true, |_| true).unwrap().unwrap();
    assert_eq!((block.offset(), range.fit.bytes(&block)), (24 * GRANULE, Some(8 * GRANULE)));
    let stats = range.stats;
    assert_eq!((stats.reserved, stats.peak_reserved, stats.unmap_calls), (24 * GRANULE, 24 * GRANULE, 8));
    assert_eq!(starts(&range, SpanState::Free), [0, 4]);
    assert_eq!(starts(&range, SpanState::Hole), [8, 12, 16, 20, 32]);
    consistent(&range);
}

#[test]
fn what_is_not_enough_is_left_alone() {
    let (mut range, _pinned) = fragmented();
    let before = (picture(&range), range.stats);
    assert_eq!(range.gather(13 * GRANULE, GatherLimit::at(0), |_| true, |_| true), Ok(None));
    assert_eq!(range.gather(15 * GRANULE, GatherLimit::at(26 * GRANULE), |_| true, |_| true), Ok(None));
    assert_eq!(range.gather(MEMORY, GatherLimit::at(u64::MAX), |_| true, |_| true), Ok(None));
    assert_eq!(range.gather(u64::MAX, GatherLimit::at(u64::MAX), |_| true, |_| true), Ok(None));
    assert_eq!((picture(&range), range.stats), before);
}

#[test]
fn only_what_is_over_the_limit_is_unmapped() {
    let (mut range, _pinned) = fragmented();
    let _block = range.gather(8 * GRANULE, GatherLimit::at(27 * GRANULE), |_| true, |_| true).unwrap().unwrap();
    assert_eq!((range.stats.reserved, range.stats.unmap_calls), (27 * GRANULE, 5));
    let (mut range, _pinned) = fragmented();
    let _block = range.gather(8 * GRANULE, GatherLimit::at(32 * GRANULE), |_| true, |_| true).unwrap().unwrap();
    assert_eq!((range.stats.reserved, range.stats.unmap_calls), (32 * GRANULE, 0));
}

#[test]
fn the_rest_is_mapped_once_all_that_is_free_has_moved() {
    let limit = GatherLimit { aim: 0, ..GatherLimit::at(26 * GRANULE) };
    let (mut range, _pinned) = fragmented();
    let _block = range.gather(14 * GRANULE, limit, |_| true, |_| true).unwrap().unwrap();
    assert_eq!((range.stats.reserved, range.stats.unmap_calls), (26 * GRANULE, 12));
    assert_eq!(starts(&range, SpanState::Free), []);
    consistent(&range);
    let (mut range, _pinned) = fragmented();
    assert_eq!(range.gather(15 * GRANULE, limit, |_| true, |_| true), Ok(None));
    assert_eq!(range.stats.reserved, 24 * GRANULE);
}

#[test]
fn what_fits_is_taken_as_it_is() {
    let (mut range, _pinned) = fragmented();
    let block = range.gather(2 * GRANULE, GatherLimit::at(0), |_| true, |_| true).unwrap().unwrap();
    assert_eq!((block.offset(), range.stats.map_calls), (0, 24));
}

#[test]
fn the_free_tail_stays_where_it_is() {
    let (mut range, mut pinned) = fragmented();
    range.free(pinned.pop().unwrap(), Tag::NOBODY);
    // The last 4 granules are free, so a block of 5 lacks 1.
    let block = range.gather(5 * GRANULE, GatherLimit::at(0), |_| true, |_| true).unwrap().unwrap();
    assert_eq!((block.offset(), range.stats.unmap_calls), (20 * GRANULE, 1));
    assert_eq!(range.stats.reserved, 24 * GRANULE);
    consistent(&range);
}

#[test]
fn pages_in_use_stay() {
    let (mut range, _pinned) = fragmented();
    let before = (picture(&range), range.stats);
    assert_eq!(range.gather(8 * GRANULE, GatherLimit::at(0), |_| true, |_| false), Ok(None));
    assert_eq!((picture(&range), range.stats), before);
    assert_eq!(range.trim(0, |_| false), Ok(0));
    assert_eq!(range.stats.reserved, before.1.reserved);
}

#[test]
fn after_a_call_that_failed_the_next_gather_succeeds() {
    // 8 calls unmap, and 8 map.
    for failing in 0..16 {
        for row in 1..=4 {
            let (mut range, pinned) = fragmented();
            let calls = range.pages.calls;
            range.pages.fails = calls + failing..calls + failing + row;
            assert_eq!(
                range.gather(8 * GRANULE, GatherLimit::at(0), |_| true, |_| true),
                Err(RangeError::Pages(Refusal::Injected))
            );
            consistent(&range);
            assert_eq!(range.stats.live, 12 * GRANULE);
            range.pages.fails = 0..0;
            let block = range.gather(8 * GRANULE, GatherLimit::at(24 * GRANULE), |_| true, |_| true).unwrap().unwrap();
            assert!(range.stats.peak_reserved <= 24 * GRANULE);
            consistent(&range);
            pinned.into_iter().chain([block]).for_each(|block| assert!(range.free(block, Tag::NOBODY) > 0));
            range.trim(0, |_| true).unwrap();
            assert_eq!(range.pages.used(), 0);
        }
    }
}

#[test]
fn few_idle_chunks_make_a_new_one() {
    let mut range = range(Backing::Chunks, MEMORY);
    let blocks: Vec<_> = [2, 6, 3, 4].map(|granules| range.allocate(granules * GRANULE).unwrap()).into();
    let mut blocks = blocks.into_iter();
    blocks.by_ref().take(3).for_each(|block| assert!(range.free(block, Tag::NOBODY) > 0));
    let _live = blocks.next();
    assert_eq!(range.gather(12 * GRANULE, GatherLimit::at(0), |_| true, |_| true), Ok(None));
    let block = range.gather(8 * GRANULE, GatherLimit::at(0), |_| true, |_| true).unwrap().unwrap();
    assert_eq!(range.fit.bytes(&block), Some(8 * GRANULE));
    // The chunk of 6 was unmapped, and the shorter one of the two that suffice together with it.
    let mut chunks: Vec<u64> = range.pages.mapped.values().map(|bytes| bytes / GRANULE).collect();
    chunks.sort_unstable();
    assert_eq!(chunks, [3, 4, 8]);
    consistent(&range);
}

/// If work of other streams uses every free span, the range grows, whether these spans are long enough or not.
#[test]
fn a_range_grows_beside_free_memory_that_may_not_be_used() {
    let (mut range, _pinned) = fragmented();
    for granules in [1, 2, 3] {
        let before = range.stats.reserved;
        assert_eq!(range.reuse_if(granules * GRANULE, 16, |_| Ok::<_, Refusal>(false)), Ok(None));
        let block = range.extend(granules * GRANULE, |tag| tag != Tag::NOBODY).unwrap().unwrap();
        assert!(range.stats.reserved > before, "{granules} granules");
        consistent(&range);
        range.free(block, Tag::NOBODY);
    }
}
