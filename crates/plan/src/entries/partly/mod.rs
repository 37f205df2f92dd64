//! Entries of which a part repeats: a backbone that is the same in each entry, and a number of boxes that is not.
//!
//! Several logs are compared (`align`). The allocations that all of them have in common, in the same order and with the same sizes and
//! lives, are *regular*, unless they may be there by chance (`doubtful`). They give an envelope, as those of a usual entry do. All that lies
//! between two regular allocations in some log is a *gap*. The arrays of a gap are served from a *room*: a position of the envelope that is as
//! large as the arrays of its gap need together (`zones`, `rooms`). Neighbouring gaps share a room if that takes less memory. While the gap
//! lasts, the cursor serves parts of the room (`cursor/partly`).
//!
//! If allocations come in one order and only their sizes vary, the irregular ones have positions too (`ordered`): then the cursor knows which
//! requests rooms serve. `steps` lists all positions. Later entries are compared with the envelope by their longest common order (`common`),
//! which widens its sizes. A plan that the cursor does not find in its own entries is not made (`trial`).

mod align;
mod chances;
mod common;
mod doubtful;
mod irregular;
mod ordered;
mod rooms;
mod scale;
mod steps;
#[cfg(test)]
mod tests;
mod trial;
mod zones;

use super::envelope::{Envelope, Expected};
use super::log::Log;
use align::columns;

/// The regular part has at least this share, 1/4, of an entry's allocations. A plan for less serves too little.
const LEAST_SHARE: usize = 4;
/// A regular part of fewer allocations may be there by chance.
const LEAST: usize = 8;
/// Longer entries are not compared: a comparison takes up to 0.1 s at this length, if the entries have few sizes.
const LONGEST: u32 = 1 << 14;
/// An entry has a plan's regular part if it has this share of its positions: all but 1/8.
const MISSING: usize = 8;

/// Whether these columns are a part of the logs that is worth a plan.
fn are_enough(columns: &[Vec<u32>], logs: &[&Log]) -> bool {
    let regular = columns.first().map_or(0, Vec::len);
    let all = logs.iter().map(|log| log.len() as usize).sum::<usize>();
    regular >= LEAST && regular * LEAST_SHARE * logs.len() >= all
}

impl Envelope {
    /// The envelope of the regular part of these entries, with rooms for the rest. `None` if they have little in common, or if it
    /// `is_ordered` and their allocations do not come in one order.
    pub fn of_regular_part(logs: &[&Log], is_ordered: bool) -> Option<Envelope> {
        let stream = logs.first()?.stream();
        if logs.iter().any(|log| log.stream() != stream || log.len() > LONGEST) {
            return None;
        }
        let in_any_order = || if is_ordered { None } else { Envelope::in_any_order(logs) };
        Envelope::in_order(logs).or_else(in_any_order)
    }

    /// The envelope of entries whose allocations come in one order, with as few rooms as do hardly need more than the largest entry: what an array
    /// takes less than before, another one takes more, and in a room of many arrays this evens out.
    fn in_order(logs: &[&Log]) -> Option<Envelope> {
        let (logs, columns) = ordered::columns(logs).filter(|(_, columns)| columns[0].len() >= LEAST)?;
        let most = ordered::most(logs);
        let mut envelopes = rooms::envelopes(logs, &columns, true);
        let found = envelopes.find(|(envelope, needed)| *needed <= most && !envelope.rooms().is_empty());
        found.map(|(envelope, _)| envelope)
    }

    /// The envelope that needs least memory. Among equals, the one with the fewest rooms. `None` if the cursor does not find it in these entries.
    fn in_any_order(logs: &[&Log]) -> Option<Envelope> {
        let all = columns(logs).filter(|columns| are_enough(columns, logs))?;
        let certain = doubtful::certain(&all, logs);
        let columns = if are_enough(&certain, logs) { certain } else { all };
        let envelopes = rooms::envelopes(logs, &columns, false);
        let least = envelopes.min_by_key(|(envelope, needed)| (*needed, envelope.rooms().len()));
        least.map(|(envelope, _)| envelope).filter(|envelope| trial::is_found(envelope, logs))
    }

    /// Widens the sizes to those of an entry that has nearly all of the regular part. Returns how many became larger; `None` for another
    /// entry.
    pub fn widen_to(&mut self, log: &Log) -> Option<u64> {
        // The comparison takes long, and an order of whole entries needs none.
        let pairs = if self.is_partial() { self.regular_in(log)? } else { return None };
        let wider = pairs.into_iter().filter(|&(position, number)| {
            log.bytes_at(number).is_some_and(|bytes| self.widen(position as usize, bytes))
        });
        Some(wider.count() as u64)
    }

    /// Whether the position is not regular: a room's gate, or one that a room serves.
    fn is_irregular(&self, position: usize) -> bool {
        self.has_room(position) || self.at(position).is_some_and(Expected::is_in_room)
    }

    /// The regular positions that an entry has, and the numbers of their allocations, if it has nearly all.
    fn regular_in(&self, log: &Log) -> Option<Vec<(u32, u32)>> {
        if log.len() > LONGEST {
            return None;
        }
        let regular: Vec<u32> =
            (0..self.len() as u32).filter(|&position| !self.is_irregular(position as usize)).collect();
        let sizes =
            regular.iter().filter_map(|&position| self.at(position as usize)).map(|expected| (expected.most, 0));
        let pairs = align::best_pairs(&sizes.collect::<Vec<_>>(), &align::lives(log));
        let has_part = (regular.len() - pairs.len()) * MISSING <= regular.len();
        has_part.then(|| pairs.into_iter().map(|(place, number)| (regular[place as usize], number)).collect())
    }
}
