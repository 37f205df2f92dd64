//! One allocation and one drop of a scope that plans or records.

use super::Planner;
use crate::base::key::{Request, Shape};
use crate::cache::lease::Lease;
use crate::cache::record::Record;
use crate::cache::shared::Shared;
use crate::device::Stream;
use crate::plan::{Answer, Deviation, Served};

impl Planner {
    /// Serves the request that the plan expects now, if nothing else is to be done: no call is made from here, so that
    /// all stays in registers.
    #[inline(always)]
    pub(in crate::cache) fn serve(
        &mut self,
        lease: &Lease,
        stream: &Stream,
        dims: &[usize],
        bytes: usize,
    ) -> Option<Box<Record>> {
        if stream.ready_id() != self.fast_stream || !Shape::has_room(dims) {
            return None;
        }
        let served = self.cursor.expects(bytes as u64)?;
        let before = lease.live();
        let live = before + bytes as u64;
        if live > self.room {
            return None;
        }
        if !lease.raise(before, live) {
            return None;
        }
        let Some(mut record) = self.records.pop() else {
            lease.lower(before);
            return None;
        };
        self.cursor.step(served, bytes as u64);
        record.place(bytes, self.base + served.offset, served.position);
        record.shape.set(dims);
        Some(record)
    }

    /// Serves a position, unless the block was taken away: then it is given up, and the entry goes on without it.
    fn place(
        &mut self,
        served: Served,
        shared: &Shared,
        stream: &Stream,
        request: &Request<'_>,
    ) -> Option<Box<Record>> {
        let Served { position, offset, .. } = served;
        let before = shared.lease.live();
        let live = before + request.bytes as u64;
        if !shared.lease.insist(before, live) {
            self.cursor.take_back(position);
            self.lose(shared);
            return None;
        }
        let mut record = self.records.pop().unwrap_or_else(|| Record::planned(stream, self.door, self.epoch));
        record.place(request.bytes, self.base + offset, position);
        record.shape.assign(request.dims);
        if live > self.room {
            self.note_use(shared, live);
        }
        self.note(&mut record);
        Some(record)
    }

    /// Notes how much is in use, and how much may be before the next note.
    fn note_use(&mut self, shared: &Shared, live: u64) {
        self.peak = self.peak.max(live);
        self.room = shared.counters.note_planned(live, &shared.returns).clamp(live, self.peak);
    }

    /// Something beside the plan was handed out or came back, which counts as well.
    #[inline]
    pub(in crate::cache) fn look_again(&mut self) {
        self.room = 0;
    }

    /// Whether there is a plan to go by for requests of this stream.
    #[inline]
    pub(in crate::cache) fn is_serving(&self, stream: u64) -> bool {
        stream == self.stream
    }

    /// As [`serve`](Planner::serve), where more is to be done than to serve.
    #[inline(never)]
    pub(in crate::cache) fn serve_expected(
        &mut self,
        shared: &Shared,
        request: &Request<'_>,
        stream: &Stream,
    ) -> Option<Box<Record>> {
        // The first request of an entry may tell of another plan.
        let served = if self.cursor.is_at_start() { None } else { self.cursor.serve(request.bytes as u64) }?;
        self.place(served, shared, stream, request)
    }

    /// Serves a request, in order or out of it, if the plan has a place for it.
    pub(in crate::cache) fn serve_any(
        &mut self,
        shared: &Shared,
        request: &Request<'_>,
        stream: &Stream,
    ) -> Option<Box<Record>> {
        let bytes = request.bytes as u64;
        if stream.id() != self.stream || bytes == 0 {
            return None;
        }
        let may_switch = self.cursor.is_at_start() && shared.lease.live() == 0;
        if may_switch && self.plans.switch_by_first_event(&mut self.cursor, bytes) {
            self.begin_planned(shared);
        }
        let served = self.cursor.serve(bytes).or_else(|| self.serve_off_order(bytes))?;
        self.place(served, shared, stream, request)
    }

    fn serve_off_order(&mut self, bytes: u64) -> Option<Served> {
        let (served, deviation) = match self.cursor.serve_off_order(bytes, self.plans.envelope()?) {
            Answer::Served(served, None) => return Some(served),
            Answer::Served(served, deviation) => (Some(served), deviation),
            Answer::Beside(deviation) => (None, deviation),
        };
        self.count(deviation, bytes);
        served
    }

    fn count(&mut self, deviation: Option<Deviation>, bytes: u64) {
        let seen = &mut self.entry.seen;
        match deviation {
            None => self.entry.aside += 1,
            Some(Deviation::Extra) => seen.extra += 1,
            Some(Deviation::Blocked) => seen.blocked += 1,
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

    /// Takes the record of a live position back, in an entry that is not recorded; hands out any other one. As in
    /// [`serve`](Planner::serve), no call is made from here but for what is displaced.
    #[inline(always)]
    pub(in crate::cache) fn take_back(&mut self, lease: &Lease, record: Box<Record>) -> Option<Box<Record>> {
        if record.ticket() != self.fast_epoch {
            return Some(record);
        }
        let (position, bytes) = (record.list(), record.bytes() as u64);
        self.records.push(record);
        lease.lower(lease.live() - bytes);
        self.cursor.take_back(position);
        None
    }

    /// Takes the record of a live position back; hands out any other one.
    #[inline(never)]
    pub(in crate::cache) fn take_back_any(&mut self, lease: &Lease, record: Box<Record>) -> Option<Box<Record>> {
        self.note_drop(&record);
        if record.home().generation != self.epoch {
            return Some(record);
        }
        self.cursor.take_back(record.list());
        lease.lower(lease.live() - record.bytes() as u64);
        self.records.push(record);
        None
    }

    /// If the record was evicted from a block: gives it the memory that is its own now.
    #[cold]
    pub(in crate::cache) fn take_evicted(&mut self, record: &mut Record) -> bool {
        let place = (record.home().generation, record.list());
        let Some((block, generation)) = self.evicted.remove(&place) else { return false };
        record.evict(block, generation);
        true
    }

    /// Notes an allocation in what is recorded.
    #[inline]
    pub(in crate::cache) fn note(&mut self, record: &mut Record) {
        if self.is_recording {
            self.record(record);
        }
    }

    #[inline(never)]
    fn record(&mut self, record: &mut Record) {
        if !self.entry.has_stream {
            self.entry.has_stream = true;
            self.learner.log_mut().begin(record.stream().id());
            if self.recorded.as_ref().is_none_or(|known| known.id() != record.stream().id()) {
                self.errands.streams.extend(self.recorded.replace(record.stream().clone()));
            }
        }
        let (stream, bytes) = (record.stream().id(), record.bytes() as u64);
        let number = self.learner.log_mut().allocated(stream, bytes);
        // No entry has the number 0.
        record.recorded = number.map_or((0, 0), |number| (self.entry.number, number));
    }

    /// Notes a drop in what is recorded.
    #[inline]
    pub(in crate::cache) fn note_drop(&mut self, record: &Record) {
        if self.is_recording && record.recorded.0 == self.entry.number {
            self.learner.log_mut().dropped(record.recorded.1);
        }
    }
}
