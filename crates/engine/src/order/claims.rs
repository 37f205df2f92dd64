//! Waits of one stream for the work of others, so that it may use their memory.

use super::epochs::Epoch;
use super::slot::captured;
use super::streams::Streams;
use super::tag::{Tag, Users};
use crate::base::error::{Error, Result};
use crate::device::Stream;

impl Streams {
    /// Makes later work of `stream` wait for all work that may still use memory with this tag.
    ///
    /// # Errors
    /// A failure of the device, or a capture; then the memory must not be used.
    #[inline]
    pub(crate) fn claim(&mut self, stream: &Stream, tag: Tag) -> Result<()> {
        let me = self.attend(stream);
        match tag.users() {
            Users::Nobody => Ok(()),
            _ if !self.may_pass_on(me, tag) => Err(unordered()),
            Users::One(slot, epoch) => self.claim_of(me, slot, epoch),
            Users::Several => {
                (0..self.slots.len()).try_for_each(|slot| self.claim_of(me, slot, self.slots[slot].freed))
            }
        }
    }

    fn claim_of(&mut self, me: usize, slot: usize, epoch: Epoch) -> Result<()> {
        let owner = &self.slots[slot];
        if owner.reserves(epoch) && slot != me {
            return Err(Error::unavailable(
                "memory of a captured graph",
                "the graph uses it whenever it is launched",
                "drop the graph first",
            ));
        }
        self.follow(me, slot, owner.end_of(epoch))
    }

    /// Makes later work of a stream wait for all work that may use freed memory, as far as possible.
    ///
    /// # Errors
    /// A failure of the device.
    pub(crate) fn claim_all(&mut self, me: usize) -> Result<()> {
        for slot in 0..self.slots.len() {
            match self.claim_of(me, slot, self.slots[slot].freed) {
                // The memory of this stream must not be used then, and that of the others may.
                Err(error) if error.is_unavailable() => {}
                claimed => claimed?,
            }
        }
        Ok(())
    }

    /// Makes one stream wait for an epoch of another one, unless it already waits for it or the epoch is complete. The table of the module
    /// has the rules.
    #[cold]
    pub(super) fn follow(&mut self, mine: usize, other: usize, epoch: Epoch) -> Result<()> {
        let Ok([follower, leader]) = self.slots.get_disjoint_mut([mine, other]) else { return Ok(()) };
        let is_behind = follower.queue == leader.queue || follower.waited_for(other) >= epoch;
        if is_behind || leader.is_complete(epoch) {
            return Ok(());
        }
        match (leader.is_capturing(), follower.is_capturing()) {
            // A captured stream can wait for nothing outside its graph.
            (_, true) => return Err(captured()),
            // The event would become a part of the leader's graph.
            (true, false) if leader.is_open(epoch) => return Err(captured()),
            // The event was recorded before the capture began. A captured stream is not queried.
            (true, false) => {}
            // If the query finds the epoch complete, there is no event left to wait for.
            (false, false) => {
                leader.ask(epoch, &self.meter)?;
            }
        }
        match leader.event(epoch, &self.meter)? {
            Some((epoch, event)) => follower.wait(other, epoch, event, &self.meter),
            None => Ok(()),
        }
    }
}

fn unordered() -> Error {
    Error::unavailable(
        "memory that another stream freed",
        "work on a stream that gpucache does not know may still use it",
        "wait for the device first",
    )
}
