//! A simple model of streams that lag behind. Each stream is a list of work, with a vector clock of the work that its later work waits for.
#![allow(unsafe_code)]

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::base::error::{Error, Result};
use crate::device::{Backend, Event, Memory, Stream};

/// The work of a stream, and how much of it is done. Work of a stream is numbered from 1.
#[derive(Debug, Default)]
pub(super) struct Lane {
    work: usize,
    pub(super) done: usize,
    /// For each lane, the work that later work of this lane waits for.
    clock: Vec<usize>,
    /// Work that must wait for another lane: its own number, the other lane, and the number that the other lane must reach.
    waits: Vec<(usize, usize, usize)>,
}

#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) lanes: Mutex<Vec<Lane>>,
    /// Whether the next call fails.
    pub(super) fails: AtomicBool,
    /// Whether only the thread that works on a stream may record events on it.
    pub(super) is_strict: AtomicBool,
    pub(super) capturing: Mutex<BTreeSet<usize>>,
    /// Whether another thread begins to capture the stream during the next recording.
    pub(super) begins: AtomicBool,
}

/// The number of the work before an event that a capture got.
const CAPTURED: usize = usize::MAX;

#[derive(Debug)]
struct Lag(Arc<World>, usize);

/// A lane, a number of its work, and the clock at that point.
#[derive(Debug)]
struct Mark(Arc<World>, Mutex<(usize, usize, Vec<usize>)>);

impl World {
    fn call(&self) -> Result<()> {
        match self.fails.swap(false, Relaxed) {
            true => Err(Error::device_failure("a test", "a call", "as it asked")),
            false => Ok(()),
        }
    }

    pub(super) fn stream(self: &Arc<World>) -> (Stream, usize) {
        let lane = self.lanes.lock().unwrap().len();
        self.lanes.lock().unwrap().push(Lane::default());
        // SAFETY: there is no memory.
        (unsafe { Stream::new(Arc::new(Memory::default()), Lag(self.clone(), lane)) }, lane)
    }

    pub(super) fn work(&self, lane: usize) -> usize {
        let lane = &mut self.lanes.lock().unwrap()[lane];
        lane.work += 1;
        lane.work
    }

    /// Does up to `most` pieces of a lane's work, as far as its waits allow.
    pub(super) fn advance(&self, lane: usize, most: usize) {
        let lanes = &mut *self.lanes.lock().unwrap();
        for _ in 0..most {
            let next = lanes[lane].done + 1;
            let is_held = |&(number, other, until): &(usize, usize, usize)| number == next && lanes[other].done < until;
            if next > lanes[lane].work || lanes[lane].waits.iter().any(is_held) {
                return;
            }
            lanes[lane].done = next;
        }
    }

    /// Whether the next work of `lane` comes after work `number` of `other`.
    pub(super) fn is_behind(&self, lane: usize, other: usize, number: usize) -> bool {
        let lanes = &*self.lanes.lock().unwrap();
        lane == other || lanes[other].done >= number || lanes[lane].clock.get(other).is_some_and(|&at| at >= number)
    }
}

// SAFETY: nothing is done with memory, whatever this returns.
unsafe impl Event for Mark {
    fn is_complete(&self) -> Result<bool> {
        self.0.call()?;
        let (lane, number, _) = *self.1.lock().unwrap();
        assert!(!self.0.capturing.lock().unwrap().contains(&lane), "a query of a stream that is captured");
        assert!(number != CAPTURED, "a query of an event of a capture");
        Ok(self.0.lanes.lock().unwrap()[lane].done >= number)
    }
}

fn mark(event: &dyn Event) -> &Mark {
    let event: &dyn Any = event;
    event.downcast_ref().unwrap()
}

// SAFETY: this backend has no memory.
unsafe impl Backend for Lag {
    fn allocate(&self, _: usize) -> Result<u64> {
        unreachable!()
    }

    unsafe fn free(&self, _: u64, _: usize) -> Result<()> {
        unreachable!()
    }

    unsafe fn fill(&self, _: u64, _: usize, _: &[u8]) -> Result<()> {
        unreachable!()
    }

    unsafe fn write(&self, _: *const u8, _: u64, _: usize) -> Result<()> {
        unreachable!()
    }

    unsafe fn read(&self, _: u64, _: *mut u8, _: usize) -> Result<()> {
        unreachable!()
    }

    unsafe fn copy(&self, _: u64, _: u64, _: usize) -> Result<()> {
        unreachable!()
    }

    fn synchronize(&self) -> Result<()> {
        self.0.call()?;
        let done = || self.0.lanes.lock().unwrap().iter().map(|lane| lane.done).collect::<Vec<_>>();
        // Each round does all work that can be done. The rounds end when one of them changes nothing.
        loop {
            let before = done();
            (0..before.len()).for_each(|lane| self.0.advance(lane, usize::MAX));
            if done() == before {
                return Ok(());
            }
        }
    }

    fn new_event(&self) -> Result<Arc<dyn Event>> {
        self.0.call()?;
        Ok(Arc::new(Mark(self.0.clone(), Mutex::new((self.1, 0, Vec::new())))))
    }

    fn record(&self, event: &dyn Event) -> Result<()> {
        self.0.call()?;
        let lane = &self.0.lanes.lock().unwrap()[self.1];
        let mut place = mark(event).1.lock().unwrap();
        assert_eq!(place.0, self.1, "an event of another stream, and so maybe of another context");
        let begins = self.0.begins.swap(false, Relaxed) && self.0.capturing.lock().unwrap().insert(self.1);
        *place = (self.1, if begins { CAPTURED } else { lane.work }, lane.clock.clone());
        Ok(())
    }

    fn wait(&self, event: &dyn Event) -> Result<()> {
        self.0.call()?;
        assert!(!self.is_capturing(), "a capture waits for a foreign event");
        let (other, until, ref behind) = *mark(event).1.lock().unwrap();
        assert!(until != CAPTURED, "a wait for an event of a capture");
        let lane = &mut self.0.lanes.lock().unwrap()[self.1];
        lane.work += 1;
        lane.waits.push((lane.work, other, until));
        lane.clock.resize(lane.clock.len().max(behind.len()).max(other + 1), 0);
        lane.clock[other] = lane.clock[other].max(until);
        lane.clock.iter_mut().zip(behind).for_each(|(clock, &behind)| *clock = (*clock).max(behind));
        Ok(())
    }

    fn records_for_anyone(&self) -> bool {
        !self.0.is_strict.load(Relaxed)
    }

    fn can_capture(&self) -> bool {
        true
    }

    fn is_capturing(&self) -> bool {
        self.0.capturing.lock().unwrap().contains(&self.1)
    }
}
