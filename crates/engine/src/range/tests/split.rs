//! Divided blocks, and the spans that remain once their pieces are free.

use proptest::prelude::*;

use super::super::{ALIGN, Backing, Range, RangeBlock, SpanState, Tag};
use super::device::{Device, GRANULE};
use super::model::by_address;
use super::properties::{Cuts, cuts, pieces, range};

const MEMORY: u64 = 64 * GRANULE;

/// A block of `granules` granules. Free memory is behind it, and before it another block, or free memory too.
fn beside_free(
    backing: Backing,
    granules: u64,
    is_after_free: bool,
) -> (Range<Device>, RangeBlock, Option<RangeBlock>) {
    let mut range = range(backing, MEMORY);
    let whole = range.allocate((granules + 4) * GRANULE).unwrap();
    range.free(whole, Tag::NOBODY);
    let first = range.allocate(GRANULE).unwrap();
    let block = range.allocate(granules * GRANULE).unwrap();
    if is_after_free {
        range.free(first, Tag::NOBODY);
        return (range, block, None);
    }
    (range, block, Some(first))
}

#[test]
fn pieces_live_and_the_rest_is_free() {
    for backing in [Backing::Span, Backing::Chunks] {
        let mut range = range(backing, MEMORY);
        let block = range.allocate(8 * GRANULE).unwrap();
        let start = block.offset();
        let blocks = range.split(block, &[(0, 1), (ALIGN, GRANULE), (7 * GRANULE, GRANULE)], Tag::NOBODY);
        let places: Vec<_> = blocks.iter().map(|block| (block.offset() - start, range.fit.bytes(block))).collect();
        assert_eq!(places, [(0, Some(ALIGN)), (ALIGN, Some(GRANULE)), (7 * GRANULE, Some(GRANULE))]);
        let free: Vec<_> = by_address(&range).into_iter().filter(|span| span.state == SpanState::Free).collect();
        assert_eq!((free.len(), free[0].bytes), (1, 6 * GRANULE - ALIGN));
        assert_eq!(range.stats.live, 2 * GRANULE + ALIGN);
    }
}

#[test]
fn the_first_piece_that_is_not_one_ends_them() {
    let good = (0, GRANULE);
    let wrong: [(u64, u64); 8] = [
        (GRANULE / 2, GRANULE),
        (GRANULE + 1, ALIGN),
        (7 * GRANULE, GRANULE + 1),
        (8 * GRANULE, 0),
        (8 * GRANULE, ALIGN),
        (u64::MAX, 1),
        (u64::MAX - ALIGN + 1, ALIGN),
        (GRANULE, u64::MAX),
    ];
    for wrong in wrong {
        let mut range = range(Backing::Span, MEMORY);
        let block = range.allocate(8 * GRANULE).unwrap();
        let blocks = range.split(block, &[good, wrong, (6 * GRANULE, ALIGN)], Tag::NOBODY);
        assert_eq!((blocks.len(), range.stats.live), (1, GRANULE), "{wrong:?}");
        assert_eq!(range.fit.bytes(&blocks[0]), Some(GRANULE));
    }
}

#[test]
fn a_foreign_block_has_no_pieces() {
    let (mut one, mut two) = (range(Backing::Span, MEMORY), range(Backing::Span, MEMORY));
    let _first = one.allocate(ALIGN).unwrap();
    let foreign = one.allocate(ALIGN).unwrap();
    let _own = two.allocate(GRANULE).unwrap();
    assert!(two.split(foreign, &[(0, ALIGN)], Tag::NOBODY).is_empty());
    assert_eq!(two.stats.live, GRANULE);
}

fn leaves_no_trace(backing: Backing, granules: u64, cuts: &Cuts, order: &[usize], is_after_free: bool) {
    let (mut apart, block, _first) = beside_free(backing, granules, is_after_free);
    let (mut whole, twin, _other) = beside_free(backing, granules, is_after_free);
    let mut blocks = apart.split(block, &pieces(cuts), Tag::NOBODY);
    for rank in order.iter().cycle() {
        if blocks.is_empty() {
            break;
        }
        let block = blocks.swap_remove(rank % blocks.len());
        assert!(apart.free(block, Tag::NOBODY) > 0);
    }
    whole.free(twin, Tag::NOBODY);
    assert_eq!(by_address(&apart), by_address(&whole));
    assert_eq!(apart.stats, whole.stats);
    // Requests find the same places as well: the bins and the tail are equal.
    for bytes in [GRANULE, ALIGN, 3 * GRANULE, granules * GRANULE, 2 * GRANULE] {
        assert_eq!(apart.allocate(bytes).unwrap().offset(), whole.allocate(bytes).unwrap().offset());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn freed_piece_by_piece_or_at_once_is_the_same(
        granules in 1..12_u64,
        cuts in cuts(),
        order in prop::collection::vec(any::<usize>(), 1..8),
        is_after_free in any::<bool>(),
        chunks in any::<bool>(),
    ) {
        let backing = if chunks { Backing::Chunks } else { Backing::Span };
        leaves_no_trace(backing, granules, &cuts, &order, is_after_free);
    }
}
