//! The streams that share memory, and the work that each of them has waited for.
//!
//! Invariant: another stream gets a slot only once all work of the slot's previous stream is known to be complete, and once any stream may
//! get the memory which that stream freed, as far as unknown work is concerned. So this memory may join memory of the next stream.

use std::sync::Arc;

use super::epochs::Epoch;
use super::slot::StreamSlot;
use super::tag::{Tag, Users};
use super::unknown::Unknown;
use crate::base::amounts::total;
use crate::base::error::Result;
use crate::device::{Backend, Meter, Stream};

/// The streams that share a range, and the work that each of them has waited for.
pub(crate) struct Streams {
    pub(super) slots: Vec<StreamSlot>,
    /// How often memory was freed.
    pub(crate) frees: u64,
    /// How often a thread requested memory.
    visits: u64,
    pub(super) meter: Arc<Meter>,
    /// Work on unknown streams.
    pub(crate) unknown: Unknown,
    /// Backends of streams that ended. The destructor of a backend may be code of the program, and this value is usually locked, so they
    /// are dropped later.
    ended: Vec<Arc<dyn Backend>>,
}

impl Streams {
    /// For streams of a device; `meter` counts its calls.
    pub(crate) fn new(meter: Arc<Meter>) -> Streams {
        Streams { slots: Vec::new(), frees: 0, visits: 0, meter, unknown: Unknown::of(None), ended: Vec::new() }
    }

    /// The tag of memory that `stream` frees now. Calls no device.
    #[inline]
    pub(crate) fn free(&mut self, stream: &Stream) -> Tag {
        self.frees += 1;
        let place = self.slot(stream);
        let slot = &mut self.slots[place];
        let epoch = slot.use_now();
        slot.freed = epoch;
        slot.last_freed = self.unknown.now();
        Tag::new(place, epoch, slot.is_reserved, slot.last_freed)
    }

    /// Notes that the bytes in blocks changed from `before` to `now` for a stream.
    #[inline]
    pub(crate) fn hold(&mut self, stream: usize, now: u64, before: u64) {
        let slot = &mut self.slots[stream];
        slot.held = slot.held.saturating_add(now).saturating_sub(before);
        slot.most_held = slot.most_held.max(slot.held);
    }

    /// The most bytes that each living stream had in blocks at once, in total, if this stream takes `bytes` more.
    pub(crate) fn needed(&self, me: usize, bytes: u64) -> u64 {
        let living = self.slots.iter().enumerate().filter(|(_, slot)| slot.stream.is_some() && !slot.is_orphan());
        total(living.map(|(place, slot)| {
            let more = if place == me { bytes } else { 0 };
            slot.most_held.max(slot.held.saturating_add(more))
        }))
    }

    /// The present point in the work of `stream`, for [`order`](Streams::order). Calls no device.
    #[inline]
    pub(crate) fn used(&mut self, stream: &Stream) -> Epoch {
        let place = self.slot(stream);
        self.slots[place].use_now()
    }

    /// Whether all work that is on `stream` now is done. Queries, and does not wait.
    pub(crate) fn is_done(&mut self, stream: &Stream) -> bool {
        let place = self.slot(stream);
        self.slots[place].use_now();
        // If the query fails, it is repeated the next time.
        self.slots[place].is_done(&self.meter).unwrap_or(false)
    }

    /// Notes that memory which `stream` freed is no longer reserved.
    #[cfg(any(feature = "cuda", test))]
    pub(crate) fn release(&mut self, stream: &Stream) {
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.id == stream.id()) {
            slot.release();
        }
    }

    /// Whether a stream may use memory with this tag at once, as far as is known: the work that used it is complete, or the stream waits
    /// for that work.
    #[inline]
    pub(crate) fn may_use(&self, me: usize, tag: Tag) -> bool {
        match tag.users() {
            Users::Nobody => true,
            Users::One(slot, epoch) => self.is_behind(me, slot, epoch) && self.may_pass_on(me, tag),
            Users::Several if !self.may_pass_on(me, tag) => false,
            Users::Several => (0..self.slots.len()).all(|slot| self.is_behind(me, slot, self.slots[slot].freed)),
        }
    }

    /// Whether memory with this tag is kept for a captured graph, for as long as the graph lives.
    pub(crate) fn is_reserved(&self, tag: Tag) -> bool {
        matches!(tag.users(), Users::One(slot, epoch) if self.slots[slot].reserves(epoch))
    }

    /// Whether other work keeps memory with this tag from a stream for now.
    pub(crate) fn is_held(&self, me: usize, tag: Tag) -> bool {
        !self.is_reserved(tag) && !self.may_use(me, tag)
    }

    /// Whether a stream may get memory with this tag, as far as unknown work is concerned. Streams over one queue are one stream here.
    #[inline]
    pub(super) fn may_pass_on(&self, me: usize, tag: Tag) -> bool {
        let is_own = match tag.users() {
            Users::Nobody => true,
            // An earlier stream may have freed the memory, in an epoch before this one began.
            Users::One(slot, epoch) => {
                let owner = &self.slots[slot];
                owner.queue == self.slots[me].queue && epoch >= owner.began
            }
            Users::Several => false,
        };
        is_own || self.unknown.may_pass_on(tag.freed())
    }

    /// Like [`may_use`](Streams::may_use), but asks other streams how far they are. Each is asked at most once until the next call of
    /// [`attend`](Streams::attend).
    ///
    /// # Errors
    /// An error of their work.
    #[inline]
    pub(crate) fn may_use_now(&mut self, me: usize, tag: Tag) -> Result<bool> {
        Ok(self.may_use(me, tag) || self.glance(tag)? && self.may_use(me, tag))
    }

    /// Asks the streams that this tag names. Returns whether any was asked.
    #[cold]
    fn glance(&mut self, tag: Tag) -> Result<bool> {
        let named = match tag.users() {
            Users::Nobody => 0..0,
            Users::One(slot, _) => slot..slot + 1,
            Users::Several => 0..self.slots.len(),
        };
        let mut any = false;
        for slot in &mut self.slots[named] {
            if slot.asked != self.visits {
                slot.asked = self.visits;
                slot.glance(&self.meter)?;
                any = true;
            }
        }
        Ok(any)
    }

    fn is_behind(&self, me: usize, slot: usize, epoch: Epoch) -> bool {
        let owner = &self.slots[slot];
        let mine = &self.slots[me];
        // Later work of the same queue comes after its earlier work.
        let is_ordered = || owner.queue == mine.queue || mine.waited_for(slot) >= owner.end_of(epoch);
        slot == me || owner.is_idle(epoch) || !owner.reserves(epoch) && is_ordered()
    }

    /// Makes later work of `stream` wait for the work of `other` up to a point that [`used`](Streams::used) returned.
    ///
    /// # Errors
    /// As for [`claim`](Streams::claim).
    pub(crate) fn order(&mut self, stream: &Stream, other: &Stream, epoch: Epoch) -> Result<()> {
        let (mine, other) = (self.slot(stream), self.slot(other));
        // This ends the epoch before the wait. The thread that requested the end then does not wait for work of others as well.
        if self.slots[mine].is_mine_to_record() && self.slots[mine].take_wish() {
            self.end_epochs(mine);
        }
        self.follow(mine, other, epoch)
    }

    /// Ends the open epochs of a stream, and those of other streams over its queue, if memory was used in them.
    #[cold]
    fn end_epochs(&mut self, place: usize) {
        self.slots[place].use_now();
        let queue = self.slots[place].queue;
        // The thread that works on a queue handles the requests to all streams over it.
        let of_this_queue = self.slots.iter_mut().filter(|slot| slot.queue == queue);
        of_this_queue.for_each(|slot| slot.end_epoch(&self.meter));
    }

    /// Notes that the calling thread works on `stream`, and ends the stream's open epoch if another thread requested that. Returns the slot of
    /// the stream, which is valid until another stream is attended.
    #[inline]
    pub(crate) fn attend(&mut self, stream: &Stream) -> usize {
        self.visits += 1;
        let place = self.slot(stream);
        self.slots[place].attend();
        if self.slots[place].take_wish() {
            self.end_epochs(place);
        }
        place
    }

    /// Ends the epoch of `stream` now. Streams that wait for its present work then do not wait for its later work.
    pub(crate) fn seal(&mut self, stream: &Stream) {
        let place = self.attend(stream);
        self.end_epochs(place);
    }

    /// Asks each stream how far it is, for [`is_idle`](Streams::is_idle), and waits for none. It records events only where the calling
    /// thread may do so, or on all streams if it `insists`.
    ///
    /// # Errors
    /// An error of the work.
    pub(crate) fn look(&mut self, insists: bool) -> Result<()> {
        let meter = &self.meter;
        self.slots.iter_mut().try_for_each(|slot| {
            let may_record = insists || slot.is_mine_to_record();
            slot.look(may_record, meter)
        })?;
        self.unknown.look()
    }

    /// Whether any stream may get memory with this tag.
    pub(crate) fn is_free_for_all(&self, tag: Tag) -> bool {
        self.is_idle(tag) && self.unknown.may_pass_on(tag.freed())
    }

    /// Whether it is known that no work uses memory with this tag any more, except unknown work.
    pub(crate) fn is_idle(&self, tag: Tag) -> bool {
        match tag.users() {
            Users::Nobody => true,
            Users::One(slot, epoch) => self.slots[slot].is_idle(epoch),
            Users::Several => self.slots.iter().all(|slot| slot.is_idle(slot.freed)),
        }
    }

    /// Whether free neighbours may have different users: several streams share the memory, or a graph reserved some of it.
    pub(crate) fn may_differ(&self) -> bool {
        self.are_several() || self.slots.iter().any(|slot| slot.floor > Epoch::default())
    }

    /// Whether several streams share the memory.
    pub(crate) fn are_several(&self) -> bool {
        self.slots.len() > 1
    }

    /// Notes that a wait for the pending work was in vain, for example because a stream waits for the host. Nobody waits for that work
    /// again until it is done.
    pub(crate) fn give_up(&mut self) {
        self.slots.iter_mut().for_each(StreamSlot::give_up);
        self.unknown.give_up();
    }

    /// Whether work that uses free memory may be done in a moment, as far as is known: no wait for it was in vain or took longer than a
    /// moment.
    pub(crate) fn may_be_done_soon(&self) -> bool {
        self.slots.iter().any(|slot| slot.pending().is_some() && !slot.is_slow())
    }

    /// Notes that the pending work was not done in a moment.
    pub(crate) fn were_slow(&mut self) {
        self.slots.iter_mut().for_each(StreamSlot::was_slow);
    }

    /// The last epoch in which each stream used memory, by the number of its slot, if it is not known to be complete and a thread may wait
    /// for it.
    pub(crate) fn under_way(&self) -> Vec<(usize, Epoch)> {
        self.slots.iter().enumerate().filter_map(|(number, slot)| Some((number, slot.under_way()?))).collect()
    }

    /// Whether these epochs are complete. The work of a stream that is being captured meanwhile counts as done, since it has no end.
    pub(crate) fn are_over(&self, epochs: &[(usize, Epoch)]) -> bool {
        epochs.iter().all(|&(slot, epoch)| self.slots[slot].is_over(epoch))
    }

    /// Notes that a request waited for these epochs in vain. Some may be complete.
    pub(crate) fn outlasted_by(&mut self, epochs: &[(usize, Epoch)]) {
        for &(slot, epoch) in epochs {
            self.slots[slot].outlasted = self.slots[slot].outlasted.max(epoch);
        }
    }

    /// Whether any stream has work that uses free memory, as far as is known, and whose end can be queried.
    pub(crate) fn can_wait(&self) -> bool {
        self.slots.iter().any(|slot| slot.pending().is_some())
    }

    /// The last epoch of a stream's pending work: work that is not known to be complete and that a thread can wait for.
    pub(crate) fn pending(&mut self, stream: &Stream) -> Option<Epoch> {
        let place = self.slot(stream);
        self.slots[place].pending()
    }

    /// Drops streams without a handle if their work is done.
    pub(crate) fn retire(&mut self) {
        for slot in &mut self.slots {
            // If the query fails, it is repeated the next time.
            if slot.is_orphan() && slot.is_done(&self.meter).unwrap_or(false) {
                self.ended.extend(slot.end());
            }
        }
    }

    /// Keeps a backend until it may be dropped.
    pub(crate) fn let_go(&mut self, backend: Arc<dyn Backend>) {
        self.ended.push(backend);
    }

    /// Takes out the backends, for the caller to drop once nothing is locked.
    #[inline]
    pub(crate) fn take_ended(&mut self) -> Vec<Arc<dyn Backend>> {
        std::mem::take(&mut self.ended)
    }

    /// The slot of a stream. A program has few streams, so it is fastest to look at each.
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
        let is_vacant = |slot: &StreamSlot| slot.stream.is_none() && self.unknown.may_pass_on(slot.last_freed);
        let place = self.slots.iter().position(is_vacant).unwrap_or(self.slots.len());
        if place == self.slots.len() {
            self.slots.push(StreamSlot::default());
        }
        self.slots[place].begin(stream);
        place
    }
}
