//! The allocations of an entry that are not regular.

use crate::entries::log::{Log, Logged};
use crate::layout::{Buffer, lower_bound};

/// An allocation that is not regular.
#[derive(Clone, Copy)]
pub(super) struct Irregular {
    /// The number of regular allocations before it.
    pub(super) gap: u32,
    pub(super) number: u32,
    pub(super) logged: Logged,
}

/// The allocations of a log that are not among the regular ones.
pub(super) fn others(log: &Log, regular: &[u32]) -> Vec<Irregular> {
    let mut regular = regular.iter().copied().peekable();
    let mut gap = 0;
    let mut others = Vec::new();
    for (number, &logged) in log.allocations().iter().enumerate() {
        if regular.next_if_eq(&(number as u32)).is_some() {
            gap += 1;
        } else {
            others.push(Irregular { gap, number: number as u32, logged });
        }
    }
    others
}

/// The most bytes of these arrays that were in use at once.
pub(super) fn peak<'g>(irregular: impl Iterator<Item = &'g Irregular>) -> u64 {
    let lives = irregular.map(|one| Buffer { lower: one.number, upper: one.logged.upper, size: one.logged.bytes });
    lower_bound(&lives.collect::<Vec<_>>())
}
