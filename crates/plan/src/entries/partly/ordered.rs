//! Entries whose allocations come in one order, some of them with sizes that vary widely: the tokens of a batch are divided among experts, say.

use crate::entries::envelope::ALIGN;
use crate::entries::log::{Log, OUTLIVES};
use crate::layout::{Buffer, lower_bound};

/// So many entries of one order show which sizes vary.
const LEAST_ALIKE: usize = 3;

/// An envelope of these entries may need this share, 1/64, more than the largest of them. With more, rooms would hold sizes that do not come
/// together: a made-up mixture of experts, whose experts get all tokens or none, found no arena of a plan that needed 1/40 more.
const BEYOND: u64 = 64;

/// The most bytes that an envelope of these entries may need. Arrays that outlive their entry do not count.
pub(super) fn most(logs: &[&Log]) -> u64 {
    let buffers = |log: &Log| -> Vec<Buffer> {
        let lives = log.lives().filter(|&(_, _, upper)| upper != OUTLIVES);
        lives.map(|(lower, size, upper)| Buffer { lower, upper, size }).collect()
    };
    let most = logs.iter().map(|log| lower_bound(&buffers(log))).max().unwrap_or(0);
    most.saturating_add(most / BEYOND)
}

/// The logs of one length, and for each of them the numbers of the allocations whose sizes stay. `None` if these are too few logs, or if no sizes
/// vary. Only the oldest log may have another length: the first entry of a program often has.
pub(super) fn columns<'l>(logs: &'l [&'l Log]) -> Option<(&'l [&'l Log], Vec<Vec<u32>>)> {
    let [oldest, latest @ ..] = logs else { return None };
    let length = latest.first()?.len();
    let alike = if oldest.len() == length { logs } else { latest };
    if alike.len() < LEAST_ALIKE || latest.iter().any(|log| log.len() != length) {
        return None;
    }
    let stays = |number: u32| {
        let all = alike.iter().filter_map(|log| log.allocations().get(number as usize));
        let sizes = all.clone().map(|logged| logged.bytes);
        let (least, most) = sizes.fold((u64::MAX, 0), |(least, most), bytes| (bytes.min(least), bytes.max(most)));
        most - least < ALIGN || all.clone().any(|logged| logged.upper == OUTLIVES)
    };
    let regular: Vec<u32> = (0..length).filter(|&number| stays(number)).collect();
    let columns = vec![regular; alike.len()];
    (columns[0].len() < length as usize).then_some((alike, columns))
}
