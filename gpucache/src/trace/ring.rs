//! The events of one thread: a ring that the thread alone writes, and that is read when the trace ends.
//!
//! Invariant: the slot of event `n` is `n` modulo the slots. There is one slot more than events that are kept, so that the one
//! that is being written is never among those that are read; a reader leaves out what was overwritten meanwhile.

use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, fence};

use super::packed::{Packed, WORDS};
use crate::base::sync::OnceLock;

/// Events for which memory is taken at once, so that a thread with few takes little: 16 KB.
const CHUNK: usize = 256;

type Slot = [AtomicU64; WORDS];

pub(super) struct Ring {
    chunks: Box<[OnceLock<Box<[Slot]>>]>,
    /// Events ever written.
    written: AtomicU64,
    capacity: usize,
}

/// What is left of a thread's events.
pub(super) struct Kept {
    pub(super) events: Vec<Packed>,
    /// Those that newer ones have overwritten.
    pub(super) lost: u64,
}

impl Ring {
    /// Keeps the newest `capacity` events.
    pub(super) fn new(capacity: usize) -> Ring {
        let chunks = capacity / CHUNK + 1;
        let chunks = (0..chunks).map(|_| OnceLock::new()).collect();
        Ring { chunks, written: AtomicU64::new(0), capacity }
    }

    fn slots(&self) -> usize {
        self.chunks.len() * CHUNK
    }

    /// Writes the next event into the slot `next`, and returns the slot after it. For the ring's own thread alone.
    #[inline(always)]
    pub(super) fn push(&self, next: usize, event: &Packed) -> usize {
        let slots = self.chunks[next / CHUNK].get_or_init(chunk);
        // Who reads one of these words then finds `written` as it is before.
        fence(Release);
        let slot = &slots[next % CHUNK];
        let words = event.words();
        (0..WORDS).for_each(|word| slot[word].store(words[word], Relaxed));
        self.written.store(self.written.load(Relaxed) + 1, Release);
        if next + 1 < self.slots() { next + 1 } else { 0 }
    }

    /// The events that are kept, in their order.
    pub(super) fn read(&self) -> Kept {
        let slots = self.slots() as u64;
        let written = self.written.load(Acquire);
        let first = written.saturating_sub(self.capacity as u64);
        let read: Vec<_> = (first..written).map(|index| self.slot((index % slots) as usize)).collect();
        fence(Acquire);
        let overwritten = (self.written.load(Relaxed) + 1).saturating_sub(slots).max(first);
        let events: Vec<_> = read.into_iter().skip((overwritten - first) as usize).flatten().collect();
        Kept { lost: written - events.len() as u64, events }
    }

    fn slot(&self, place: usize) -> Option<Packed> {
        let slot = &self.chunks[place / CHUNK].get()?[place % CHUNK];
        Packed::of(std::array::from_fn(|word| slot[word].load(Relaxed)))
    }
}

#[cold]
fn chunk() -> Box<[Slot]> {
    (0..CHUNK).map(|_| Slot::default()).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::super::event::Action;
    use super::super::packed::Shape;
    use super::*;

    fn event(number: u64) -> Packed {
        let (action, served_by, shape) = (Action::Allocated, None, Shape::new(&[number as usize; 3]));
        Packed {
            time: number,
            action,
            served_by,
            dtype: 1,
            scope: 0,
            device: 0,
            address: number,
            bytes: number,
            stream: number,
            shape,
        }
    }

    #[test]
    fn the_newest_events_are_kept_and_the_others_counted() {
        for (capacity, written) in [(0, 3), (10, 7), (10, 10), (10, 11), (10, 5000), (600, 5000)] {
            let ring = Ring::new(capacity);
            (0..written).fold(0, |next, number| ring.push(next, &event(number)));
            let Kept { events, lost } = ring.read();
            let kept = written.min(capacity as u64);
            assert_eq!(lost, written - kept);
            assert!(events.iter().map(|event| event.time).eq(written - kept..written), "{capacity} of {written}");
        }
    }

    #[test]
    fn an_event_that_is_overwritten_while_it_is_read_is_left_out() {
        let (ring, ends) = (Ring::new(255), AtomicBool::new(false));
        std::thread::scope(|threads| {
            let writer = threads.spawn(|| {
                let (mut next, mut number) = (0, 0);
                while !ends.load(Relaxed) {
                    next = ring.push(next, &event(number));
                    number += 1;
                }
            });
            for _ in 0..2000 {
                let events = ring.read().events;
                let is_whole = |event: &Packed| event.address == event.time && event.stream == event.time;
                assert!(events.iter().all(is_whole), "an event of two halves");
                assert!(events.windows(2).all(|two| two[0].time + 1 == two[1].time));
            }
            ends.store(true, Relaxed);
            writer.join().unwrap();
        });
    }
}
