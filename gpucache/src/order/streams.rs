//! The streams that share memory, and who is behind whose work.
//!
//! Invariant: a slot is another stream's only once all work of the one before is known to be complete.

use std::sync::Arc;

use super::epochs::Epoch;
use super::slot::Slot;
use super::tag::{Tag, Users};
use crate::base::error::{Error, Result};
use crate::device::{Meter, Stream};

/// The streams that share a range, and what each of them has waited for.
#[derive(Debug)]
pub(crate) struct Streams {
    slots: Vec<Slot>,
    /// How often memory was freed.
    frees: u64,
    meter: Arc<Meter>,
}

impl Streams {
    /// For streams of the device whose calls `meter` counts.
    pub(crate) fn new(meter: Arc<Meter>) -> Streams {
        Streams { slots: Vec::new(), frees: 0, meter }
    }

    /// The tag of memory that `stream` frees now. Calls no device.
    #[inline]
    pub(crate) fn free(&mut self, stream: &Stream) -> Tag {
        self.frees += 1;
        let place = self.slot(stream);
        let slot = &mut self.slots[place];
        let epoch = slot.use_now();
        slot.freed = epoch;
        Tag::new(place, epoch)
    }

    /// The point in the work of `stream` that is now, for [`order`](Streams::order). Calls no device.
    #[inline]
    pub(crate) fn used(&mut self, stream: &Stream) -> Epoch {
        let place = self.slot(stream);
        self.slots[place].use_now()
    }

    /// Orders later work of `stream` behind whoever may still use memory of this tag.
    ///
    /// # Errors
    /// A failure of the device, or a capture; then the memory must not be used.
    #[inline]
    pub(crate) fn claim(&mut self, stream: &Stream, tag: Tag) -> Result<()> {
        let users = tag.users();
        if users == Users::Nobody {
            return Ok(());
        }
        let mine = self.slot(stream);
        match users {
            Users::Nobody => Ok(()),
            Users::One(slot, _) if slot == mine => Ok(()),
            Users::One(slot, epoch) => self.follow(mine, slot, epoch),
            Users::Several => {
                (0..self.slots.len()).try_for_each(|slot| self.follow(mine, slot, self.slots[slot].freed))
            }
        }
    }

    /// Orders later work of `stream` behind that of `other` up to a point that [`used`](Streams::used) gave.
    ///
    /// # Errors
    /// As for [`claim`](Streams::claim).
    pub(crate) fn order(&mut self, stream: &Stream, other: &Stream, epoch: Epoch) -> Result<()> {
        let (mine, other) = (self.slot(stream), self.slot(other));
        self.follow(mine, other, epoch)
    }

    /// How often memory was freed.
    pub(crate) fn frees(&self) -> u64 {
        self.frees
    }

    /// Sees to it that no work uses free memory: true if so. Waits on the calling thread, but not for streams that run
    /// closures, whose work may want what the caller has locked, nor for those that are captured.
    ///
    /// # Errors
    /// What that work met.
    pub(crate) fn settle(&mut self) -> Result<bool> {
        let meter = &self.meter;
        self.slots.iter_mut().try_fold(true, |all, slot| Ok(slot.settle(meter)? && all))
    }

    /// Lets go of streams that nobody else has, if their work is done.
    pub(crate) fn retire(&mut self) {
        for slot in &mut self.slots {
            let is_last = slot.stream.as_ref().is_some_and(|stream| Arc::strong_count(stream) == 1);
            // One that fails is tried again the next time.
            if is_last && slot.is_done(&self.meter).unwrap_or(false) {
                slot.end();
            }
        }
    }

    /// The rules of the module's table.
    #[cold]
    fn follow(&mut self, mine: usize, other: usize, epoch: Epoch) -> Result<()> {
        let Ok([follower, leader]) = self.slots.get_disjoint_mut([mine, other]) else { return Ok(()) };
        if follower.waited_for(other) >= epoch || leader.is_complete(epoch) {
            return Ok(());
        }
        let is_captured = leader.is_capturing();
        if follower.is_capturing() || is_captured && leader.is_open(epoch) {
            return Err(captured());
        }
        if !is_captured && leader.ask(epoch, &self.meter)? {
            return Ok(());
        }
        match leader.event(epoch, &self.meter)? {
            Some((epoch, event)) => follower.wait(other, epoch, event, &self.meter),
            None => Ok(()),
        }
    }

    /// The slot of a stream; a program has few, so that a look at each is the fastest way to find it.
    #[inline]
    fn slot(&mut self, stream: &Stream) -> usize {
        match self.slots.iter().position(|slot| slot.id == stream.id()) {
            Some(slot) => slot,
            None => self.add(stream),
        }
    }

    #[cold]
    fn add(&mut self, stream: &Stream) -> usize {
        self.retire();
        let place = self.slots.iter().position(|slot| slot.stream.is_none()).unwrap_or(self.slots.len());
        if place == self.slots.len() {
            self.slots.push(Slot::default());
        }
        self.slots[place].begin(stream);
        place
    }
}

fn captured() -> Error {
    Error::unavailable(
        "memory that another stream used",
        "a CUDA graph is captured meanwhile, and can wait for nothing outside",
        "run the step once on the stream before its capture, or wait for the other stream",
    )
}
