//! Regular allocations that may be irregular ones which come again by chance: their sizes are those of irregular arrays, and irregular arrays
//! surround them. A plan that has them as positions loses its place there.

use super::irregular::{Irregular, others};
use crate::entries::log::Log;

/// In one of so many entries at most, the irregular allocations around a run look like it. 150 random programs are planned for 1.07 times as many
/// allocations as are regular with 1 and with 16 or 64, and for 1.09 with 4.
const RARE: f64 = 4.0;

/// The rows of `columns` that are hardly there by chance.
pub(super) fn certain(columns: &[Vec<u32>], logs: &[&Log]) -> Vec<Vec<u32>> {
    let irregular: Vec<Vec<Irregular>> = logs.iter().zip(columns).map(|(log, column)| others(log, column)).collect();
    let shares = shares_of_like(logs, columns, &irregular);
    let gaps = longest_gaps(&irregular, shares.len());
    let mut certain = Vec::with_capacity(shares.len());
    for run in runs(columns) {
        let irregular = (gaps[run.start] + gaps[run.end]) as f64;
        let chance = shares[run.clone()].iter().fold(irregular * RARE, |chance, share| chance * share);
        certain.extend(run.filter(|_| chance <= 1.0));
    }
    columns.iter().map(|column| certain.iter().map(|&row| column[row]).collect()).collect()
}

/// For each row, the share of irregular allocations that have a size of it.
fn shares_of_like(logs: &[&Log], columns: &[Vec<u32>], irregular: &[Vec<Irregular>]) -> Vec<f64> {
    let mut sizes: Vec<u64> = irregular.iter().flatten().map(|one| one.logged.bytes).collect();
    sizes.sort_unstable();
    let like =
        |bytes: u64| sizes.partition_point(|&other| other <= bytes) - sizes.partition_point(|&other| other < bytes);
    let share = |row: usize| {
        let mut seen: Vec<u64> =
            logs.iter().zip(columns).filter_map(|(log, column)| log.bytes_at(column[row])).collect();
        seen.sort_unstable();
        seen.dedup();
        seen.into_iter().map(like).sum::<usize>() as f64 / sizes.len().max(1) as f64
    };
    (0..columns.first().map_or(0, Vec::len)).map(share).collect()
}

/// The most irregular allocations that any log has before each row, and behind the last one.
fn longest_gaps(irregular: &[Vec<Irregular>], rows: usize) -> Vec<usize> {
    let mut longest = vec![0; rows + 1];
    for irregular in irregular {
        for gap in irregular.chunk_by(|one, other| one.gap == other.gap) {
            let longest = &mut longest[gap[0].gap as usize];
            *longest = gap.len().max(*longest);
        }
    }
    longest
}

/// The rows without an irregular allocation between them in any log.
fn runs(columns: &[Vec<u32>]) -> Vec<std::ops::Range<usize>> {
    let rows = columns.first().map_or(0, Vec::len);
    let ends = (1..rows).filter(|&row| columns.iter().any(|column| column[row] != column[row - 1] + 1));
    let mut starts = vec![0];
    starts.extend(ends);
    let next = starts.iter().skip(1).copied().chain([rows]);
    starts.iter().copied().zip(next).map(|(start, end)| start..end).collect()
}
