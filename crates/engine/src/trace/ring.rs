//! The events of one thread, in a ring of words. Only that thread writes the ring. It is read when the trace ends.
//!
//! Invariant: event `n` of all events ever written lies at place `n` modulo the ring's room. A reader leaves out the event that is
//! being written, and events that are overwritten while it reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, fence};

use super::packed::{Packed, WORDS};
use crate::base::sync::{Mutex, lock};

/// The number of events for which a thread takes memory at once. Few, so that a thread with few events takes little: 16 KiB.
const CHUNK: usize = 256;

type Chunk = [AtomicU64; CHUNK * WORDS];

pub(super) struct Ring {
    /// The chunks so far. Below: the most chunks that there can be. The writer locks `chunks` only when it goes on to the next one.
    chunks: Mutex<Vec<Arc<Chunk>>>,
    most: usize,
    /// The number of events ever written.
    written: AtomicU64,
    capacity: usize,
}

/// The place where the ring's thread writes next.
pub(super) struct Pen {
    ring: Arc<Ring>,
    chunk: Arc<Chunk>,
    /// The number of the chunk. Below: the place in it.
    number: usize,
    at: usize,
    written: u64,
}

impl Ring {
    /// Makes a ring that keeps the newest `capacity` events.
    pub(super) fn new(capacity: usize) -> Arc<Ring> {
        // Room for one more event, the one that is being written.
        let most = capacity / CHUNK + 1;
        Arc::new(Ring { chunks: Mutex::new(Vec::new()), most, written: AtomicU64::new(0), capacity })
    }

    /// The chunk with this number. Makes it if it is the next one.
    fn chunk(&self, number: usize) -> Arc<Chunk> {
        let mut chunks = lock(&self.chunks);
        if number >= chunks.len() {
            chunks.push(Arc::new([const { AtomicU64::new(0) }; CHUNK * WORDS]));
        }
        chunks[number].clone()
    }

    /// The events that the ring still has, in order, and the number of lost ones, which newer ones have overwritten.
    pub(super) fn read(&self) -> (Vec<Packed>, u64) {
        let room = self.most.saturating_mul(CHUNK) as u64;
        let written = self.written.load(Acquire);
        let first = written.saturating_sub(self.capacity as u64);
        let chunks = lock(&self.chunks).clone();
        let words = |number: u64| {
            let (place, chunk) = ((number % room) as usize % CHUNK, (number % room) as usize / CHUNK);
            let words = chunks.get(chunk).map(|chunk| &chunk[place * WORDS..]);
            std::array::from_fn(|word| words.map_or(0, |words| words[word].load(Relaxed)))
        };
        let all: Vec<[u64; WORDS]> = (first..written).map(words).collect();
        fence(Acquire);
        let overwritten = (self.written.load(Relaxed) + 1).saturating_sub(room).max(first);
        let events: Vec<Packed> = all.into_iter().skip((overwritten - first) as usize).filter_map(Packed::of).collect();
        let lost = written.saturating_sub(events.len() as u64);
        (events, lost)
    }
}

impl Pen {
    /// Makes the pen of a ring. Only the ring's own thread calls this, once.
    pub(super) fn new(ring: Arc<Ring>) -> Pen {
        let chunk = ring.chunk(0);
        Pen { ring, chunk, number: 0, at: 0, written: 0 }
    }

    /// Writes the next event.
    #[inline(always)]
    pub(super) fn push(&mut self, event: &Packed) {
        if self.at == CHUNK {
            self.turn();
        }
        // A reader that sees one of the following words also sees the value that `written` has now, or a later one.
        fence(Release);
        let place = &self.chunk[self.at * WORDS..][..Packed::length(event.action)];
        place.iter().zip(event.words()).for_each(|(place, word)| place.store(word, Relaxed));
        self.at += 1;
        self.written += 1;
        self.ring.written.store(self.written, Release);
    }

    /// Goes on to the next chunk.
    #[cold]
    #[inline(never)]
    fn turn(&mut self) {
        self.number = (self.number + 1) % self.ring.most;
        self.chunk = self.ring.chunk(self.number);
        self.at = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::super::event::Action;
    use super::super::packed::Shape;
    use super::*;

    /// Writes an event. Every third one is short.
    fn write(pen: &mut Pen, number: u64) {
        let is_short = number.is_multiple_of(3);
        let action = if is_short { Action::Freed } else { Action::Allocated };
        let shape = Shape::new(&[number as usize; 3][..(number % 4) as usize]);
        let event = Packed {
            time: number,
            action,
            served_by: None,
            dtype: 1,
            scope: 0,
            device: 0,
            address: number,
            bytes: number,
            stream: number,
            site: 0,
            shape,
        };
        pen.push(&event);
    }

    fn is_whole(event: &Packed) -> bool {
        let is_short = event.time.is_multiple_of(3);
        let other = if is_short { 0 } else { event.time };
        let dims = if is_short { vec![0; 0] } else { vec![event.time as usize; (event.time % 4) as usize] };
        event.address == event.time && event.stream == other && (is_short || event.shape.dims() == dims)
    }

    #[test]
    fn the_newest_events_are_kept_and_the_others_counted() {
        for (capacity, written) in [(0, 3), (10, 7), (10, 10), (10, 11), (10, 5000), (600, 5000), (5000, 5000)] {
            let ring = Ring::new(capacity);
            let mut pen = Pen::new(ring.clone());
            (0..written).for_each(|number| write(&mut pen, number));
            let (events, lost) = ring.read();
            let kept = written.min(capacity as u64);
            assert_eq!(lost, written - kept);
            assert!(events.iter().map(|event| event.time).eq(written - kept..written), "{capacity} of {written}");
            assert!(events.iter().all(is_whole));
        }
    }

    #[test]
    fn any_capacity_takes_the_memory_of_what_is_written() {
        for capacity in [1 << 40, usize::MAX / 8, usize::MAX] {
            let ring = Ring::new(capacity);
            let mut pen = Pen::new(ring.clone());
            (0..5000).for_each(|number| write(&mut pen, number));
            let (events, lost) = ring.read();
            assert_eq!((events.len(), lost), (5000, 0), "{capacity}");
            assert!(lock(&ring.chunks).len() <= 5000 / CHUNK + 1);
        }
    }

    #[test]
    fn an_event_that_is_overwritten_while_it_is_read_is_left_out() {
        let (ring, ends) = (Ring::new(255), AtomicBool::new(false));
        std::thread::scope(|threads| {
            let writer = threads.spawn(|| {
                let (mut pen, mut number) = (Pen::new(ring.clone()), 0);
                while !ends.load(Relaxed) {
                    write(&mut pen, number);
                    number += 1;
                }
            });
            let is_sound = |events: &[Packed]| {
                events.iter().all(is_whole) && events.windows(2).all(|two| two[0].time + 1 == two[1].time)
            };
            let are_sound = (0..2000).all(|_| is_sound(&ring.read().0));
            ends.store(true, Relaxed);
            writer.join().unwrap();
            assert!(are_sound, "an event of two halves, or one that lacks");
        });
    }
}
