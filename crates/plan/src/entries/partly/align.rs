//! Finds the allocations that several entries have in common.

use similar::DiffOp;
use similar::algorithms::{Capture, Compact, Replace, myers};

use super::common::common;
use super::scale::{self, SizeAndLife};
use crate::entries::log::{Log, OUTLIVES};

/// A life of a regular array may end this many regular allocations earlier or later.
const SPREAD: u32 = 1;

/// By what allocations are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// By their sizes, and how many allocations come before the drop, if these are few.
    Life,
    /// By their sizes.
    Size,
    /// By their sizes times a factor, since a larger batch or image changes most sizes by the same one.
    Scale,
}

/// If 1/2 of the positions have their sizes, no factor is looked for.
const MANY: usize = 2;
/// If 1/16 of the shortest entry is regular by size, no factor is looked for: more come by chance then. With 1/4, made-up conjugate
/// gradients were planned for 0.59 in their second half, and for 0.73 with 1/16.
const FEW: usize = 16;
/// Longer lives often contain irregular allocations, and so differ from entry to entry.
const SHORT: u32 = 6;
/// A size that takes the place of another one is at most this many times as large or as small.
const VARIATION: u64 = 4;

/// How `one` becomes `other`, by nearly the fewest operations. The library can choose among its algorithms at run time, but then a third
/// of this crate's machine code would be algorithms that it does not use.
fn operations(one: &[SizeAndLife], other: &[SizeAndLife]) -> Vec<DiffOp> {
    let mut found = Compact::new(Replace::new(Capture::new()), one, other);
    match myers::diff(&mut found, one, 0..one.len(), other, 0..other.len()) {
        Ok(()) => found.into_inner().into_inner().into_ops(),
        Err(impossible) => match impossible {},
    }
}

/// The pairs of a longest common subsequence, or nearly the longest one: places in `one` and in `other`. The library leaves out sizes that
/// come often. So irregular arrays are seldom taken for the allocations that are found, and a plan of these keeps its place.
pub(super) fn pairs(one: &[SizeAndLife], other: &[SizeAndLife], by: By) -> Vec<(u32, u32)> {
    let sizes = |lives: &[SizeAndLife]| -> Vec<SizeAndLife> { lives.iter().map(|&(bytes, _)| (bytes, 0)).collect() };
    let operations = match by {
        By::Life => operations(one, other),
        By::Size => operations(&sizes(one), &sizes(other)),
        By::Scale => operations(&scale::scaled(one, other), &sizes(other)),
    };
    let pairs_of = |operation| match operation {
        DiffOp::Equal { old_index, new_index, len } => Some((old_index, new_index, len)),
        // As many allocations of other sizes, between those that are equal.
        DiffOp::Replace { old_index, old_len, new_index, new_len } if old_len == new_len && by == By::Scale => {
            Some((old_index, new_index, old_len))
        }
        DiffOp::Delete { .. } | DiffOp::Insert { .. } | DiffOp::Replace { .. } => None,
    };
    let pairs = operations.into_iter().filter_map(pairs_of);
    let pairs =
        pairs.flat_map(|(old, new, len)| (0..len).map(move |place| ((old + place) as u32, (new + place) as u32)));
    let mut pairs = pairs.collect();
    retain_like(&mut pairs, one, other);
    pairs
}

/// The most pairs of a plan's positions and an entry's allocations, by size or by scale. Each recorded entry is compared with the plan, and to
/// search for the fewest operations took 3 to 8 ms of each (a detector, a mixture of experts).
pub(super) fn best_pairs(one: &[SizeAndLife], other: &[SizeAndLife]) -> Vec<(u32, u32)> {
    let sizes: Vec<SizeAndLife> = other.iter().map(|&(bytes, _)| (bytes, 0)).collect();
    let by_size = common(one, &sizes);
    if by_size.len() * MANY >= one.len() {
        return by_size;
    }
    let mut by_scale = fill_gaps(&common(&scale::scaled(one, other), &sizes), [one.len(), sizes.len()]);
    retain_like(&mut by_scale, one, other);
    [by_size, by_scale].into_iter().max_by_key(Vec::len).unwrap_or_default()
}

/// Adds the allocations between two pairs, where both sequences have equally many.
fn fill_gaps(pairs: &[(u32, u32)], lengths: [usize; 2]) -> Vec<(u32, u32)> {
    let (mut all, mut next) = (Vec::new(), (0, 0));
    for &pair in pairs.iter().chain([&(lengths[0] as u32, lengths[1] as u32)]) {
        if pair.0 - next.0 == pair.1 - next.1 {
            all.extend((next.0..pair.0).zip(next.1..pair.1));
        }
        all.push(pair);
        next = (pair.0 + 1, pair.1 + 1);
    }
    all.pop();
    all
}

/// Keeps the pairs whose sizes differ by no more than [`VARIATION`].
fn retain_like(pairs: &mut Vec<(u32, u32)>, one: &[SizeAndLife], other: &[SizeAndLife]) {
    pairs.retain(|&(old, new)| {
        let (old, new) = (one[old as usize].0, other[new as usize].0);
        old / VARIATION <= new && new / VARIATION <= old
    });
}

/// The bytes of each allocation of a log, and how many allocations come before its drop, up to [`SHORT`].
pub(super) fn lives(log: &Log) -> Vec<SizeAndLife> {
    let numbered = log.allocations().iter().zip(0..);
    numbered.map(|(logged, number)| (logged.bytes, (logged.upper - number).min(SHORT))).collect()
}

/// The allocations that several logs have in common, in order: for each log, their numbers. As many as any of the ways finds. By scale, more
/// come by chance.
pub(super) fn columns(logs: &[&Log]) -> Option<Vec<Vec<u32>>> {
    let exact =
        [By::Life, By::Size].into_iter().map(|by| columns_by(logs, by)).max_by_key(|columns| columns[0].len())?;
    let shortest = logs.iter().map(|log| log.len()).min()?;
    if exact[0].len() * FEW >= shortest as usize {
        return Some(exact);
    }
    [exact, columns_by(logs, By::Scale)].into_iter().max_by_key(|columns| columns[0].len())
}

/// The allocations that have the same sizes, in the same order, and the same lives in each of these logs.
pub(super) fn columns_by(logs: &[&Log], by: By) -> Vec<Vec<u32>> {
    let all = lives(logs[0]);
    let mut columns = vec![(0..logs[0].len()).collect::<Vec<u32>>()];
    for log in &logs[1..] {
        let left: Vec<SizeAndLife> = columns[0].iter().map(|&number| all[number as usize]).collect();
        let pairs = pairs(&left, &lives(log), by);
        for column in &mut columns {
            *column = pairs.iter().map(|&(row, _)| column[row as usize]).collect();
        }
        columns.push(pairs.into_iter().map(|(_, number)| number).collect());
    }
    retain_lives(&mut columns, logs);
    columns
}

/// Keeps the allocations whose arrays live equally long in each log, counted in these. Others only have the same sizes by chance.
fn retain_lives(columns: &mut [Vec<u32>], logs: &[&Log]) {
    let lives: Vec<Vec<u32>> = columns.iter().zip(logs).map(|(column, log)| ends(column, log)).collect();
    let is_steady = |&row: &usize| {
        let ends = lives.iter().map(|lives| lives[row]);
        let (least, most) = ends.fold((OUTLIVES, 0), |(least, most), end| (end.min(least), end.max(most)));
        most - least <= SPREAD
    };
    let steady: Vec<usize> = (0..columns[0].len()).filter(is_steady).collect();
    for column in columns {
        *column = steady.iter().map(|&row| column[row]).collect();
    }
}

/// The ends of the lives of these allocations of a log, counted in these allocations.
fn ends(numbers: &[u32], log: &Log) -> Vec<u32> {
    let end = |&number: &u32| rank(numbers, log.allocations()[number as usize].upper);
    numbers.iter().map(end).collect()
}

/// How many of these numbers come before a time; [`OUTLIVES`] stays.
pub(super) fn rank(numbers: &[u32], time: u32) -> u32 {
    match time {
        OUTLIVES => OUTLIVES,
        time => numbers.partition_point(|&number| number < time) as u32,
    }
}
