//! Entries that are regular in part, with disturbances, to be played by [`play`](crate::play::loop_programs::play).

use fastrand::Rng;
use gpucache::Recycle;

use super::Program;
use crate::play::Op;
use crate::play::loop_programs::{Entry, disturb};

/// What may happen to entries.
#[derive(Clone, Copy, Debug)]
pub struct Disturbances {
    /// One of this many entries deviates in a few places.
    pub deviates: usize,
    /// One of this many operations becomes a rare one: an allocation on the other stream, an array that is kept, another end of its life.
    pub rare: usize,
    /// Whether arrays are dropped on other threads.
    pub has_threads: bool,
    /// Whether the scope's policy changes now and then, and the scope is invalidated.
    pub changes: bool,
}

impl Disturbances {
    /// None.
    pub const NONE: Disturbances =
        Disturbances { deviates: usize::MAX, rare: usize::MAX, has_threads: false, changes: false };

    /// Random ones.
    pub fn random(rng: &mut Rng) -> Disturbances {
        Disturbances {
            deviates: [usize::MAX, 12, 3][rng.usize(..3)],
            rare: [usize::MAX, 1000, 60][rng.usize(..3)],
            has_threads: rng.u8(..8) == 0,
            changes: rng.bool(),
        }
    }
}

/// Some entries of one or two programs, which come in turns or one after the other.
pub fn entries(rng: &mut Rng, bytes: (f64, f64), most: usize, disturbances: &Disturbances) -> Vec<Entry> {
    let (is_ordered, number_of_programs) = (rng.u8(..3) == 0, rng.usize(1..=2));
    let program = |_| {
        let program = Program::within(rng.u64(..), most, bytes);
        if is_ordered { program.in_one_order() } else { program }
    };
    let programs = (0..number_of_programs).map(program).collect();
    let number = rng.usize(8..=30);
    turns(rng, programs, number, disturbances)
}

/// As [`entries`], of short programs whose gaps are at their ends too.
pub fn short_entries(rng: &mut Rng, bytes: (f64, f64), disturbances: &Disturbances) -> Vec<Entry> {
    let programs = (0..rng.usize(1..=2)).map(|_| Program::short(rng.u64(..), bytes)).collect();
    let number = rng.usize(20..=60);
    turns(rng, programs, number, disturbances)
}

fn turns(rng: &mut Rng, mut programs: Vec<Program>, number: usize, disturbances: &Disturbances) -> Vec<Entry> {
    let takes_turns = rng.bool();
    let one = |entry: usize| {
        let usual = if takes_turns { entry } else { programs.len() * entry / number };
        let program = if rng.u8(..10) == 0 { rng.usize(..programs.len()) } else { usual % programs.len() };
        let mut ops = programs[program].entry().ops;
        change(rng, disturbances, &mut ops);
        let changes = disturbances.changes && rng.u8(..12) == 0;
        let recycle =
            if changes { [Recycle::Off, Recycle::Keyed, Recycle::Range][rng.usize(..3)] } else { Recycle::Auto };
        let invalidates = disturbances.changes && rng.u8(..12) == 0;
        Entry { recycle, ops, drops_kept: rng.u8(..4) == 0, invalidates }
    };
    (0..number).map(one).collect()
}

fn change(rng: &mut Rng, disturbances: &Disturbances, ops: &mut Vec<Op>) {
    for op in ops.iter_mut() {
        if rng.usize(..disturbances.rare) == 0 {
            *op = rare(rng, *op, disturbances.has_threads);
        }
    }
    if rng.usize(..disturbances.deviates) == 0 {
        disturb(rng, disturbances.has_threads, ops);
    }
}

/// An operation in place of a usual one.
fn rare(rng: &mut Rng, op: Op, has_threads: bool) -> Op {
    match (op, rng.u8(..5)) {
        (Op::Allocate { slot, .. }, 4) => Op::Allocate { slot, bytes: 0 },
        (Op::Allocate { slot, bytes }, 0 | 1) => Op::AllocateBeside { slot, bytes },
        (Op::Allocate { slot, bytes }, _) => Op::Allocate { slot, bytes: bytes + bytes / 2 },
        (Op::Drop(slot), 0) => Op::Keep(slot),
        (Op::Drop(slot), 1) if has_threads => Op::DropElsewhere(slot),
        (Op::Drop(slot), 2) if has_threads => Op::DropElsewhereLater(slot),
        // The array is alive until the next entry ends.
        (Op::Drop(_), 3) => Op::Trim,
        _ => op,
    }
}
