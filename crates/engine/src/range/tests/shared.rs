//! The range of a device, with streams behind it.

use super::super::{DeviceRange, GatherLimit, RangeState, WaitFor};
use crate::device::Virtual;

const GRANULE: u64 = 2 << 20;

fn occupancy(range: &DeviceRange) -> [u64; 3] {
    let RangeState { reserved, live, peak_reserved, .. } = range.occupancy();
    [reserved, live, peak_reserved].map(|bytes| bytes / GRANULE)
}

#[test]
fn a_block_is_gathered_taken_apart_and_given_back() {
    let device = Virtual::new(64 * GRANULE as usize);
    let stream = device.stream_handle();
    let range = DeviceRange::of(stream).unwrap();
    let [low, pinned, high, last] =
        [4, 1, 4, 1].map(|granules| range.allocate(stream, granules * GRANULE, false).unwrap());
    range.free(stream, low.block);
    range.free(stream, high.block);
    assert_eq!(occupancy(range), [10, 2, 10]);

    assert!(range.gather(stream, 9 * GRANULE, GatherLimit::at(10 * GRANULE)).unwrap().is_none());
    let gathered = range.gather(stream, 6 * GRANULE, GatherLimit::at(10 * GRANULE)).unwrap().unwrap();
    assert_eq!((gathered.calls, gathered.address), (6 + 6, last.address + GRANULE));
    assert_eq!(occupancy(range), [10, 8, 10]);

    let pieces = range.split(stream, gathered.block, &[(GRANULE, GRANULE), (3 * GRANULE, GRANULE / 2)]);
    assert_eq!((pieces.len(), occupancy(range)), (2, [10, 3, 10]));
    pieces.into_iter().chain([pinned.block, last.block]).for_each(|block| range.free(stream, block));
    assert_eq!(range.trim(0, WaitFor::Nothing).unwrap(), 10 * GRANULE);
    assert_eq!(occupancy(range), [0, 0, 10]);
    device.stream_handle().synchronize().unwrap();
}

#[test]
fn pages_move_once_more_is_reserved_than_was_in_use() {
    let device = Virtual::new(256 * GRANULE as usize);
    let stream = device.stream_handle();
    let range = DeviceRange::of(stream).unwrap();
    let blocks: Vec<_> = (0..16).map(|_| range.allocate(stream, 4 * GRANULE, false).unwrap().block).collect();
    let (pinned, free): (Vec<_>, Vec<_>) =
        blocks.into_iter().partition(|block| !(block.offset() / GRANULE).is_multiple_of(8));
    free.into_iter().for_each(|block| range.free(stream, block));

    // 64 granules were in use. In so small a range, 76 may be reserved.
    assert!(range.exchange(stream, 12 * GRANULE, &range.occupancy()).unwrap().is_none());
    let moved = range.exchange(stream, 16 * GRANULE, &range.occupancy()).unwrap().unwrap();
    assert_eq!((moved.calls, occupancy(range)), (4 + 16, [64 + 12, 32 + 16, 64 + 12]));
    pinned.into_iter().chain([moved.block]).for_each(|block| range.free(stream, block));
    range.trim(0, WaitFor::Nothing).unwrap();
    device.stream_handle().synchronize().unwrap();
}

/// The memory of a graph counts as free, once its work is done, as soon as the graph is dropped.
#[test]
fn released_memory_may_serve_others_in_time() {
    let device = Virtual::new(8 * GRANULE as usize);
    let stream = device.stream_handle();
    let (range, graph) = (DeviceRange::of(stream).unwrap(), stream.reserve().unwrap());
    let [low, pinned, high] =
        [3, 1, 3].map(|granules| range.allocate(&graph, granules * GRANULE, false).unwrap().block);
    [low, high].into_iter().for_each(|block| range.free(&graph, block));
    assert!(!range.could_serve(6 * GRANULE));
    graph.end_reserving();
    range.streams(|streams| streams.release(&graph));
    assert!(range.could_serve(6 * GRANULE));
    assert_eq!(range.needs(7 * GRANULE), 0);
    range.free(&graph, pinned);
    range.trim(0, WaitFor::Nothing).unwrap();
}

/// As many pages as may be reserved become contiguous, and then blocks lie where their owner says.
#[test]
fn blocks_lie_at_given_addresses_within_contiguous_memory() {
    let device = Virtual::new(16 * GRANULE as usize);
    let stream = device.stream_handle();
    let range = DeviceRange::of(stream).unwrap();
    let pinned = range.allocate(stream, GRANULE, false).unwrap();
    let (base, bytes) = range.find_contiguous(stream, 4 * GRANULE).unwrap().unwrap();
    assert_eq!((bytes, occupancy(range)), (4 * GRANULE, [5, 1, 5]));
    // More than there is: what can still be reserved.
    let (_, most) = range.find_contiguous(stream, 64 * GRANULE).unwrap().unwrap();
    assert_eq!((most, occupancy(range)), (11 * GRANULE, [12, 1, 12]));

    let at = |offset: u64, bytes: u64| range.reuse_at(stream, bytes, base + offset).unwrap();
    let [low, high] = [(GRANULE, GRANULE), (3 * GRANULE, 700)].map(|(offset, bytes)| at(offset, bytes).unwrap());
    assert_eq!([low.address, high.address], [base + GRANULE, base + 3 * GRANULE]);
    for (offset, bytes) in [(0, 2 * GRANULE), (GRANULE, 1), (2 * GRANULE, GRANULE + 1), (100, 100)] {
        assert!(at(offset, bytes).is_none(), "{bytes} bytes at {offset} are not free");
    }
    assert!(range.reuse_at(stream, 1, pinned.address).unwrap().is_none());
    assert!(
        range.reuse_at(stream, 1, u64::MAX).unwrap().is_none()
            && range.reuse_at(stream, u64::MAX, base).unwrap().is_none()
    );
    let between = at(2 * GRANULE, GRANULE).unwrap();
    range.free(stream, low.block);
    range.free(stream, between.block);
    // Across what both left.
    let across = at(GRANULE + 512, 2 * GRANULE - 512).unwrap();
    [pinned.block, high.block, across.block].into_iter().for_each(|block| range.free(stream, block));
    assert_eq!(occupancy(range)[1], 0);
    device.stream_handle().synchronize().unwrap();
}
