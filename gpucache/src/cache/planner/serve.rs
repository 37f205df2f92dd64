//! One allocation and one drop of a scope that plans or records.

use super::Planner;
use crate::base::key::{Extent, Request, Shape};
use crate::cache::block::Record;
use crate::cache::shared::Shared;
use crate::device::Stream;
use crate::plan::{Answer, Deviation, Served};

impl Planner {
    /// Serves the request that the plan expects now.
    #[inline]
    pub(in crate::cache) fn serve(
        &mut self,
        shared: &Shared,
        stream: &Stream,
        dims: &[usize],
        extent: Extent,
    ) -> Option<Box<Record>> {
        if stream.id() != self.fast_stream {
            return None;
        }
        let served = self.cursor.serve(extent.bytes as u64)?;
        Some(self.place(served, shared, stream, dims, extent))
    }

    #[inline]
    fn place(
        &mut self,
        served: Served,
        shared: &Shared,
        stream: &Stream,
        dims: &[usize],
        extent: Extent,
    ) -> Box<Record> {
        let Served { position, offset } = served;
        let mut record = self.records.pop().unwrap_or_else(|| Record::planned(stream, self.cache));
        record.place(extent, self.base + offset, self.epoch, position);
        if !record.take_shape(dims) {
            self.place_long_shape(&mut record, dims, position);
        }
        if self.cursor.live_bytes() > self.room {
            self.note_use(shared);
        }
        record
    }

    /// Notes how much is in use, and how much may be before the next note.
    fn note_use(&mut self, shared: &Shared) {
        let live = self.cursor.live_bytes();
        self.peak = self.peak.max(live);
        self.room = shared.counters.note_planned(live, &shared.returns).clamp(live, self.peak);
    }

    /// Something beside the plan was handed out or came back, which counts as well.
    #[inline]
    pub(in crate::cache) fn look_again(&mut self) {
        self.room = 0;
    }

    /// Long shapes are kept by position, so that their next life does not allocate on the host.
    #[cold]
    fn place_long_shape(&mut self, record: &mut Record, dims: &[usize], position: u32) {
        let known = self.shapes.entry((self.plans.active(), position)).or_insert_with(|| Shape::new(dims));
        if known.dims() != dims {
            *known = Shape::new(dims);
        }
        record.set_shape(known);
    }

    /// Whether there is a plan to go by for requests of this stream.
    #[inline]
    pub(in crate::cache) fn is_serving(&self, stream: u64) -> bool {
        stream == self.stream
    }

    /// Bytes in use that the plan serves.
    #[inline]
    pub(in crate::cache) fn live_bytes(&self) -> u64 {
        self.cursor.live_bytes()
    }

    /// Serves a request, in order or out of it, if the plan has a place for it.
    pub(in crate::cache) fn serve_any(
        &mut self,
        shared: &Shared,
        request: &Request<'_>,
        stream: &Stream,
    ) -> Option<Box<Record>> {
        let &Request { dims, len, bytes, .. } = request;
        let extent = Extent { len, bytes };
        let bytes = bytes as u64;
        if stream.id() != self.stream || bytes == 0 {
            return None;
        }
        if self.cursor.is_at_start() && self.plans.switch_by_first_event(&mut self.cursor, bytes) {
            self.begin_planned();
        }
        let served = self.cursor.serve(bytes).or_else(|| self.serve_off_order(bytes))?;
        let mut record = self.place(served, shared, stream, dims, extent);
        self.note(&mut record);
        Some(record)
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

    /// Takes the record of a live position back, in an entry that is not recorded; hands out any other one.
    #[inline]
    pub(in crate::cache) fn take_back(&mut self, record: Box<Record>) -> Option<Box<Record>> {
        let home = record.home();
        if home.generation != self.fast_epoch {
            return Some(record);
        }
        self.cursor.take_back(home.list, record.bytes() as u64);
        self.records.push(record);
        None
    }

    /// Takes the record of a live position back; hands out any other one.
    pub(in crate::cache) fn take_back_any(&mut self, record: Box<Record>) -> Option<Box<Record>> {
        self.note_drop(&record);
        if record.home().generation == self.epoch {
            self.fast_epoch = self.epoch;
        }
        let rest = self.take_back(record);
        if self.is_recording {
            self.fast_epoch = 0;
        }
        rest
    }

    /// If the record was evicted from a block: gives it the memory that is its own now.
    pub(in crate::cache) fn take_evicted(&mut self, record: &mut Record) -> bool {
        let home = record.home();
        let Some((block, generation)) = self.evicted.remove(&(home.generation, home.list)) else { return false };
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
