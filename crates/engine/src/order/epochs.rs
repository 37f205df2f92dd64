//! The epochs of one stream, and the events of its closed epochs. This is plain data; it calls no device.
//!
//! Invariants: epochs are numbered from 1. Epochs up to `done` are known to be complete. After them comes one epoch for each of `events`;
//! the event is behind all work of its epoch and of those before. The last epoch is the open one. No event is in two places.

use std::collections::VecDeque;

/// A point in a stream's work: the end of the epoch with this number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Epoch(pub(crate) u64);

pub(super) struct Epochs<E> {
    done: u64,
    /// The oldest event comes first.
    events: VecDeque<E>,
    /// Events that can be recorded again.
    pub(super) spare: Vec<E>,
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

    /// Whether an epoch is known to be complete.
    #[inline]
    pub(super) fn is_complete(&self, epoch: Epoch) -> bool {
        epoch.0 <= self.done
    }

    /// Whether an epoch is open, or has not begun.
    pub(super) fn is_open(&self, epoch: Epoch) -> bool {
        epoch > self.newest()
    }

    /// The event of a closed epoch, which was not complete at the last query.
    pub(super) fn event(&self, epoch: Epoch) -> Option<&E> {
        self.events.get(epoch.0.checked_sub(self.done + 1)? as usize)
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

    /// Notes that all work up to the end of a closed epoch is complete.
    pub(super) fn complete(&mut self, epoch: Epoch) {
        let closed = epoch.0.saturating_sub(self.done).min(self.events.len() as u64);
        self.done += closed;
        self.spare.extend(self.events.drain(..closed as usize));
    }

    /// Notes that all work so far is complete, and drops all events. This includes the open epoch and ends it.
    pub(super) fn retire(&mut self) {
        *self = Epochs { done: self.open().0, ..Epochs::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::{Epoch, Epochs};

    #[test]
    fn epochs_close_and_complete_in_order() {
        let mut epochs = Epochs::default();
        assert!(epochs.open() == Epoch(1) && epochs.is_open(Epoch(1)));
        ('a'..='c').for_each(|event| epochs.close(event));
        assert!(epochs.open() == Epoch(4) && [4, 9].into_iter().all(|epoch| epochs.is_open(Epoch(epoch))));
        assert_eq!((epochs.is_complete(Epoch(0)), epochs.event(Epoch(2))), (true, Some(&'b')));
        assert_eq!((epochs.oldest(), epochs.newest()), (Epoch(1), Epoch(3)));

        epochs.complete(Epoch(2));
        assert_eq!((epochs.is_complete(Epoch(2)), epochs.event(Epoch(2))), (true, None));
        assert_eq!((epochs.is_complete(Epoch(3)), epochs.event(Epoch(3))), (false, Some(&'c')));
        assert_eq!(epochs.spare, ['a', 'b']);
        epochs.complete(Epoch(1));
        assert_eq!((epochs.open(), epochs.oldest()), (Epoch(4), Epoch(3)));
        epochs.complete(Epoch(100));
        assert!(epochs.open() == Epoch(4) && epochs.is_open(Epoch(4)) && epochs.event(Epoch(4)).is_none());
    }

    #[test]
    fn a_stream_that_ended_has_no_events_and_all_its_epochs_are_complete() {
        let mut epochs = Epochs::default();
        epochs.close('a');
        epochs.retire();
        assert!(epochs.is_complete(Epoch(2)) && epochs.is_open(Epoch(3)) && epochs.open() == Epoch(3));
        assert!(epochs.spare.is_empty());
    }
}
