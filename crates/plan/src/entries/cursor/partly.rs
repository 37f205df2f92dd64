//! How the cursor serves an entry of which only a part is regular.
//!
//! A *room* is a position that is live while the arrays of its gaps are: so no other position uses its place. It has two gates. At its
//! start it becomes live. Between the gates, a request that is not the next regular one gets a part of the room ([`Extents`]). A part has
//! a number behind those of the positions.
//!
//! If entries have one order, also positions whose sizes vary are served from rooms (`serve_in_order`), and no gap has to be told from the rest.
//!
//! The gap is over when the regular allocations behind it come. An irregular request may look like the first of them. So as many in a row
//! are waited for as it takes to tell them from irregular ones (`Room::leave`); meanwhile they get parts of the room. In the same way
//! the cursor finds back if it is out of step (`Envelope::row`).

use super::{Answer, Cursor, Deviation, Evicted, Extents, IDLE, Served, WHOLE};
use crate::entries::envelope::{Envelope, Expected, FAR, LONGEST_ROW};

/// A row is searched once it may be there, and again after so many requests: a search takes as long as some ten requests.
const SEARCHES: usize = 16;
/// How many positions ahead a far larger request is searched: more than one expert has in one pass of one layer. A recorded Mixtral has up to 34 there.
/// Its steps in which some experts had no tokens were planned for 0.35 with 16, and for 0.96, 0.94 and 0.91 with 32, 48 and 128 (with the limit for
/// arenas of such plans).
const REACH: usize = 48;

impl Cursor {
    /// Begins an entry: rooms that nothing uses are not live.
    #[inline]
    pub(super) fn begin_rooms(&mut self) {
        if self.rooms.is_some() {
            self.close_rooms();
        }
    }

    #[cold]
    fn close_rooms(&mut self) {
        let Some(rooms) = &mut self.rooms else { return };
        (rooms.served, rooms.bytes) = (0, 0);
        (0..rooms.rooms.len()).for_each(|room| self.close_if_empty(room));
    }

    /// Answers a request that is not the expected one.
    pub(super) fn serve_partly(&mut self, bytes: u64, envelope: &Envelope) -> Answer {
        let has_moved = self.pass_starts();
        if let Some(answer) = self.skip_smaller(bytes, envelope).or_else(|| self.serve_in_order(bytes, envelope)) {
            return answer;
        }
        self.note_late(bytes);
        if let Some(answer) = self.serve_behind_other_size(bytes, envelope) {
            return answer;
        }
        if let Some(position) = self.end_of_gap().or_else(|| self.position_of_row()) {
            return self.go_on(position, bytes);
        }
        if has_moved && let Some(served) = self.serve(bytes) {
            return Answer::Served(served, None);
        }
        let answer = envelope.at(self.next).and_then(|expected| self.leave_next(bytes, expected));
        answer.unwrap_or_else(|| self.serve_irregular(bytes))
    }

    /// Serves the expected position from a room, if entries have one order and the position's sizes vary. It takes any size: a batch may give an
    /// expert a hundredth of what another one gets.
    fn serve_in_order(&mut self, bytes: u64, envelope: &Envelope) -> Option<Answer> {
        let expected = envelope.at(self.next).filter(|expected| expected.is_in_room())?;
        // A size unlike all others may belong to another position.
        let is_like = expected.is_like(bytes);
        let is_larger = bytes > expected.most && !is_like;
        if is_larger {
            self.note_late(bytes);
            if let Some(position) = self.position_of_row() {
                return Some(self.go_on(position, bytes));
            }
        }
        let answer = self.serve_irregular(bytes);
        let room = self.room_here();
        self.step_aside();
        if is_larger {
            self.expect_late();
        }
        Some(match (answer, room) {
            (Answer::Irregular(_), Some((_, position))) if is_like => {
                Answer::Irregular(Some((position, self.positions[position].size().saturating_add(bytes))))
            }
            (answer, _) => answer,
        })
    }

    /// In entries of one order, serves a regular position ahead if the request is its own, and far larger than all before of the expected one: an
    /// expert without any work allocates nothing.
    fn skip_smaller(&mut self, bytes: u64, envelope: &Envelope) -> Option<Answer> {
        self.rooms.as_ref().filter(|rooms| rooms.in_order > 0)?;
        envelope.at(self.next).filter(|expected| bytes > expected.most && !expected.is_like(bytes))?;
        let mut ahead = self.next + 1..self.positions.len().min(self.next + REACH);
        let found =
            ahead.find(|&position| self.positions[position].is_planned() && self.positions[position].fits(bytes))?;
        self.rooms.as_ref().is_some_and(|rooms| rooms.gate(found).is_none()).then(|| self.go_on(found, bytes))
    }

    /// In entries of one order, serves the position behind the expected one. The request before was the expected one's, in another size: two requests
    /// in a row did not fit it, and the second one fits the position behind.
    fn serve_behind_other_size(&mut self, bytes: u64, envelope: &Envelope) -> Option<Answer> {
        self.rooms.as_ref().filter(|rooms| rooms.in_order > 0 && rooms.lately == 2)?;
        let behind = self.next + 1;
        if envelope.at(behind)?.is_in_room() {
            self.leave_behind(self.next);
            return self.serve_in_order(bytes, envelope);
        }
        self.positions.get(behind)?.fits(bytes).then(|| self.go_on(behind, bytes))
    }

    /// Steps over the expected position if the request is its own, although its place is taken, or it has none.
    fn leave_next(&mut self, bytes: u64, expected: &Expected) -> Option<Answer> {
        if expected.is_planned() {
            return self.positions[self.next].fits(bytes).then(|| self.leave_blocked());
        }
        self.may_be_placeless(bytes, expected).then(|| {
            self.step_aside();
            Answer::Beside(None)
        })
    }

    /// Passes the starts of rooms that come next. Returns whether there were any.
    fn pass_starts(&mut self) -> bool {
        let mut has_moved = false;
        while let Some((room, gates)) = self.rooms.as_ref().and_then(|rooms| rooms.gate(self.next))
            && gates.start as usize == self.next
        {
            self.open(room);
            has_moved = true;
        }
        has_moved
    }

    /// Notes a request that the expected position did not serve.
    fn note_late(&mut self, bytes: u64) {
        let next = self.next;
        let Some(rooms) = &mut self.rooms else { return };
        if std::mem::replace(&mut rooms.expected, next) != next {
            rooms.lately = 0;
        }
        rooms.late.rotate_left(1);
        rooms.late[LONGEST_ROW - 1] = bytes;
        rooms.lately = rooms.lately.saturating_add(1);
    }

    /// Lets the next request that is noted follow the last one, although the cursor has moved.
    fn expect_late(&mut self) {
        let next = self.next;
        self.rooms.iter_mut().for_each(|rooms| rooms.expected = next);
    }

    /// The position that this request has, if it and those before it show that the gap is over.
    fn end_of_gap(&self) -> Option<usize> {
        let rooms = self.rooms.as_ref()?;
        let (_, gates) = rooms.gate(self.next)?;
        let row = (gates.leave as usize).min(self.positions.len() - self.next - 1);
        self.has_row(self.next + 1, row).then(|| self.next + row)
    }

    /// The position ahead that this request has, if it and those before it show where the entry is.
    fn position_of_row(&self) -> Option<usize> {
        let rooms = self.rooms.as_ref().filter(|rooms| rooms.lately == rooms.row || rooms.lately % SEARCHES == 0)?;
        let mut ahead = self.next + 1..(self.positions.len() + 1).saturating_sub(rooms.row).min(self.next + FAR);
        ahead.find(|&position| self.has_row(position, rooms.row)).map(|position| position + rooms.row - 1)
    }

    /// Whether the last requests fit these positions.
    fn has_row(&self, position: usize, row: usize) -> bool {
        let Some(rooms) = self.rooms.as_ref().filter(|rooms| (1..=rooms.lately.min(LONGEST_ROW)).contains(&row)) else {
            return false;
        };
        let late = &rooms.late[LONGEST_ROW - row..];
        let Some(positions) = self.positions.get(position..position + row) else { return false };
        positions.iter().zip(late).all(|(position, &bytes)| position.fits(bytes))
    }

    /// Continues with a position, and passes over those before it.
    fn go_on(&mut self, found: usize, bytes: u64) -> Answer {
        while self.next < found {
            let gate = self.rooms.as_ref().and_then(|rooms| rooms.gate(self.next));
            self.leave_behind(self.next);
            if let Some((room, _)) = gate {
                self.close_if_empty(room);
            }
        }
        if let Some(served) = self.serve(bytes) {
            return Answer::Served(served, None);
        }
        if self.positions[found].is_planned() { self.leave_blocked() } else { self.step_over() }
    }

    /// Steps over the expected position, whose place is taken.
    fn leave_blocked(&mut self) -> Answer {
        let position = self.next;
        self.leave_behind(position);
        Answer::Beside(Some(Deviation::Blocked { position }))
    }

    /// Passes the start of a room, and makes the room live if nothing is in its place.
    fn open(&mut self, room: usize) {
        let start = self.next;
        if !self.is_free(start) || self.is_live(start) || !self.positions[start].is_planned() {
            return self.leave_behind(start);
        }
        self.step_aside();
        self.lives[start] = WHOLE;
        self.rooms.iter_mut().for_each(|rooms| rooms.rooms[room].is_open = true);
    }

    fn close_if_empty(&mut self, room: usize) {
        let Some(room) = self.rooms.as_mut().map(|rooms| &mut rooms.rooms[room]) else { return };
        if room.is_open && room.extents.is_empty() {
            room.is_open = false;
            room.extents = Extents::new(room.bytes);
            let start = room.gates.start;
            self.take_back(start);
        }
    }

    /// Whether only gates are left of the entry.
    pub(super) fn has_gates_left(&self) -> bool {
        let Some(rooms) = &self.rooms else { return false };
        (self.next..self.positions.len()).all(|position| rooms.gate(position).is_some())
    }

    /// Serves a request that is not regular.
    pub(super) fn serve_irregular(&mut self, bytes: u64) -> Answer {
        let Some((room, start)) = self.room_here() else { return Answer::Irregular(None) };
        let base = self.positions[start].start();
        match self.rooms.as_mut().and_then(|rooms| rooms.take(room, bytes)) {
            Some((position, offset)) => {
                Answer::Served(Served { position, offset: base + offset, is_whole: true }, None)
            }
            None => Answer::Irregular(None),
        }
    }

    /// The open room for a request that comes now, and the position of its start.
    fn room_here(&self) -> Option<(usize, usize)> {
        let rooms = self.rooms.as_ref()?;
        let place = rooms.before(self.next)?;
        let room = &rooms.rooms[place];
        let start = room.gates.start as usize;
        let is_here = self.next <= room.gates.end as usize;
        (room.is_open && (is_here || self.next < room.upper as usize)).then_some((place, start))
    }

    /// Takes back a part of a room.
    #[cold]
    pub(super) fn take_back_part(&mut self, number: u32) {
        let next = self.next as u32;
        let Some(rooms) = &mut self.rooms else { return };
        let Some(room) = rooms.take_back(number) else { return };
        let gates = rooms.rooms[room].gates;
        if next <= gates.start || next > gates.end {
            self.close_if_empty(room);
        }
    }

    /// Takes all parts out of their rooms, and empties the rooms.
    pub(super) fn evict_parts(&mut self, evicted: &mut Vec<Evicted>) {
        let Some(rooms) = &mut self.rooms else { return };
        for (place, part) in rooms.parts.iter().enumerate().filter(|(_, part)| part.bytes > 0) {
            let start = rooms.rooms[part.room as usize].gates.start as usize;
            let (position, offset) = (rooms.first + place as u32, self.positions[start].start() + part.offset);
            evicted.push(Evicted { position, piece: 0, offset, bytes: part.bytes });
        }
        rooms.parts.clear();
        rooms.idle.clear();
        for room in &mut rooms.rooms {
            room.extents = Extents::new(room.bytes);
            if std::mem::take(&mut room.is_open) {
                self.lives[room.gates.start as usize] = IDLE;
            }
        }
    }

    /// Whether only a part of each entry is planned in order.
    #[inline]
    pub fn is_partial(&self) -> bool {
        self.rooms.is_some()
    }

    /// How many regular positions the entry left out, if only a part of it is regular.
    pub fn left_out(&self) -> u64 {
        let Some(rooms) = &self.rooms else { return 0 };
        let gates: usize =
            rooms.rooms.iter().map(|room| 1 + usize::from(room.gates.end < self.positions.len() as u32)).sum();
        let served = (self.next as u64).wrapping_sub(self.passed_over);
        ((self.positions.len() - gates - rooms.in_order) as u64).saturating_sub(served)
    }

    /// How many requests of this entry got a part of a room.
    #[inline]
    pub(super) fn parts_served(&self) -> u64 {
        self.rooms.as_ref().map_or(0, |rooms| rooms.served)
    }
}
