//! Memory of several streams: no stream gets memory that another one may still use, and all of it merges once nobody uses it.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::super::{ALIGN, Backing, GatherLimit, Range, RangeBlock};
use super::device::{Device, GRANULE, Refusal};
use super::model::Model;
use super::properties::range;
use crate::device::{Memory, Stream, Virtual};
use crate::order::Streams;

#[derive(Clone, Debug)]
enum Op {
    Allocate { stream: usize, bytes: u64, gathers: bool },
    Free(prop::sample::Index),
    MergeIdle,
    Trim,
}

fn op() -> impl Strategy<Value = Op> {
    let bytes = prop_oneof![1..4 * ALIGN, 1..3 * GRANULE];
    prop_oneof![
        6 => (0..STREAMS, bytes, any::<bool>())
            .prop_map(|(stream, bytes, gathers)| Op::Allocate { stream, bytes, gathers }),
        5 => any::<prop::sample::Index>().prop_map(Op::Free),
        1 => Just(Op::MergeIdle),
        1 => Just(Op::Trim),
    ]
}

const STREAMS: usize = 3;
const MEMORY: u64 = 48 * GRANULE;

struct Program {
    range: Range<Device>,
    model: Model,
    streams: Streams,
    handles: Vec<Stream>,
    blocks: Vec<(RangeBlock, u64, usize)>,
    /// The last user of memory, for each 256 bytes, since the memory was mapped or all work was known to be done.
    users: BTreeMap<u64, usize>,
}

impl Program {
    fn new(backing: Backing) -> Program {
        let streams = Streams::new(Arc::<Memory>::default().meter().clone());
        let handles = (0..STREAMS).map(|_| Virtual::new(1).stream_handle().clone()).collect();
        let (mut range, model) = (range(backing, MEMORY), Model::new(backing, 0));
        range.fit.keeps_apart = true;
        Program { range, model, streams, handles, blocks: Vec::new(), users: BTreeMap::new() }
    }

    fn allocate(&mut self, stream: usize, bytes: u64, gathers: bool) {
        let Program { range, streams, handles, .. } = self;
        let me: usize = streams.attend(&handles[stream]);
        let may_use = |tag| streams.may_use(me, tag);
        let found = match gathers {
            true => range.gather(bytes, GatherLimit::at(MEMORY), may_use, |_| false).unwrap_or(None),
            false => match range.reuse_if(bytes, 16, |tag| Ok::<_, Refusal>(may_use(tag))).unwrap() {
                None => range.reuse_across(bytes, may_use).or_else(|| range.extend(bytes, may_use).ok().flatten()),
                found => found,
            },
        };
        let Some(block) = found else { return };
        let bytes = bytes.max(1).next_multiple_of(ALIGN);
        self.model.take(&self.range.pages, block.offset(), bytes);
        for (at, &user) in self.users.range(block.offset()..block.offset() + bytes) {
            assert_eq!(user, stream, "the memory at {at} is another stream's");
        }
        self.blocks.push((block, bytes, stream));
    }

    fn free(&mut self, place: usize) {
        let (block, bytes, stream) = self.blocks.swap_remove(place);
        self.model.release(block.offset());
        let cells = (block.offset()..block.offset() + bytes).step_by(ALIGN as usize);
        self.users.extend(cells.map(|at| (at, stream)));
        let tag = self.streams.free(&self.handles[stream]);
        assert_eq!(self.range.free(block, tag), bytes);
    }

    /// Notes that all work is done.
    fn merge_idle(&mut self) {
        self.range.fit.merge_idle(|_| true);
        self.users.clear();
        self.model.peak_live = self.range.stats.peak_live;
        self.model.peak_reserved = self.range.stats.peak_reserved;
        self.model.check(&self.range);
    }

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Allocate { stream, bytes, gathers } => self.allocate(stream, bytes, gathers),
            Op::Free(_) if self.blocks.is_empty() => {}
            Op::Free(place) => self.free(place.index(self.blocks.len())),
            Op::MergeIdle => self.merge_idle(),
            Op::Trim => {
                self.merge_idle();
                self.range.trim(0, |_| true).unwrap();
                assert_eq!(self.model.idle_bytes(&self.range.pages), 0);
            }
        }
    }
}

/// Blocks of one stream, whose work goes on, lie beside long idle memory. Another stream may still use nearly all of that memory.
#[test]
fn memory_in_use_does_not_hold_long_idle_memory_beside_it() {
    const LONG: u64 = 16 * GRANULE;
    let mut program = Program::new(Backing::Span);
    program.allocate(0, LONG, false);
    program.free(0);
    program.merge_idle();
    for _ in 0..8 {
        program.allocate(0, GRANULE, false);
        program.free(0);
    }
    program.allocate(0, LONG, false);
    program.free(0);
    program.merge_idle();
    program.allocate(0, GRANULE, false);
    program.free(0);
    program.allocate(1, LONG - GRANULE, false);
    assert_eq!((program.blocks.len(), program.range.stats.reserved), (1, LONG));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn nobody_gets_what_another_stream_may_still_use(
        ops in prop::collection::vec(op(), 1..120),
        backing in prop_oneof![Just(Backing::Span), Just(Backing::Chunks)],
    ) {
        let mut program = Program::new(backing);
        ops.iter().for_each(|op| program.step(op));
        (0..program.blocks.len()).for_each(|_| program.free(0));
        program.merge_idle();
        program.range.trim(0, |_| true).unwrap();
        prop_assert_eq!(program.range.pages.used(), 0);
    }
}
