//! How long streams stood still for moves, and how long copies took.
//!
//! A move is watched on the stream of its array: a mark before it and one behind it, between which the stream has nothing to do but
//! wait, for a copy or for the thread. Where the stream is busy all the while no time lies between them: that move was hidden.
//! In an entry that goes by a known order marks would be the only events that a fetch costs, so that few such entries are
//! timed, and those between them count as much as the last one that was (`sampling`).

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::accounts;
use super::moves::Moves;
use super::sampling::{self, Sample};
use crate::device::Stream;
use gpucache_engine::base::sync::{Mutex, MutexGuard};
use gpucache_engine::device::Span;

thread_local! {
    /// The stream that is watched: a move within another one is a part of it.
    static WATCHED: Cell<u64> = const { Cell::new(0) };
}

/// Spans that are not over yet beyond which no more are taken, as where a stream waits for the host for ever.
const MOST_OPEN: usize = 1 << 14;

/// What was timed of a device's moves, and is not over yet. Each kind ends in about the order in which it was put here.
#[derive(Debug, Default)]
pub(super) struct Waits {
    open: Mutex<Open>,
}

/// An entry that is timed, and the stretch of it.
type Sampled = (Arc<Sample>, usize);

#[derive(Debug, Default)]
struct Open {
    waits: VecDeque<Timed<Option<Sampled>>>,
    /// With their bytes.
    copies: VecDeque<Timed<u64>>,
}

#[derive(Debug)]
struct Timed<W> {
    span: Span,
    scope: Option<Arc<Moves>>,
    what: W,
}

impl<W> Timed<W> {
    /// Adds to the counts of the device, and of the scope that it happened in.
    fn count(&self, device: &Moves, count: impl Fn(&Moves)) {
        count(device);
        self.scope.iter().for_each(|scope| count(scope));
    }
}

/// Takes what is over from the front, with its length. What failed has none, and is nothing.
fn take_over<W>(open: &mut VecDeque<Timed<W>>, mut act: impl FnMut(&Timed<W>, Duration)) {
    while let Some(first) = open.front() {
        match first.span.length() {
            Ok(None) => break,
            Ok(Some(length)) => act(first, length),
            Err(_) => act(first, Duration::ZERO),
        }
        open.pop_front();
    }
}

impl Open {
    /// Counts what is over by now.
    fn settle(&mut self, device: &Moves) {
        take_over(&mut self.waits, |timed, length| {
            timed.count(device, |moves| moves.add_waited(length));
            timed.what.iter().for_each(|(sample, stretch)| sample.end(*stretch, length));
        });
        take_over(&mut self.copies, |timed, length| {
            timed.count(device, |moves| moves.add_copying(length));
            device.speed.note(timed.what, length);
        });
    }

    /// Whether there is room for another one of either kind, once what is over by now is counted: a program need not ask.
    fn make_room(&mut self, device: &Moves) -> bool {
        let is_full = |open: &Open| open.waits.len().max(open.copies.len()) >= MOST_OPEN;
        if is_full(self) {
            self.settle(device);
        }
        !is_full(self)
    }
}

impl Waits {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a move that work of `stream` may have to wait for, and times for how long it does.
    pub(super) fn watch<R>(&self, device: &Moves, stream: &Stream, act: impl FnOnce() -> R) -> R {
        let Some(sample) = sampling::current() else { return act() };
        let outer = WATCHED.replace(stream.id());
        if outer == stream.id() {
            return act();
        }
        let (answer, span) = Span::around(stream, act);
        WATCHED.set(outer);
        if let Some(span) = span {
            self.add_wait(device, span, sample);
        }
        answer
    }

    fn add_wait(&self, device: &Moves, span: Span, sample: Option<Arc<Sample>>) {
        let mut open = self.open();
        if open.make_room(device) {
            let what = sample.map(|sample| (sample.clone(), sample.begin()));
            open.waits.push_back(Timed { span, scope: accounts::of_thread(), what });
        }
    }

    /// A copy was put on a lane, which takes as long as `span`, or as long as others of as many bytes where that is not timed.
    pub(super) fn copies(&self, device: &Moves, span: Option<Span>, bytes: u64) {
        let (mut open, scope) = (self.open(), accounts::of_thread());
        match span {
            Some(span) if open.make_room(device) => {
                open.copies.push_back(Timed { span, scope, what: bytes });
            }
            _ => {
                let length = device.speed.usual_time(bytes);
                scope.as_deref().into_iter().chain([device]).for_each(|moves| moves.add_copying(length));
            }
        }
    }

    /// Counts what is over by now.
    pub(super) fn settle(&self, device: &Moves) {
        self.open().settle(device);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, Host};

    #[test]
    fn what_is_over_is_counted_where_nobody_asks() {
        let (host, waits, moves) = (Host::new(), Waits::default(), Moves::default());
        let stream = host.stream_handle();
        (0..MOST_OPEN).for_each(|_| waits.watch(&moves, stream, || ()));
        let long = Duration::from_millis(50);
        waits.watch(&moves, stream, || std::thread::sleep(long));
        waits.settle(&moves);
        assert!(moves.read().waited >= long, "{:?}", moves.read().waited);
    }
}
