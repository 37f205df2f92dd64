//! What is noted of the allocations and drops of an entry that is recorded.

use super::Planner;
use crate::home::Shared;
use crate::record::{Record, Request};

impl Planner {
    /// Notes an allocation in what is recorded, and watches it in an entry that is watched.
    #[inline]
    pub(crate) fn note(&mut self, shared: &Shared, record: &mut Record, request: &Request<'_>) {
        if self.learning.notes {
            self.note_closely(shared, record, request);
        }
    }

    #[inline(never)]
    fn note_closely(&mut self, shared: &Shared, record: &mut Record, request: &Request<'_>) {
        if self.learning.is_recording {
            self.record(record, request);
        }
        if self.learning.is_watching {
            self.watch(shared, record, request);
        }
    }

    fn record(&mut self, record: &mut Record, request: &Request<'_>) {
        let learning = &mut self.learning;
        if !self.entry.has_stream {
            self.entry.has_stream = true;
            learning.learner.log_mut().begin(record.stream().id());
            if learning.stream.as_ref().is_none_or(|known| known.id() != record.stream().id()) {
                self.effects.streams.extend(learning.stream.replace(record.stream().clone()));
            }
        }
        let (stream, bytes) = (record.stream().id(), record.bytes() as u64);
        let number = learning.learner.log_mut().allocated(stream, bytes);
        if bytes > 0 {
            self.note_recorded(request, number);
        }
        // No entry has the number 0.
        record.recorded = number.map_or((0, 0), |number| (mark(self.entry.number), number));
    }

    /// Notes a drop in what is recorded.
    #[inline]
    pub(super) fn note_drop(&mut self, record: &Record) {
        if !self.learning.is_recording {
            return;
        }
        let (entry, number) = record.recorded;
        let log = self.learning.learner.log_mut();
        if entry == mark(self.entry.number) {
            log.dropped(number);
        } else if entry == mark(self.entry.number - 1) {
            log.dropped_of_before(number);
        }
    }
}

/// What a record has room for of an entry's number: no record is alive, and recorded, for as many entries as have different ones.
fn mark(entry: u64) -> u32 {
    entry as u32
}
