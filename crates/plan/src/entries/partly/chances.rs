//! How likely an irregular allocation is taken for a regular one, and how many in a row tell them apart.

use super::irregular::Irregular;
use crate::entries::envelope::{ALIGN, FAR, LONGEST_ROW, least_served};
use crate::entries::log::Log;

/// In one of so many entries, irregular allocations may look like the regular ones that are waited for.
const RARE: f64 = 16.0;

/// For each regular allocation, the share of irregular ones that have its size.
pub(super) fn shares(logs: &[&Log], columns: &[Vec<u32>], irregular: &[Vec<Irregular>]) -> Vec<f64> {
    let mut sizes: Vec<u64> = irregular.iter().flatten().map(|one| one.logged.bytes).collect();
    sizes.sort_unstable();
    let share = |row: usize| {
        let seen = logs.iter().zip(columns).filter_map(|(log, column)| log.bytes_at(*column.get(row)?));
        let (least, most) = seen.fold((u64::MAX, 0), |(least, most), bytes| (bytes.min(least), bytes.max(most)));
        // A position serves any request that its place can hold, from this size on.
        let least = least_served(least, most);
        let most = most.next_multiple_of(ALIGN);
        let like = sizes.partition_point(|&bytes| bytes <= most) - sizes.partition_point(|&bytes| bytes < least);
        like as f64 / sizes.len().max(1) as f64
    };
    (0..columns.first().map_or(0, Vec::len)).map(share).collect()
}

/// How many regular allocations of these shares have to come in a row, behind at most `most` irregular ones.
pub(super) fn leave(shares: &[f64], most: usize) -> u32 {
    let mut chance = most as f64 * RARE;
    let needed = shares.iter().take(LONGEST_ROW).take_while(|&&share| {
        chance *= share;
        chance > 1.0
    });
    needed.count() as u32 + 1
}

/// How many in a row show the position of an entry that has at most `most` irregular allocations.
pub(super) fn row(shares: &[f64], most: usize) -> u32 {
    let share = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    let chance = (RARE * FAR as f64 * most.max(1) as f64).ln();
    let row = chance / -share.clamp(1e-9, 0.999).ln();
    (row.ceil() as u32).clamp(2, LONGEST_ROW as u32)
}
