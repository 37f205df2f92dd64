//! Finds the allocations that several entries have in common.

use similar::DiffTag;
use similar::algorithms::{Capture, Compact, myers};

use super::common::common;
use super::scale::{self, SizeAndLife};
use crate::entries::log::{Log, OUTLIVES};

/// A life of a regular array may end this many regular allocations earlier or later.
const SPREAD: u32 = 1;

/// If 1/2 of the positions have their sizes, no factor is looked for.
const MANY: usize = 2;
/// If 1/16 of the shortest entry is regular by size, no factor is looked for: more come by chance then. With 1/4, made-up conjugate
/// gradients were planned for 0.59 in their second half, and for 0.73 with 1/16.
const FEW: usize = 16;
/// Longer lives often contain irregular allocations, and so differ from entry to entry.
const SHORT: u32 = 6;
/// A size that takes the place of another one is at most this many times as large or as small.
const VARIATION: u64 = 4;

/// The pairs of a long common subsequence, by nearly the fewest differences: places in `one` and in `other`. Allocations are equal if they have
/// the same size, and equally many allocations, up to [`SHORT`], come before the drop. The library leaves out sizes that come often. So
/// irregular arrays are seldom taken for the allocations that are found, and a plan of these keeps its place. It can choose among
/// its algorithms at run time, but then a third of this crate's machine code would be algorithms that it does not use.
fn equal(one: &[SizeAndLife], other: &[SizeAndLife]) -> Vec<(u32, u32)> {
    let mut found = Compact::new(Capture::new(), one, other);
    match myers::diff(&mut found, one, 0..one.len(), other, 0..other.len()) {
        Ok(()) => {}
        Err(impossible) => match impossible {},
    }
    let equal = found.into_inner().into_ops().into_iter().filter(|operation| operation.tag() == DiffTag::Equal);
    let pairs = equal.flat_map(|equal| equal.old_range().zip(equal.new_range()));
    pairs.map(|(old, new)| (old as u32, new as u32)).collect()
}

/// As [`equal`], by the sizes alone.
pub(super) fn equal_by_size(one: &[SizeAndLife], other: &[SizeAndLife]) -> Vec<(u32, u32)> {
    equal(&sizes(one), &sizes(other))
}

/// As [`equal`], by the sizes times a factor, since a larger batch or image changes most sizes by the same one.
pub(super) fn equal_by_scale(one: &[SizeAndLife], other: &[SizeAndLife]) -> Vec<(u32, u32)> {
    scaled_pairs(one, other, equal)
}

/// The most pairs of a plan's positions and an entry's allocations, by size or by scale. Each recorded entry is compared with the plan, and to
/// search for the fewest operations took 3 to 8 ms of each (a detector, a mixture of experts).
pub(super) fn best_pairs(one: &[SizeAndLife], other: &[SizeAndLife]) -> Vec<(u32, u32)> {
    let by_size = common(one, &sizes(other));
    if by_size.len() * MANY >= one.len() {
        return by_size;
    }
    let by_scale = scaled_pairs(one, other, common);
    if by_scale.len() >= by_size.len() { by_scale } else { by_size }
}

fn sizes(lives: &[SizeAndLife]) -> Vec<SizeAndLife> {
    lives.iter().map(|&(bytes, _)| (bytes, 0)).collect()
}

/// The pairs if sizes are multiplied by a factor. Keeps those whose sizes differ by no more than [`VARIATION`].
fn scaled_pairs(
    one: &[SizeAndLife],
    other: &[SizeAndLife],
    equal: impl Fn(&[SizeAndLife], &[SizeAndLife]) -> Vec<(u32, u32)>,
) -> Vec<(u32, u32)> {
    let pairs = equal(&scale::scaled(one, other), &sizes(other));
    let mut pairs = fill_gaps(&pairs, [one.len(), other.len()]);
    pairs.retain(|&(old, new)| {
        let (old, new) = (one[old as usize].0, other[new as usize].0);
        old / VARIATION <= new && new / VARIATION <= old
    });
    pairs
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

/// The bytes of each allocation of a log, and how many allocations come before its drop, up to [`SHORT`].
pub(super) fn lives(log: &Log) -> Vec<SizeAndLife> {
    let numbered = log.allocations().iter().zip(0..);
    numbered.map(|(logged, number)| (logged.bytes, (logged.upper - number).min(SHORT))).collect()
}

/// The allocations that several logs have in common, in order: for each log, their numbers. As many as any of the ways finds. By scale, more
/// come by chance.
pub(super) fn columns(logs: &[&Log]) -> Option<Vec<Vec<u32>>> {
    let exact = [columns_by(logs, equal), columns_by(logs, equal_by_size)]
        .into_iter()
        .max_by_key(|columns| columns[0].len())?;
    let shortest = logs.iter().map(|log| log.len()).min()?;
    if exact[0].len() * FEW >= shortest as usize {
        return Some(exact);
    }
    [exact, columns_by(logs, equal_by_scale)].into_iter().max_by_key(|columns| columns[0].len())
}

/// The allocations that are equal, in the same order, and have the same lives in each of these logs.
fn columns_by(logs: &[&Log], equal: impl Fn(&[SizeAndLife], &[SizeAndLife]) -> Vec<(u32, u32)>) -> Vec<Vec<u32>> {
    let all = lives(logs[0]);
    let mut columns = vec![(0..logs[0].len()).collect::<Vec<u32>>()];
    for log in &logs[1..] {
        let left: Vec<SizeAndLife> = columns[0].iter().map(|&number| all[number as usize]).collect();
        let pairs = equal(&left, &lives(log));
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
