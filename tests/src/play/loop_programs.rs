//! Random programs of a few entries, which have loops in common.

use fastrand::Rng;
use gpucache::Recycle;

use super::deviation::Deviation;
use super::entries::Style;
use super::loops::{Kind, Loop, Writer};
use super::{Checked, Op, Player};

/// The allocations of a loop, at most.
const MOST: usize = 4000;

/// An entry to play, and what comes before it.
pub struct Entry {
    /// How the scope recycles.
    pub recycle: Recycle,
    /// The operations.
    pub ops: Vec<Op>,
    /// Whether kept arrays are dropped before the entry.
    pub drops_kept: bool,
    /// Whether the scope is invalidated before the entry.
    pub invalidates: bool,
}

/// The properties that all loops of a program share. Its arrays have between `bytes.0` and `bytes.1` bytes.
pub fn kind(rng: &mut Rng, bytes: (usize, usize)) -> Kind {
    let style = Style { allocations: (0, 0), bytes, escapes: (usize::MAX, 1) };
    Kind {
        style,
        escapes: rng.bool(),
        rare: [usize::MAX / 8, 60][rng.usize(0..2)],
        deviates: [usize::MAX, usize::MAX, 30, 5][rng.usize(0..4)],
        nests: rng.bool(),
        has_threads: rng.usize(0..8) == 0,
    }
}

/// A few loops, which the entries of a program share.
fn loops(rng: &mut Rng, kind: &Kind) -> Vec<Loop> {
    let number = rng.usize(1..=3);
    let lengths: Vec<usize> = (0..number).map(|_| [5, 12, 33, 80][rng.usize(0..4)]).collect();
    lengths.into_iter().map(|length| Loop::new(rng, kind, length, (0, 1))).collect()
}

/// Operations that are rare, and those that are slow.
fn interruption(rng: &mut Rng, has_threads: bool) -> Op {
    match rng.usize(0..10) {
        0 | 1 => Op::Invalidate(0),
        2 | 3 => Op::Trim,
        4 => Op::Return,
        5 => Op::Panic,
        6 => Op::Invalidate(1),
        _ if has_threads => Op::InvalidateElsewhere(0),
        _ => Op::Trim,
    }
}

/// An entry: arrays that come once, and loops.
fn write(rng: &mut Rng, kind: &Kind, loops: &[Loop]) -> Vec<Op> {
    let mut own = Rng::with_seed(rng.u64(..));
    let mut writer = Writer::new(&mut own);
    writer.scale = [1.0, 1.0, 0.3, 2.5][rng.usize(0..4)];
    for _ in 0..rng.usize(1..=3) {
        if rng.bool() {
            writer.irregular(kind, rng.usize(1..50));
        }
        let repeated = &loops[rng.usize(0..loops.len())];
        writer.iterate(repeated, rng.usize(1..=MOST).div_ceil(repeated.allocations()).max(2));
    }
    writer.ops
}

/// The entries of a program. Most of them are disturbed if `is_disturbed`.
pub fn program(rng: &mut Rng, kind: &Kind, is_disturbed: bool) -> Vec<Entry> {
    let loops = loops(rng, kind);
    let usual = write(rng, kind, &loops);
    let entry = |number: usize| {
        let mut ops = if number == 0 || rng.bool() { usual.clone() } else { write(rng, kind, &loops) };
        if is_disturbed {
            disturb(rng, kind.has_threads, &mut ops);
        }
        let is_other = is_disturbed && rng.usize(0..12) == 0;
        let recycle =
            if is_other { [Recycle::Off, Recycle::Keyed, Recycle::Range][rng.usize(0..3)] } else { Recycle::Auto };
        let invalidates = is_disturbed && rng.usize(0..8) == 0;
        Entry { recycle, ops, drops_kept: rng.usize(0..4) == 0, invalidates }
    };
    (0..4).map(entry).collect()
}

/// Two entries of programs one behind the other. Nothing of a program stays, and some come again.
pub fn sweep(rng: &mut Rng, kind: &Kind, is_disturbed: bool) -> Vec<Entry> {
    let loops = loops(rng, kind);
    let entry = |_| {
        let mut own = Rng::with_seed(rng.u64(..));
        let mut writer = Writer::new(&mut own);
        let weights: Vec<usize> = loops.iter().map(|_| rng.usize(1..40)).collect();
        let (mut model, mut count) = (0, 2);
        for _ in 0..rng.usize(2..12) {
            if rng.bool() {
                model = rng.usize(0..loops.len());
                count = rng.usize(1..=MOST).div_ceil(loops[model].allocations()).max(2);
            }
            writer.hold(kind, weights[model]);
            writer.iterate(&loops[model], count);
            writer.drop_all(kind);
        }
        let mut ops = writer.ops;
        if is_disturbed {
            disturb(rng, kind.has_threads, &mut ops);
        }
        Entry { recycle: Recycle::Auto, ops, drops_kept: false, invalidates: is_disturbed && rng.usize(0..8) == 0 }
    };
    (0..2).map(entry).collect()
}

/// Changes an entry at a few random places.
pub(super) fn disturb(rng: &mut Rng, has_threads: bool, ops: &mut Vec<Op>) {
    for _ in 0..rng.usize(0..6) {
        let deviation = Deviation::ALL[rng.usize(0..Deviation::ALL.len())];
        if (!deviation.is_slow() || has_threads)
            && !ops.is_empty()
            && let Some(deviating) = deviation.of(ops, rng.usize(0..ops.len()), 0, 1)
        {
            *ops = deviating;
        }
    }
    for _ in 0..rng.usize(0..3) {
        let op = interruption(rng, has_threads);
        let at = rng.usize(0..=ops.len());
        if matches!(op, Op::Return | Op::Panic) {
            ops.truncate(at);
        }
        ops.insert(at.min(ops.len()), op);
    }
}

/// Plays the entries, with the other stream if there is one. Returns how many allocations plans served in the first entry.
pub fn play<D: Checked>(player: &mut Player<D>, entries: &[Entry], before: impl Fn(&Player<D>, usize)) -> u64 {
    let first = player.planned(0);
    let mut planned = 0;
    for (number, entry) in entries.iter().enumerate() {
        before(player, number);
        if entry.drops_kept {
            player.drop_kept();
        }
        if entry.invalidates {
            player.invalidate(0);
        }
        if let Err(error) = player.entry(0, entry.recycle, &entry.ops) {
            player.skipped.push(error);
        }
        player.verify_served();
        if number == 0 {
            planned = player.planned(0) - first;
        }
    }
    planned
}
