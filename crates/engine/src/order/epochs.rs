//! The epochs of one stream, and the events of its closed epochs. This is plain data; it calls no device.
//!
//! Invariants: epochs are numbered from 1. Epochs up to `done` are known to be complete. After them comes one epoch for each of `events`;
//! the event is behind all work of its epoch and of those before. The last epoch is the open one. No event is in two places.

use std::collections::VecDeque;

/// A point in a stream's work: the end of the epoch with this number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Epoch(pub(super) u64);

impl Epoch {
    /// The epoch of this number, which a stream reported.
    pub(crate) fn numbered(number: u64) -> Epoch {
        Epoch(number)
    }
}

/// The known state of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EpochState<E> {
    Complete,
    /// It has an event, which was not complete at the last query.
    Closed(E),
    Open,
}

pub(super) struct Epochs<E> {
    done: u64,
    /// The oldest event comes first.
    events: VecDeque<E>,
    spare: Vec<E>,
}

impl<E> Default for Epochs<E> {
    fn default() -> Epochs<E> {
        Epochs { done: 0, events: VecDeque::new(), spare: Vec::new() }
    }
}

impl<E> Epochs<E> {
    /// The epoch of work that is put on the stream now.
    #[inline]
    pub(super) fn open(&self) -> Epoch {
        Epoch(self.newest().0 + 1)
    }

    /// The state of an epoch. An epoch that has not begun counts as open.
    #[inline]
    pub(super) fn progress(&self, epoch: Epoch) -> EpochState<&E> {
        match epoch.0.checked_sub(self.done + 1) {
            None => EpochState::Complete,
            Some(place) => self.events.get(place as usize).map_or(EpochState::Open, EpochState::Closed),
        }
    }

    /// The first epoch that is not known to be complete.
    pub(super) fn oldest(&self) -> Epoch {
        Epoch(self.done + 1)
    }

    /// The last closed epoch.
    pub(super) fn newest(&self) -> Epoch {
        Epoch(self.done + self.events.len() as u64)
    }

    /// Closes the open epoch with an event that was recorded behind all work.
    pub(super) fn close(&mut self, event: E) {
        self.events.push_back(event);
    }

    /// Takes an event that can be recorded again.
    pub(super) fn take_spare(&mut self) -> Option<E> {
        self.spare.pop()
    }

    pub(super) fn put_spare(&mut self, event: E) {
        self.spare.push(event);
    }

    /// Notes that all work up to the end of a closed epoch is complete.
    pub(super) fn complete(&mut self, epoch: Epoch) {
        let closed = epoch.0.saturating_sub(self.done).min(self.events.len() as u64);
        self.done += closed;
        self.spare.extend(self.events.drain(..closed as usize));
    }

    /// Notes that all work so far is complete. This includes the open epoch and ends it.
    pub(super) fn finish(&mut self) {
        self.done = self.open().0;
        self.spare.extend(self.events.drain(..));
    }

    /// Drops all events of a stream whose work is complete.
    pub(super) fn retire(&mut self) {
        self.finish();
        self.spare = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::{Epoch, EpochState, Epochs};

    #[test]
    fn epochs_close_and_complete_in_order() {
        let mut epochs = Epochs::default();
        assert_eq!((epochs.open(), epochs.progress(Epoch(1))), (Epoch(1), EpochState::Open));
        ('a'..='c').for_each(|event| epochs.close(event));
        assert_eq!(
            (epochs.open(), epochs.progress(Epoch(4)), epochs.progress(Epoch(9))),
            (Epoch(4), EpochState::Open, EpochState::Open)
        );
        assert_eq!(
            (epochs.progress(Epoch(0)), epochs.progress(Epoch(2))),
            (EpochState::Complete, EpochState::Closed(&'b'))
        );
        assert_eq!((epochs.oldest(), epochs.newest()), (Epoch(1), Epoch(3)));

        epochs.complete(Epoch(2));
        assert_eq!(
            (epochs.progress(Epoch(2)), epochs.progress(Epoch(3))),
            (EpochState::Complete, EpochState::Closed(&'c'))
        );
        assert_eq!((epochs.take_spare(), epochs.take_spare(), epochs.take_spare()), (Some('b'), Some('a'), None));
        epochs.complete(Epoch(1));
        assert_eq!((epochs.open(), epochs.oldest()), (Epoch(4), Epoch(3)));
        epochs.complete(Epoch(100));
        assert_eq!((epochs.open(), epochs.progress(Epoch(4))), (Epoch(4), EpochState::Open));
    }

    #[test]
    fn what_is_finished_is_complete_and_closed() {
        let mut epochs = Epochs::default();
        epochs.close('a');
        epochs.finish();
        assert_eq!((epochs.progress(Epoch(2)), epochs.progress(Epoch(3))), (EpochState::Complete, EpochState::Open));
        assert_eq!((epochs.open(), epochs.take_spare()), (Epoch(3), Some('a')));
        epochs.put_spare('a');
        epochs.retire();
        assert_eq!((epochs.open(), epochs.take_spare()), (Epoch(4), None));
    }
}
