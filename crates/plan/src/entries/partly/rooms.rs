//! The choice of rooms: the envelopes of several choices, and how much memory each of them needs.

use super::chances;
use super::irregular::{Irregular, others, peak};
use super::steps;
use super::zones::Zone;
use crate::entries::envelope::{Envelope, Room};
use crate::entries::log::Log;

/// Gaps share a room if at most so many regular allocations lie between two of them. Each of these is tried.
const DISTANCES: [u32; 5] = [u32::MAX, 64, 16, 4, 0];
/// Arrays beside the plan take this share, 1/8, more than their bytes: gaps of the range, and a page.
const GAPS: u64 = 8;

/// The envelopes of several choices of rooms, from the one that shares most to the one that has none. With each, the bytes that it and the
/// arrays beside it need. If all logs have one order, it `is_ordered`: then irregular allocations have positions too.
pub(super) fn envelopes(
    logs: &[&Log],
    columns: &[Vec<u32>],
    is_ordered: bool,
) -> impl Iterator<Item = (Envelope, u64)> {
    let irregular: Vec<Vec<Irregular>> = logs.iter().zip(columns).map(|(log, column)| others(log, column)).collect();
    (0..=DISTANCES.len()).filter_map(move |choice| {
        let zones = DISTANCES.get(choice).map_or(Vec::new(), |&distance| Zone::shared(&irregular, distance));
        envelope(logs, columns, &irregular, &zones, is_ordered)
    })
}

/// The envelope with these rooms, and the bytes that it and the arrays beside it need.
fn envelope(
    logs: &[&Log],
    columns: &[Vec<u32>],
    irregular: &[Vec<Irregular>],
    zones: &[Zone],
    is_ordered: bool,
) -> Option<(Envelope, u64)> {
    let placed = irregular.first().filter(|_| is_ordered).map_or(&[][..], Vec::as_slice);
    let steps = steps::of(zones, placed, columns[0].len() as u32);
    let recorded = logs.iter().zip(columns).zip(irregular);
    let parts: Vec<Log> =
        recorded.map(|((log, column), irregular)| steps::part(&steps, log, column, irregular)).collect();
    let [one, other, more @ ..] = parts.as_slice() else { return None };
    let mut envelope = Envelope::of(one, other)?;
    for part in more {
        envelope = envelope.absorb(part)?;
    }
    let beside = beside(irregular, zones);
    let needed = envelope.bound().saturating_add(beside).saturating_add(beside / GAPS);
    let shares = chances::shares(logs, columns, irregular);
    let most = |count: &dyn Fn(&Vec<Irregular>) -> usize| irregular.iter().map(count).max().unwrap_or(0);
    let room = |(zone, (start, end)): (&Zone, (u32, u32))| {
        let behind = shares.get(zone.last as usize..).unwrap_or_default();
        let leave = || chances::leave(behind, most(&|irregular| zone.of(irregular).count()));
        Room { start, end, leave: if is_ordered { 1 } else { leave() } }
    };
    let rooms = zones.iter().zip(steps::gates(&steps)).map(room).collect();
    let mut envelope = envelope.with_rooms(rooms, chances::row(&shares, most(&Vec::len)));
    for (position, place) in steps::irregular(&steps) {
        let sizes = irregular.iter().filter_map(|irregular| Some(irregular.get(place)?.logged.bytes));
        envelope.serve_from_room(position, sizes);
    }
    Some((envelope, needed))
}

/// The most bytes in use by irregular arrays that have no room.
fn beside(irregular: &[Vec<Irregular>], zones: &[Zone]) -> u64 {
    let is_beside = |one: &&Irregular| !zones.iter().any(|zone| zone.has(one));
    irregular.iter().map(|irregular| peak(irregular.iter().filter(is_beside))).max().unwrap_or(0)
}
