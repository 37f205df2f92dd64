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

/// The pending spans of a device's moves. Each kind ends in about the order in which it was put here.
#[derive(Debug, Default)]
pub(super) struct Waits {
    waits: Mutex<VecDeque<Timed>>,
    copies: Mutex<VecDeque<Timed>>,
}

/// A wait, or a copy.
#[derive(Debug)]
struct Timed {
    span: Span,
    timing: Timing,
    scope: Option<Arc<Moves>>,
    /// The stretch of the entry for a wait, and the bytes for a copy.
    what: u64,
}

impl Timed {
    /// Adds to a sum of the device and of the scope, for all entries that this timed one stands for.
    fn count(&self, device: &Moves, length: Duration, sum: impl Fn(&mut OffloadStats) -> &mut Duration) {
        let length = length.saturating_mul(self.timing.as_ref().map_or(1, |sample| sample.entries));
        for moves in self.scope.as_deref().into_iter().chain([device]) {
            moves.count(|stats| *sum(stats) = sum(stats).saturating_add(length));
        }
    }
}

/// Takes finished spans from the front, with their lengths. A failed span has none, and does not count.
fn take_over(pending: &Mutex<VecDeque<Timed>>, mut act: impl FnMut(&Timed, Duration)) {
    let mut pending = lock(pending);
    while let Some(first) = pending.front() {
        match first.span.length() {
            Ok(None) => break,
            Ok(Some(length)) => act(first, length),
            Err(_) => act(first, Duration::ZERO),
        }
        pending.pop_front();
    }
}

impl Waits {
    /// Adds a wait of a stream for a move, which takes as long as `span`.
    pub(super) fn add_wait(&self, device: &Moves, span: Span, timing: Timing, scope: Option<Arc<Moves>>) {
        if self.has_room(&self.waits, device) {
            let what = timing.as_ref().map_or(0, |sample| sample.begin()) as u64;
            lock(&self.waits).push_back(Timed { span, timing, scope, what });
        }
    }

    /// Adds a copy on a copy stream, which takes as long as `span`.
    pub(super) fn add_copy(&self, device: &Moves, span: Span, timing: Timing, scope: Option<Arc<Moves>>, bytes: u64) {
        if self.has_room(&self.copies, device) {
            lock(&self.copies).push_back(Timed { span, timing, scope, what: bytes });
        }
    }

    /// Whether there is room for another span, after the finished spans are counted. So a program need not ask for that.
    fn has_room(&self, pending: &Mutex<VecDeque<Timed>>, device: &Moves) -> bool {
        let is_full = || lock(pending).len() >= MOST_PENDING;
        if is_full() {
            self.settle(device);
        }
        !is_full()
    }

    /// Counts the spans that are over by now.
    pub(super) fn settle(&self, device: &Moves) {
        take_over(&self.waits, |timed, length| {
            timed.count(device, length, |stats| &mut stats.waited);
            timed.timing.iter().for_each(|sample| sample.end(timed.what as usize, length));
        });
        take_over(&self.copies, |timed, length| {
            timed.count(device, length, |stats| &mut stats.copying);
            device.speed().note(timed.what, length);
        });
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
