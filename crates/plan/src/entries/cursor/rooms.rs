//! The rooms of a plan: which parts of them serve arrays.

use super::{Extents, Position, SENTINELS};
use crate::entries::envelope::{Envelope, Expected, LONGEST_ROW, Room};

/// The rooms of a plan.
#[derive(Debug)]
pub(super) struct Rooms {
    pub(super) rooms: Vec<Open>,
    pub(super) parts: Vec<Suballocation>,
    /// Parts that are not in use.
    pub(super) idle: Vec<u32>,
    /// The number of the first part.
    pub(super) first: u32,
    /// Requests of this entry that got a part, and their bytes.
    pub(super) served: u64,
    pub(super) bytes: u64,
    /// The last requests that were not regular, how many these are, and the position that was expected meanwhile.
    pub(super) late: [u64; LONGEST_ROW],
    pub(super) lately: usize,
    pub(super) expected: usize,
    /// How many in a row show the position of the entry.
    pub(super) row: usize,
    /// The number of positions that rooms serve in order.
    pub(super) in_order: usize,
}

/// A room, and what it serves now.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) gates: Room,
    /// The position from which on others use its place.
    pub(super) upper: u32,
    pub(super) bytes: u64,
    pub(super) extents: Extents,
    /// Whether the position is live as a room. A request that happens to have the room's size gets the position as any other.
    pub(super) is_open: bool,
}

/// A part of a room that serves an array.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suballocation {
    pub(super) room: u32,
    /// From the start of the room.
    pub(super) offset: u64,
    /// 0 if it is not in use.
    pub(super) bytes: u64,
}

impl Rooms {
    pub(super) fn of(envelope: &Envelope, positions: &[Position]) -> Option<Box<Rooms>> {
        let open = |&gates: &Room| {
            let bytes = positions.get(gates.start as usize).map_or(0, Position::size);
            let start = envelope.at(gates.start as usize).filter(|expected| expected.is_planned());
            let upper = start.map_or(gates.end, |expected| expected.upper);
            Open { gates, upper, bytes, extents: Extents::new(bytes), is_open: false }
        };
        let row = (envelope.row()? as usize).min(LONGEST_ROW);
        let rooms: Vec<Open> = envelope.rooms().iter().map(open).collect();
        let first = (positions.len() + SENTINELS.len()) as u32;
        let (parts, idle, late) = (Vec::new(), Vec::new(), [0; LONGEST_ROW]);
        let in_order =
            (0..positions.len()).filter(|&place| envelope.at(place).is_some_and(Expected::is_in_room)).count();
        let (served, bytes, lately, expected) = (0, 0, 0, 0);
        Some(Box::new(Rooms { rooms, parts, idle, first, served, bytes, late, lately, expected, row, in_order }))
    }

    /// The last room whose start is before this position.
    pub(super) fn before(&self, position: usize) -> Option<usize> {
        self.rooms.partition_point(|room| (room.gates.start as usize) < position).checked_sub(1)
    }

    /// The room that begins or ends at this position.
    pub(super) fn gate(&self, position: usize) -> Option<(usize, Room)> {
        let room = self.before(position + 1)?;
        Some((room, self.rooms[room].gates))
            .filter(|(_, gates)| gates.has_gate(position) && position + SENTINELS.len() < self.first as usize)
    }

    /// How many rooms and parts are in use.
    pub(super) fn live(&self) -> (u64, u64) {
        let rooms = self.rooms.iter().filter(|room| room.is_open).count();
        (rooms as u64, (self.parts.len() - self.idle.len()) as u64)
    }

    /// Gives out a part of a room.
    pub(super) fn take(&mut self, room: usize, bytes: u64) -> Option<(u32, u64)> {
        let offset = self.rooms[room].extents.take(bytes)?;
        let part = Suballocation { room: room as u32, offset, bytes };
        let place = match self.idle.pop() {
            Some(place) => {
                self.parts[place as usize] = part;
                place
            }
            None => {
                self.parts.push(part);
                self.parts.len() as u32 - 1
            }
        };
        self.served += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        Some((self.first + place, offset))
    }

    /// Takes back a part. Returns its room.
    pub(super) fn take_back(&mut self, number: u32) -> Option<usize> {
        let place = number.checked_sub(self.first)?;
        let part = self.parts.get_mut(place as usize).filter(|part| part.bytes > 0)?;
        let room = part.room as usize;
        self.rooms[room].extents.free(part.offset, std::mem::take(&mut part.bytes));
        self.idle.push(place);
        Some(room)
    }
}
