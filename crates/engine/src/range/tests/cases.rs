//! Single cases that a reader can follow, and that a property would hide.

use super::super::{ALIGN, Backing, Range, SpanState, Tag};
use super::device::{Device, GRANULE};
use super::model::by_address;
use super::properties::range;

const MEMORY: u64 = 64 * GRANULE;

#[test]
fn equal_holes_are_filled_from_the_lowest_address() {
    let mut range = range(Backing::Span, MEMORY);
    let blocks: Vec<_> = (0..8).map(|_| range.allocate(ALIGN).unwrap()).collect();
    for (i, block) in blocks.into_iter().enumerate().filter(|(i, _)| [5, 1, 3].contains(i)) {
        assert_eq!(range.free(block, Tag::NOBODY), ALIGN, "block {i}");
    }
    let offsets: Vec<u64> = (0..3).map(|_| range.allocate(1).unwrap().offset() / ALIGN).collect();
    assert_eq!(offsets, [1, 3, 5]);
}

#[test]
fn the_tail_is_spared_even_where_it_fits_better() {
    let mut range = range(Backing::Span, MEMORY);
    let low = range.allocate(3 * GRANULE).unwrap();
    let _keep = range.allocate(GRANULE / 2).unwrap();
    range.free(low, Tag::NOBODY);
    assert_eq!(range.allocate(GRANULE / 2).unwrap().offset(), 0);
}

#[test]
fn a_trimmed_hole_is_mapped_again_before_the_span_gets_longer() {
    let mut range = range(Backing::Span, MEMORY);
    let hole = range.allocate(4 * GRANULE).unwrap();
    let keep = range.allocate(GRANULE).unwrap();
    range.free(hole, Tag::NOBODY);
    assert_eq!(range.trim(0, |_| true), Ok(4 * GRANULE));
    assert_eq!(by_address(&range)[0].state, SpanState::Hole);
    let block = range.allocate(2 * GRANULE).unwrap();
    assert_eq!((block.offset(), range.stats.reserved), (0, 3 * GRANULE));
    assert_eq!(range.free(keep, Tag::NOBODY), GRANULE);
}

#[test]
fn only_what_the_free_tail_lacks_is_mapped() {
    let mut range = range(Backing::Span, MEMORY);
    let _keep = range.allocate(GRANULE / 4).unwrap();
    let _long = range.allocate(5 * GRANULE).unwrap();
    assert_eq!(range.stats.reserved, 6 * GRANULE);
    assert_eq!(range.stats.map_calls, 6);
}

#[test]
fn a_handle_with_a_block_in_it_stays_whole() {
    let mut range = Range::span(Device::new(4098 * GRANULE), 4098 * GRANULE);
    let wide = range.allocate(4098 * GRANULE).unwrap();
    range.free(wide, Tag::NOBODY);
    // 1024 handles: each has 4 granules, one of them contains the block, and the last has 6.
    assert_eq!(range.stats.map_calls, 1024);
    let corner = range.allocate(1).unwrap();
    assert_eq!(range.trim(0, |_| true), Ok(4094 * GRANULE));
    range.free(corner, Tag::NOBODY);
    assert_eq!(range.trim(0, |_| true), Ok(4 * GRANULE));
    assert_eq!(range.trim(0, |_| true), Ok(0));
}

#[test]
fn chunks_side_by_side_do_not_merge() {
    let mut range = range(Backing::Chunks, MEMORY);
    let (one, two) = (range.allocate(2 * GRANULE).unwrap(), range.allocate(2 * GRANULE).unwrap());
    assert_eq!(one.offset() + 2 * GRANULE, two.offset());
    range.free(one, Tag::NOBODY);
    range.free(two, Tag::NOBODY);
    let _block = range.allocate(3 * GRANULE).unwrap();
    assert_eq!(range.stats.map_calls, 3);
    assert_eq!(range.trim(0, |_| true), Ok(4 * GRANULE));
}

#[test]
fn the_whole_device_is_one_block() {
    for backing in [Backing::Span, Backing::Chunks] {
        let mut range = range(backing, MEMORY);
        let block = range.allocate(MEMORY).unwrap();
        assert!(range.allocate(1).is_err());
        assert_eq!(range.free(block, Tag::NOBODY), MEMORY);
        assert_eq!(range.trim(0, |_| true), Ok(MEMORY));
    }
}

#[test]
fn a_step_that_the_device_refuses_is_cut_to_what_is_needed() {
    let mut range = Range::span(Device::new(513 * GRANULE), 4096 * GRANULE);
    let _most = range.allocate(512 * GRANULE).unwrap();
    let _last = range.allocate(GRANULE).unwrap();
    assert_eq!(range.stats.reserved, 513 * GRANULE);
}

#[test]
fn a_growing_load_takes_few_calls_and_little_slack() {
    let mut range = Range::span(Device::new(u64::MAX / 4), 1 << 40);
    for _ in 0..40_000 {
        let _leak = range.allocate(GRANULE / 2).unwrap();
        let stats = range.stats;
        assert!(stats.reserved <= stats.peak_live + stats.peak_live / 128 + GRANULE);
    }
    assert!(range.stats.map_calls < 5000, "{:?}", range.stats);
}

#[test]
fn a_foreign_block_changes_nothing() {
    let (mut one, mut two) = (range(Backing::Span, MEMORY), range(Backing::Span, MEMORY));
    let _first = one.allocate(ALIGN).unwrap();
    let foreign = one.allocate(ALIGN).unwrap();
    let _own = (two.allocate(GRANULE).unwrap(), two.allocate(ALIGN).unwrap());
    assert_eq!(two.fit.bytes(&foreign), None);
    assert_eq!(two.free(foreign, Tag::NOBODY), 0);
    assert_eq!(two.stats.live, GRANULE + ALIGN);
}

#[test]
fn a_steady_load_makes_no_new_nodes() {
    let mut range = range(Backing::Span, MEMORY);
    let mut slots = 0;
    for round in 0..50 {
        let blocks: Vec<_> = (1..40).map(|i| range.allocate(i * 37 % 900).unwrap()).collect();
        let (even, odd): (Vec<_>, Vec<_>) =
            blocks.into_iter().partition(|block| (block.offset() / ALIGN).is_multiple_of(2));
        even.into_iter().chain(odd).for_each(|block| assert!(range.free(block, Tag::NOBODY) > 0));
        if round == 0 {
            slots = range.fit.spans.slots();
        }
    }
    assert_eq!(range.fit.spans.slots(), slots);
}

/// The cost of mapping and unmapping on a device that makes three calls for a piece, and one for each stretch that is mapped or unmapped.
fn calls(range: &Range<Device>) -> u64 {
    3 * range.stats.map_calls + range.pages.stretches
}

#[test]
fn many_large_blocks_take_few_handles_and_few_calls() {
    let device = Device { granule: 2 << 20, ..Device::new(80 << 30) };
    let mut range = Range::span(device, 320 << 30);
    let mut allocate = |count| (0..count).map(|_| range.allocate(100_000_000).unwrap()).collect::<Vec<_>>();
    let mut blocks = allocate(200);
    let handles = range.stats.map_calls;
    assert!(handles <= 450, "{handles} handles for 20 GB");
    assert!(calls(&range) <= 1500, "{} calls", calls(&range));

    // A tenth more memory costs at most a tenth more calls, and all of it is unmapped with one call.
    let before = calls(&range);
    blocks.extend((0..20).map(|_| range.allocate(100_000_000).unwrap()));
    assert!(calls(&range) - before <= 150, "{} calls", calls(&range) - before);
    let before = range.pages.stretches;
    blocks.into_iter().for_each(|block| assert!(range.free(block, Tag::NOBODY) > 0));
    range.trim(0, |_| true).unwrap();
    assert_eq!((range.stats.reserved, range.pages.stretches - before), (0, 1));
}
