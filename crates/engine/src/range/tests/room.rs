//! Rooms: no other block comes to lie where a block is to grow, and addresses of rooms are used again.

use super::super::{Cut, GatherLimit, GrowthRoom, Range, RangeBlock, Tag};
use super::device::{Device, GRANULE};

const MEMORY: u64 = 4096 * GRANULE;
const NO_LIMIT: GatherLimit = GatherLimit { aim: u64::MAX, most: u64::MAX, cut: Cut::Never };

fn wide() -> Range<Device> {
    Range::span(Device::new(MEMORY), 64 * MEMORY)
}

fn grow(
    range: &mut Range<Device>,
    room: &GrowthRoom,
    block: Option<&RangeBlock>,
    bytes: u64,
) -> Option<(RangeBlock, u64)> {
    range.grow_in(room, block, bytes, NO_LIMIT, |_| true, |_| true).unwrap()
}

#[test]
fn a_block_grows_in_place_whatever_else_is_allocated() {
    let mut range = wide();
    let room = range.open_room(GRANULE, 32 * GRANULE).unwrap();
    let (mut block, mut bytes) = grow(&mut range, &room, None, GRANULE).unwrap();
    let mut others = Vec::new();
    for step in 0..20 {
        others.push(range.allocate((step % 3 + 1) * GRANULE / 2).unwrap());
        let (longer, added) = grow(&mut range, &room, Some(&block), GRANULE).unwrap();
        assert_eq!(longer.offset(), block.offset(), "in place");
        (block, bytes) = (longer, bytes + added);
        let begin = block.offset();
        assert!(others.iter().all(|other| other.offset() < begin || other.offset() >= begin + 32 * GRANULE));
    }
    assert!(grow(&mut range, &room, Some(&block), 32 * GRANULE).is_none(), "the room ends");
    assert_eq!(range.free(block, Tag::NOBODY), bytes);
}

#[test]
fn the_addresses_of_a_closed_room_are_the_next_ones() {
    let mut range = wide();
    let mut first = None;
    for _ in 0..1000 {
        let room = range.open_room(GRANULE, 32 * GRANULE).unwrap();
        let (block, _) = grow(&mut range, &room, None, 4 * GRANULE).unwrap();
        assert_eq!(*first.get_or_insert(block.offset()), block.offset());
        range.free(block, Tag::NOBODY);
        range.close_room(room);
        range.trim(0, |_| true).unwrap();
    }
    let whole = range.allocate(MEMORY);
    assert!(whole.is_ok(), "{whole:?}");
}

#[test]
fn a_room_in_which_something_lies_is_not_opened_again() {
    let mut range = wide();
    let room = range.open_room(GRANULE, 32 * GRANULE).unwrap();
    let (block, _) = grow(&mut range, &room, None, 4 * GRANULE).unwrap();
    let piece = range.split(block, &[(2 * GRANULE, GRANULE)], Tag::NOBODY).pop().unwrap();
    range.close_room(room);
    range.trim(0, |_| true).unwrap();
    let other = range.open_room(GRANULE, 32 * GRANULE).unwrap();
    let (second, _) = grow(&mut range, &other, None, GRANULE).unwrap();
    assert!(second.offset().abs_diff(piece.offset()) >= 16 * GRANULE);
    // A block that is longer than the rest of the room lies elsewhere, although free memory of the room is beside it.
    let large = range.allocate(64 * GRANULE).unwrap();
    assert!(large.offset() + 64 * GRANULE <= second.offset());
    range.free(piece, Tag::NOBODY);
    range.free(second, Tag::NOBODY);
    range.free(large, Tag::NOBODY);
}
