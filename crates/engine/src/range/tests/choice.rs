//! Tests which of several free places serves a stream, if several streams share a range.

use std::convert::Infallible;
use std::sync::Arc;

use super::super::fit::EVERY_SPAN;
use super::super::{ALIGN, Backing, Range, RangeBlock, Tag};
use super::device::{Device, GRANULE};
use super::properties::range;
use crate::device::{Memory, Virtual};
use crate::order::Streams;

/// A range with free places of these lengths, apart from each other and from its end. Each has a stream that freed it last.
struct Program {
    range: Range<Device>,
    streams: Streams,
    me: usize,
    offsets: Vec<u64>,
}

#[derive(Clone, Copy)]
enum Freed {
    ByMe,
    ByAnother,
    Done,
}

fn program(places: &[(u64, Freed)]) -> Program {
    let mut streams = Streams::new(Arc::<Memory>::default().meter().clone());
    let (mine, other) = (Virtual::new(1), Virtual::new(1));
    let mut range = range(Backing::Span, 64 * GRANULE);
    let blocks: Vec<RangeBlock> = places
        .iter()
        .map(|&(bytes, _)| {
            let block = range.allocate(bytes).unwrap();
            let _separates = range.allocate(ALIGN).unwrap();
            block
        })
        .collect();
    let offsets = blocks.iter().map(RangeBlock::offset).collect();
    for (block, &(_, freed)) in blocks.into_iter().zip(places) {
        let tag = match freed {
            Freed::ByMe => streams.free(mine.stream_handle()),
            Freed::ByAnother => streams.free(other.stream_handle()),
            Freed::Done => Tag::NOBODY,
        };
        range.free(block, tag);
    }
    let me = streams.attend(mine.stream_handle());
    Program { range, streams, me, offsets }
}

impl Program {
    /// The number of the place that serves `bytes`.
    fn serve(&mut self, bytes: u64) -> Option<usize> {
        let Program { range, streams, me, offsets } = self;
        let may_use = |tag| Ok::<_, Infallible>(streams.may_use(*me, tag));
        let Ok(block) = range.reuse_own_first(bytes, EVERY_SPAN, Some(|tag: Tag| tag.owner() == Some(*me)), may_use);
        let offset = block?.offset();
        offsets.iter().position(|&place| place == offset)
    }
}

const BYTES: u64 = 8 * ALIGN;
const NEAR: u64 = 9 * ALIGN;
const FAR: u64 = 10 * ALIGN;

#[test]
fn own_memory_comes_first_if_it_fits_nearly_as_well_and_then_what_is_done() {
    let mut program = program(&[(BYTES, Freed::Done), (BYTES, Freed::ByAnother), (NEAR, Freed::ByMe)]);
    assert_eq!([(); 3].map(|()| program.serve(BYTES)), [Some(2), Some(0), None]);
}

#[test]
fn own_memory_that_is_much_longer_comes_behind_what_is_done() {
    let mut program = program(&[(FAR, Freed::ByMe), (BYTES, Freed::Done)]);
    assert_eq!([(); 2].map(|()| program.serve(BYTES)), [Some(1), Some(0)]);
}

#[test]
fn the_shortest_of_ones_own_serves_and_the_lowest_among_equals() {
    let places = [(NEAR, Freed::ByMe), (BYTES, Freed::ByMe), (BYTES, Freed::ByMe), (BYTES, Freed::Done)];
    let mut program = program(&places);
    assert_eq!([(); 4].map(|()| program.serve(BYTES)), [Some(1), Some(2), Some(0), Some(3)]);
}
