//! The rooms of an envelope of which only a part is regular.

use super::{Envelope, Expected, Kind};

/// A position that serves several arrays, which are in no known order. Between its two gates, the entry allocates them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::entries) struct Room {
    /// The position that has the room's place. A program never asks for it.
    pub(in crate::entries) start: u32,
    /// A position without a place, or the number of positions.
    pub(in crate::entries) end: u32,
    /// How many of the allocations behind the end, in a row, show that it is reached.
    pub(in crate::entries) leave: u32,
}

/// The most allocations in a row that are waited for, to tell where an entry is. With four sizes, eight are one in 65,536.
pub(in crate::entries) const LONGEST_ROW: usize = 16;
/// How many positions ahead of the expected one a row is searched: more than a program leaves out at once, as a rule.
pub(in crate::entries) const FAR: usize = 256;

/// The fewest bytes that a regular position serves, if so many were seen. A few entries seldom show the smallest sizes, so half of the known
/// spread is added: 150 random programs are planned for 0.95 instead of 0.94 times as many allocations as are regular. All of it gives 0.97,
/// but a multigrid solver then reserves 1.08 times its live memory.
pub(in crate::entries) fn least_served(least: u64, most: u64) -> u64 {
    least.saturating_sub(most.saturating_sub(least) / 2).max(1)
}

impl Room {
    /// Whether this position is one of its gates.
    pub(in crate::entries) fn has_gate(self, position: usize) -> bool {
        [self.start, self.end].contains(&(position as u32))
    }
}

impl Envelope {
    /// The envelope with these rooms, whose gates are positions of it, and with the sizes that the cursor serves. So many allocations in a
    /// row show the position of an entry.
    pub(in crate::entries) fn with_rooms(mut self, rooms: Box<[Room]>, row: u32) -> Envelope {
        for Expected { least, most, .. } in self.positions.iter_mut().filter(|expected| expected.varies()) {
            *least = least_served(*least, *most);
        }
        for room in &rooms {
            if let Some(end) = self.positions.get_mut(room.end as usize) {
                end.kind = Kind::Beside;
            }
        }
        Envelope { rooms, row: Some(row), ..self }
    }

    /// Lets a room serve the requests of a position, which had these sizes so far.
    pub(in crate::entries) fn serve_from_room(&mut self, position: usize, sizes: impl Iterator<Item = u64>) {
        if let Some(expected) = self.positions.get_mut(position) {
            let (least, most) = sizes.fold((u64::MAX, 0), |(least, most), bytes| (bytes.min(least), bytes.max(most)));
            (expected.least, expected.most, expected.kind) = (least.min(most), most, Kind::InRoom);
        }
    }

    /// Whether it is that of the regular part of its entries.
    pub fn is_partial(&self) -> bool {
        self.row.is_some()
    }

    /// Whether it is partial, and the allocations of its entries come in one order: rooms serve those whose sizes vary.
    pub fn is_in_order(&self) -> bool {
        self.positions.iter().any(Expected::is_in_room)
    }

    /// The rooms for what is not regular.
    pub(in crate::entries) fn rooms(&self) -> &[Room] {
        &self.rooms
    }

    /// How many allocations in a row show the position of an entry; `None` if the whole entry is regular.
    pub(in crate::entries) fn row(&self) -> Option<u32> {
        self.row
    }
}
