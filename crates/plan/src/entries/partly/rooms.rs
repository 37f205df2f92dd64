//! The choice of rooms: the envelopes of several choices, and how much memory each of them needs.

use super::chances;
use super::irregular::{Irregular, others, peak};
use super::steps::Steps;
use super::zones::Zone;
use crate::entries::envelope::{Envelope, Room};
use crate::entries::log::Log;

/// Gaps share a room if at most so many regular allocations lie between two of them. Each of these is tried.
const DISTANCES: [u32; 5] = [u32::MAX, 64, 16, 4, 0];
/// Arrays beside the plan take this share, 1/8, more than their bytes: gaps of the range, and a page.
const GAPS: u64 = 8;

/// A choice of rooms, and the irregular allocations of each log.
pub(super) struct Arrangement {
    irregular: Vec<Vec<Irregular>>,
    zones: Vec<Zone>,
    /// Whether all logs have one order, so that irregular allocations have positions too.
    is_ordered: bool,
}

impl Arrangement {
    /// The envelopes of several choices of rooms, from the one that shares most to the one that has none. With each, the bytes that it and the
    /// arrays beside it need.
    pub(super) fn envelopes(
        logs: &[&Log],
        columns: &[Vec<u32>],
        is_ordered: bool,
    ) -> impl Iterator<Item = (Envelope, u64)> {
        let irregular: Vec<Vec<Irregular>> =
            logs.iter().zip(columns).map(|(log, column)| others(log, column)).collect();
        let none = Arrangement { irregular: irregular.clone(), zones: Vec::new(), is_ordered };
        let shared = DISTANCES.into_iter().map(move |distance| {
            let zones = Zone::shared(&irregular, distance);
            Arrangement { irregular: irregular.clone(), zones, is_ordered }
        });
        shared.chain([none]).filter_map(|arrangement| arrangement.envelope(logs, columns))
    }

    /// The envelope, and the bytes that it and the arrays beside it need.
    fn envelope(self, logs: &[&Log], columns: &[Vec<u32>]) -> Option<(Envelope, u64)> {
        let placed = self.irregular.first().filter(|_| self.is_ordered).map_or(&[][..], Vec::as_slice);
        let steps = Steps::of(&self.zones, placed, columns[0].len() as u32);
        let recorded = logs.iter().zip(columns).zip(&self.irregular);
        let parts: Vec<Log> = recorded.map(|((log, column), irregular)| steps.part(log, column, irregular)).collect();
        let [one, other, more @ ..] = parts.as_slice() else { return None };
        let mut envelope = Envelope::of(one, other)?;
        for part in more {
            envelope = envelope.absorb(part)?;
        }
        let beside = self.beside();
        let needed = envelope.bound().saturating_add(beside).saturating_add(beside / GAPS);
        let (rooms, row) = self.gates_of(&steps, logs, columns);
        let mut envelope = envelope.with_rooms(rooms, row);
        for (position, place) in steps.irregular() {
            let sizes = self.irregular.iter().filter_map(|irregular| Some(irregular.get(place)?.logged.bytes));
            envelope.serve_from_room(position, sizes);
        }
        Some((envelope, needed))
    }

    /// The rooms' gates in the envelope, and what it takes to know them.
    fn gates_of(&self, steps: &Steps<'_>, logs: &[&Log], columns: &[Vec<u32>]) -> (Box<[Room]>, u32) {
        let shares = chances::shares(logs, columns, &self.irregular);
        let most = |count: &dyn Fn(&Vec<Irregular>) -> usize| self.irregular.iter().map(count).max().unwrap_or(0);
        let room = |(zone, (start, end)): (&Zone, (u32, u32))| {
            let behind = shares.get(zone.last as usize..).unwrap_or_default();
            let leave = || chances::leave(behind, most(&|irregular| zone.of(irregular).count()));
            Room { start, end, leave: if self.is_ordered { 1 } else { leave() } }
        };
        (self.zones.iter().zip(steps.gates()).map(room).collect(), chances::row(&shares, most(&Vec::len)))
    }

    /// The most bytes in use by irregular arrays that have no room.
    fn beside(&self) -> u64 {
        let is_beside = |one: &&Irregular| !self.zones.iter().any(|zone| zone.has(one));
        let beside = |irregular: &Vec<Irregular>| peak(irregular.iter().filter(is_beside));
        self.irregular.iter().map(beside).max().unwrap_or(0)
    }
}
