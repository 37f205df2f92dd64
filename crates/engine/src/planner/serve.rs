//! One allocation and one drop of a scope that plans or records.

use super::Planner;
use crate::device::Stream;
use crate::home::Shared;
use crate::record::{Dims, Record, Request};
use gpucache_plan::entries::{Answer, Deviation, Served};

/// The answer of a plan, its ring and a scope's lists to a request.
pub(crate) enum Resolved {
    Record(Box<Record>),
    /// The request should be carried, and the ring has no room. The ring may grow.
    RingIsShort,
    Nothing,
}

impl From<Option<Box<Record>>> for Resolved {
    fn from(record: Option<Box<Record>>) -> Resolved {
        record.map_or(Resolved::Nothing, Resolved::Record)
    }
}

impl Planner {
    /// Serves the request that the plan expects now, if nothing else has to be done. Makes no call, so that all values stay in
    /// registers.
    #[inline(always)]
    pub(crate) fn serve(
        &mut self,
        shared: &Shared,
        stream: &Stream,
        dims: &[usize],
        bytes: usize,
    ) -> Option<Box<Record>> {
        if stream.ready_id() != self.hot.fast_stream || !Dims::has_room(dims) {
            return None;
        }
        let Some(served) = self.hot.cursor.expects(bytes as u64) else {
            if !self.hot.cursor.carries(bytes as u64) {
                return None;
            }
            let mut record = self.serve_carried(shared, bytes)?;
            // Set here, where the number of dimensions is known.
            record.shape.set(dims);
            return Some(record);
        };
        let lease = &shared.lease;
        let before = lease.live();
        let live = before + bytes as u64;
        if live > self.hot.room {
            return None;
        }
        if !lease.raise(before, live) {
            return None;
        }
        let Some(mut record) = self.hot.records.pop() else {
            lease.lower(before);
            return None;
        };
        self.hot.cursor.step(served, bytes as u64);
        record.serve_position(bytes, self.hot.base + served.offset, served.position);
        record.shape.set(dims);
        Some(record)
    }

    /// Serves a position. If the arena was taken away, gives it up instead, and the entry goes on without it.
    pub(super) fn place(
        &mut self,
        served: Served,
        shared: &Shared,
        stream: &Stream,
        request: &Request<'_>,
    ) -> Option<Box<Record>> {
        let Served { position, offset, .. } = served;
        let before = shared.lease.live();
        let live = before + request.bytes as u64;
        let Some(arena) = self.hot.arena.filter(|_| shared.lease.insist(before, live)) else {
            self.hot.cursor.undo(position);
            self.lose(shared);
            return None;
        };
        let mut record = self.hot.records.pop().unwrap_or_else(|| Record::of_arena(stream, self.hot.door, arena));
        record.serve_position(request.bytes, self.hot.base + offset, position);
        record.shape.assign(request.dims);
        if live > self.hot.room {
            self.note_use(shared);
        }
        self.note(&mut record, request);
        Some(record)
    }

    /// Notes how much is in use, and how much may be in use before the next note.
    pub(super) fn note_use(&mut self, shared: &Shared) {
        let (live, in_ring) = (shared.lease.live(), shared.ring.live());
        self.footprint.peak = self.footprint.peak.max(live);
        let room = shared.counters.note_planned_use(live + in_ring, &shared.returns, shared.lent.bytes());
        self.hot.room = self.carry.set_room(room, in_ring).clamp(live, self.footprint.peak);
    }

    /// Notes that a block beside the plan was handed out or returned. It counts as use too, so the next planned request notes the
    /// use.
    #[inline]
    pub(crate) fn look_again(&mut self) {
        self.hot.room = 0;
        self.carry.look_again();
    }

    /// Answers a request of the plans' stream that [`serve`](Planner::serve) did not serve. Unless it `is_settled` that no more
    /// blocks return now, asks only for the expected position, since a returning block may make room in the plan.
    pub(crate) fn resolve(
        &mut self,
        shared: &Shared,
        request: &Request<'_>,
        stream: &Stream,
        is_settled: bool,
    ) -> Resolved {
        let bytes = request.bytes as u64;
        if bytes == 0 || !is_settled && self.hot.cursor.is_at_start() {
            return Resolved::Nothing;
        }
        if is_settled {
            self.choose_plan(shared, bytes, false);
            if self.hot.cursor.carries(bytes) {
                self.hot.cursor.step_aside();
                return self.carry(shared, request, stream);
            }
        }
        match self.hot.cursor.serve(bytes) {
            Some(served) => self.place(served, shared, stream, request).into(),
            None if is_settled => self.resolve_otherwise(shared, request, stream),
            None => Resolved::Nothing,
        }
    }

    /// Answers a request that does not fit the next position, or whose place is taken: by another plan, or out of order.
    fn resolve_otherwise(&mut self, shared: &Shared, request: &Request<'_>, stream: &Stream) -> Resolved {
        match self.plans.branch_off(&mut self.hot.cursor, request.bytes as u64) {
            true => self.resolve(shared, request, stream, true),
            false => self.resolve_off_order(shared, request, stream),
        }
    }

    /// Switches the plan if the first request of an entry belongs to another plan, or is smaller than any before. That request comes now, or
    /// `is_past`.
    pub(super) fn choose_plan(&mut self, shared: &Shared, bytes: u64, is_past: bool) {
        if !self.hot.cursor.is_at_start() || shared.lease.live() > 0 {
            return;
        }
        self.entry.first = bytes;
        if self.plans.switch_by_first_event(&mut self.hot.cursor, bytes, is_past) {
            self.begin_planned(shared);
        }
        if self.plans.may_shrink_to(bytes) {
            self.hot.cursor.begin_smaller(bytes);
        }
    }

    /// Notes that the arrays of a carried position may have so many bytes.
    fn widen_carried(&mut self, position: usize, bytes: u64) {
        let most = self.plans.envelope().and_then(|envelope| envelope.sizes_at(position)).map_or(0, |(_, most)| most);
        self.plans.widen(position, bytes);
        if let Some(envelope) = self.plans.envelope() {
            self.hot.cursor.widen_carried(position, most, envelope);
        }
    }

    fn resolve_off_order(&mut self, shared: &Shared, request: &Request<'_>, stream: &Stream) -> Resolved {
        let (bytes, expected) = (request.bytes as u64, self.hot.cursor.next());
        let Some(envelope) = self.plans.envelope() else { return Resolved::Nothing };
        if self.may_be_next() {
            self.note_deviation(Some(Deviation::Extra), request, expected);
            self.note_stray(shared, bytes);
            return Resolved::Nothing;
        }
        match self.hot.cursor.serve_off_order(bytes, envelope) {
            Answer::Carried(position) => {
                self.widen_carried(position, bytes);
                self.carry(shared, request, stream)
            }
            Answer::Served(served, deviation) => {
                if deviation.is_some() {
                    self.note_deviation(deviation, request, expected);
                }
                self.place(served, shared, stream, request).into()
            }
            Answer::Beside(Some(Deviation::Blocked { position })) if self.carry.is_there() => {
                self.serve_displaced(position, shared, request, stream)
            }
            Answer::Irregular(full_room) => {
                self.entry.irregular += 1;
                if let Some((position, needed)) = full_room.filter(|_| self.may_widen_room(shared, bytes)) {
                    self.plans.widen_room(position, needed);
                }
                Resolved::Nothing
            }
            Answer::Beside(deviation) => {
                self.note_deviation(deviation, request, expected);
                self.noted.beside += u64::from(deviation.is_some());
                self.note_stray(shared, bytes);
                Resolved::Nothing
            }
        }
    }

    /// Serves a position from the ring because something alive is in its place. The ring does not grow for that.
    fn serve_displaced(
        &mut self,
        position: usize,
        shared: &Shared,
        request: &Request<'_>,
        stream: &Stream,
    ) -> Resolved {
        if self.hot.cursor.is_live(position) {
            self.entry.overlapping = Some(position);
        }
        self.note_odd(request, position, true);
        match self.carry(shared, request, stream) {
            Resolved::Record(record) => {
                self.entry.displaced += 1;
                Resolved::Record(record)
            }
            Resolved::RingIsShort | Resolved::Nothing => {
                self.count(Some(Deviation::Blocked { position }), request.bytes as u64);
                Resolved::Nothing
            }
        }
    }

    /// Counts a deviation. Widens the plan for a larger request.
    pub(super) fn count(&mut self, deviation: Option<Deviation>, bytes: u64) {
        let seen = &mut self.entry.seen;
        match deviation {
            None => self.entry.aside += 1,
            Some(Deviation::Extra) => seen.extra += 1,
            Some(Deviation::Blocked { .. }) => seen.blocked += 1,
            Some(Deviation::Early { missing }) => {
                seen.reordered += 1;
                seen.missing += missing;
            }
            Some(Deviation::Late) => {
                seen.reordered += 1;
                seen.missing = seen.missing.saturating_sub(1);
            }
            Some(Deviation::Larger { position }) => {
                seen.larger += 1;
                self.plans.widen(position, bytes);
            }
            Some(Deviation::Resized { position, bytes }) => {
                seen.extra -= 1;
                seen.larger += 1;
                self.plans.widen(position, bytes);
            }
        }
    }

    /// Takes back the record of a live position, in an entry that is not recorded. Returns any other record to the caller. As in
    /// [`serve`](Planner::serve), makes no call, except for records of the ring.
    #[inline(always)]
    pub(crate) fn take_back(&mut self, shared: &Shared, record: Box<Record>) -> Option<Box<Record>> {
        if record.drop_path() != self.hot.fast_path {
            return self.take_back_beside(shared, record);
        }
        let lease = &shared.lease;
        let (position, bytes) = (record.position(), record.bytes as u64);
        self.hot.records.push(record);
        lease.lower(lease.live() - bytes);
        self.hot.cursor.take_back(position);
        None
    }

    /// As [`take_back`](Planner::take_back), for a record that the ring may have served.
    #[inline(always)]
    fn take_back_beside(&mut self, shared: &Shared, record: Box<Record>) -> Option<Box<Record>> {
        if record.drop_path() != self.carry.path {
            return Some(record);
        }
        self.take_back_carried(shared, record);
        None
    }

    /// Takes back the record of a live position or of the ring. Returns any other record to the caller.
    #[inline(never)]
    pub(crate) fn take_back_any(&mut self, shared: &Shared, record: Box<Record>) -> Option<Box<Record>> {
        self.note_drop(&record);
        if self.is_carried(&record) {
            self.take_back_carried(shared, record);
            return None;
        }
        let lease = &shared.lease;
        if record.arena().is_none_or(|arena| Some(arena) != self.hot.arena) {
            return Some(record);
        }
        self.hot.cursor.take_back(record.position());
        lease.lower(lease.live() - record.bytes as u64);
        self.hot.records.push(record);
        None
    }
}
