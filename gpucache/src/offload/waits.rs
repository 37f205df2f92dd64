//! How long streams waited for moves, and how long copies took.
//!
//! A move is timed on the stream of its array, by a mark before the move and one after it. Between the two marks the stream only waits:
//! for a copy or for the thread. If the stream is busy all the while, no time lies between the marks, and the move was hidden.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::moves::{Moves, OffloadStats};
use super::sampling::Timing;
use gpucache_engine::base::sync::{Mutex, lock};
use gpucache_engine::device::Span;

/// With as many pending spans no more are timed, as when a stream waits for the host for ever.
const MOST_PENDING: usize = 1 << 14;

/// The pending spans of a device's moves.
#[derive(Debug, Default)]
pub(super) struct Waits(Mutex<Pending>);

/// Each kind ends in about the order in which it was put here.
#[derive(Debug, Default)]
struct Pending {
    /// With the stretch of the entry.
    waits: VecDeque<Timed<usize>>,
    /// With their bytes.
    copies: VecDeque<Timed<u64>>,
}

/// A wait, or a copy.
#[derive(Debug)]
struct Timed<W> {
    span: Span,
    timing: Timing,
    scope: Option<Arc<Moves>>,
    what: W,
}

impl<W> Timed<W> {
    /// Adds to a sum of the device and of the scope, for all entries that this timed one stands for.
    fn count(&self, device: &Moves, length: Duration, sum: impl Fn(&mut OffloadStats) -> &mut Duration) {
        let length = length.saturating_mul(self.timing.as_ref().map_or(1, |sample| sample.entries));
        for moves in self.scope.as_deref().into_iter().chain([device]) {
            moves.count(|stats| *sum(stats) = sum(stats).saturating_add(length));
        }
    }
}

/// Takes finished spans from the front, with their lengths. A failed span has none, and does not count.
fn take_over<W>(pending: &mut VecDeque<Timed<W>>, mut act: impl FnMut(&Timed<W>, Duration)) {
    while let Some(first) = pending.front() {
        match first.span.length() {
            Ok(None) => break,
            Ok(Some(length)) => act(first, length),
            Err(_) => act(first, Duration::ZERO),
        }
        pending.pop_front();
    }
}

impl Pending {
    /// Counts the spans that are over by now.
    fn settle(&mut self, device: &Moves) {
        take_over(&mut self.waits, |timed, length| {
            timed.count(device, length, |stats| &mut stats.waited);
            timed.timing.iter().for_each(|sample| sample.end(timed.what, length));
        });
        take_over(&mut self.copies, |timed, length| {
            timed.count(device, length, |stats| &mut stats.copying);
            device.speed().note(timed.what, length);
        });
    }

    /// Whether there is room for another span of each kind, after the finished spans are counted. So a program need not ask for that.
    fn make_room(&mut self, device: &Moves) -> bool {
        let is_full = |pending: &Pending| pending.waits.len().max(pending.copies.len()) >= MOST_PENDING;
        if is_full(self) {
            self.settle(device);
        }
        !is_full(self)
    }
}

impl Waits {
    /// Adds a wait of a stream for a move, which takes as long as `span`.
    pub(super) fn add_wait(&self, device: &Moves, span: Span, timing: Timing, scope: Option<Arc<Moves>>) {
        let mut pending = lock(&self.0);
        if pending.make_room(device) {
            let what = timing.as_ref().map_or(0, |sample| sample.begin());
            pending.waits.push_back(Timed { span, timing, scope, what });
        }
    }

    /// Adds a copy on a copy stream, which takes as long as `span`.
    pub(super) fn add_copy(&self, device: &Moves, span: Span, timing: Timing, scope: Option<Arc<Moves>>, bytes: u64) {
        let mut pending = lock(&self.0);
        if pending.make_room(device) {
            pending.copies.push_back(Timed { span, timing, scope, what: bytes });
        }
    }

    /// Counts the spans that are over by now.
    pub(super) fn settle(&self, device: &Moves) {
        lock(&self.0).settle(device);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, Host};

    #[test]
    fn what_is_over_is_counted_where_nobody_asks() {
        let (host, waits, moves) = (Host::new(), Waits::default(), Moves::default());
        let wait = |length| {
            let (_, span) = Span::around(host.stream_handle(), || std::thread::sleep(length));
            waits.add_wait(&moves, span.unwrap(), None, None);
        };
        (0..MOST_PENDING).for_each(|_| wait(Duration::ZERO));
        let long = Duration::from_millis(50);
        wait(long);
        waits.settle(&moves);
        assert!(moves.read().waited >= long, "{:?}", moves.read().waited);
    }
}
