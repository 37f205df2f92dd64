//! Places that are cleared: which blocks move, and where they go.

use super::super::{Backing, Range, RangeBlock, Tag};
use super::device::{Device, GRANULE};
use super::failure::consistent;
use super::properties::range;

/// Six blocks of two granules. The first and the third are freed, and nothing is behind the last.
fn apart() -> (Range<Device>, Vec<RangeBlock>) {
    let mut range = range(Backing::Span, 12 * GRANULE);
    let mut blocks: Vec<_> = (0..6).map(|_| range.allocate(2 * GRANULE).unwrap()).collect();
    let (third, first) = (blocks.remove(2), blocks.remove(0));
    [first, third].into_iter().for_each(|block| _ = range.free(block, Tag::NOBODY));
    (range, blocks)
}

#[test]
fn what_lies_between_free_places_is_moved_to_another_one() {
    let (mut range, mut blocks) = apart();
    assert!(!range.is_long_enough(3 * GRANULE));
    // The second block goes to the second free place. Its own place joins the first one.
    let between = 2 * GRANULE;
    let found = range.clearing(4 * GRANULE, |_| true, |offset| offset == between).unwrap();
    assert_eq!(found, 0..4 * GRANULE);
    let moved = range.reuse_at_its_end(2 * GRANULE, |node| node.offset >= found.end).unwrap();
    assert_eq!(moved.offset(), 4 * GRANULE);
    range.free(blocks.remove(0), Tag::NOBODY);
    assert!(range.is_long_enough(4 * GRANULE));
    // The place where it would have to go has no room now.
    assert_eq!(range.clearing(6 * GRANULE, |_| true, |offset| offset == 6 * GRANULE), None);
    consistent(&range);
}

#[test]
fn what_may_not_be_moved_or_used_stays() {
    let (range, _blocks) = apart();
    assert_eq!(range.clearing(4 * GRANULE, |_| true, |_| false), None);
    assert_eq!(range.clearing(4 * GRANULE, |_| false, |_| true), None);
}

#[test]
fn large_blocks_lie_above_and_small_ones_below() {
    let mut range = range(Backing::Span, 64 * GRANULE);
    let whole = range.allocate(64 * GRANULE).unwrap();
    range.free(whole, Tag::NOBODY);
    let large = range.reuse_at_its_end(8 * GRANULE, |_| true).unwrap();
    let small = range.reuse_at_its_end(GRANULE, |_| true).unwrap();
    assert_eq!((large.offset(), small.offset()), (56 * GRANULE, 0));
    consistent(&range);
}
