//! Long handles of which a block needs only a part.

use super::super::handles::IdleHandle;
use super::super::{Cut, GatherLimit, Range, RangeBlock, Tag};
use super::device::{Device, GRANULE};
use super::failure::{consistent, picture};

/// The granules of a block that is one handle, once many granules were in use.
const LONG: u64 = 64;

const MEMORY: u64 = 1 << 40;

/// `number` blocks side by side. Each is mapped in the longest handles that are allowed at that time: the last ones in one handle each.
fn blocks(number: usize) -> (Range<Device>, Vec<RangeBlock>) {
    let mut range = Range::span(Device::new(MEMORY), MEMORY);
    let blocks: Vec<_> = (0..number).map(|_| range.allocate(LONG * GRANULE).unwrap()).collect();
    let last = blocks.last().unwrap().offset();
    assert_eq!(range.handles.around(last), Some((last, LONG * GRANULE)), "a long handle");
    (range, blocks)
}

fn free(range: &mut Range<Device>, blocks: impl IntoIterator<Item = RangeBlock>) {
    blocks.into_iter().for_each(|block| assert_eq!(range.free(block, Tag::NOBODY), LONG * GRANULE));
}

fn limit(cut: Cut) -> GatherLimit {
    GatherLimit { aim: 0, most: u64::MAX, cut }
}

#[test]
fn a_block_that_ends_in_a_long_handle_has_the_part_that_it_needs() {
    let (mut range, mut all) = blocks(24);
    let kept = all.remove(0);
    free(&mut range, all);
    let before = range.stats.reserved;
    let bytes = 22 * LONG * GRANULE + 5 * GRANULE + 256;
    let block = range.gather(bytes, limit(Cut::IfIdle), |_| true, |_| true).unwrap().unwrap();
    assert_eq!((block.offset(), range.fit.bytes(&block)), (kept.offset() + LONG * GRANULE, Some(bytes)));
    assert_eq!(before - range.stats.reserved, (LONG - 6) * GRANULE, "all but the granules that it touches");
    assert_eq!(range.stats.live, bytes + LONG * GRANULE);
    consistent(&range);
}

#[test]
fn a_long_handle_stays_where_that_is_wanted() {
    let (mut range, all) = blocks(24);
    free(&mut range, all);
    let before = range.stats;
    let _block = range.gather(23 * LONG * GRANULE + GRANULE, limit(Cut::Never), |_| true, |_| true).unwrap().unwrap();
    assert_eq!((range.stats.reserved, range.stats.unmap_calls), (before.reserved, before.unmap_calls));
}

#[test]
fn a_long_handle_stays_where_little_of_it_is_left_or_a_block_lies_in_it() {
    let (mut range, mut all) = blocks(24);
    let last = all.pop().unwrap();
    free(&mut range, all);
    let before = range.stats;
    let whole = range.gather(23 * LONG * GRANULE - 256, limit(Cut::OrWait), |_| true, |_| true).unwrap().unwrap();
    range.free(whole, Tag::NOBODY);
    free(&mut range, [last]);
    // A small block at the end of the last handle.
    let rest = range.gather(24 * LONG * GRANULE - GRANULE, limit(Cut::Never), |_| true, |_| true).unwrap().unwrap();
    let small = range.allocate(256).unwrap();
    range.free(rest, Tag::NOBODY);
    let _block = range.gather(23 * LONG * GRANULE + GRANULE, limit(Cut::OrWait), |_| true, |_| true).unwrap().unwrap();
    assert_eq!((range.stats.reserved, range.stats.unmap_calls), (before.reserved, before.unmap_calls));
    range.free(small, Tag::NOBODY);
    consistent(&range);
}

#[test]
fn work_on_a_long_handle_is_waited_for_if_that_is_wanted() {
    let (mut range, all) = blocks(24);
    free(&mut range, all);
    let before = (picture(&range), range.stats);
    let bytes = 23 * LONG * GRANULE + GRANULE;
    assert_eq!(range.gather(bytes, limit(Cut::OrWait), |_| true, |_| false), Ok(None));
    assert_eq!((picture(&range), range.stats), before, "nothing has changed");
    assert!(range.gather(bytes, limit(Cut::IfIdle), |_| true, |_| false).unwrap().is_some());
    assert_eq!(range.stats.reserved, before.1.reserved);
}

#[test]
fn a_place_where_pages_are_missing_is_cut_too() {
    let (mut range, all) = blocks(24);
    let gone = all[18].offset();
    free(&mut range, all);
    let span = range.fit.free_spans(0).min_by_key(|&id| range.fit.spans.at(id).offset).unwrap();
    range.unmap_idle(&[IdleHandle { span, offset: gone, bytes: LONG * GRANULE }]).unwrap();
    let before = range.stats.reserved;
    // From the beginning, over the hole, to the middle of a handle.
    let bytes = 20 * LONG * GRANULE + LONG / 2 * GRANULE;
    let block = range.gather(bytes, limit(Cut::OrWait), |_| true, |_| true).unwrap().unwrap();
    assert_eq!(block.offset(), 0);
    assert!(range.stats.reserved <= before);
    range.trim(0, |_| true).unwrap();
    assert_eq!(range.stats.reserved, bytes, "the block and nothing else");
    consistent(&range);
}
