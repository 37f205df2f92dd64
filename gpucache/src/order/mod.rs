//! When memory may be touched again, and by whom: which streams' work may still use what is free in a range.
//!
//! Memory that a stream freed is handed to the same stream without any call, since the stream itself orders the two
//! lives. Another stream first waits for the work that was on the freeing one: one wait per pair of streams, remembered
//! for everything freed before it, never one per block.
//!
//! Invariants: `waited[a]` of slot `b` says up to which free by slot `a` the work of `b` is ordered. A slot keeps its
//! stream alive while that may still use free memory, and is without one only after that was waited for.

use std::sync::Arc;

use crate::base::error::Result;
use crate::device::{Backend, Stream};

/// Names the streams whose work may still use a stretch of free memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u32);

/// The streams that share a range, and what each of them has waited for.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    slots: Vec<Slot>,
    /// Counts frees, so that a wait is known to cover those before it.
    clock: u64,
}

#[derive(Debug)]
struct Slot {
    id: u64,
    /// Until it ended, and what it freed is free for all.
    stream: Option<Arc<dyn Backend>>,
    /// When it freed last.
    freed: u64,
    /// For each slot, the clock up to which this stream has waited for it.
    waited: Vec<u64>,
}

impl Tag {
    /// No work uses it.
    pub(crate) const NOBODY: Tag = Tag(u32::MAX);
    /// Several streams' work may use parts of it.
    const SEVERAL: Tag = Tag(u32::MAX - 1);

    /// The tag of two stretches that become one.
    #[inline]
    pub(crate) fn merge(self, other: Tag) -> Tag {
        match (self, other) {
            (Tag::NOBODY, tag) | (tag, Tag::NOBODY) => tag,
            (a, b) if a == b => a,
            _ => Tag::SEVERAL,
        }
    }
}

impl Streams {
    /// The tag of memory that `stream` frees now.
    #[inline]
    pub(crate) fn free(&mut self, stream: &Stream) -> Tag {
        let slot = self.slot(stream);
        self.clock += 1;
        self.slots[slot].freed = self.clock;
        Tag(slot as u32)
    }

    /// Makes `stream` wait for whoever may still use memory of this tag.
    ///
    /// # Errors
    /// A failure of the device; then the memory must not be used.
    #[inline]
    pub(crate) fn claim(&mut self, stream: &Stream, tag: Tag) -> Result<()> {
        if tag == Tag::NOBODY {
            return Ok(());
        }
        let mine = self.slot(stream);
        match tag {
            Tag(slot) if slot as usize == mine => Ok(()),
            Tag::SEVERAL => (0..self.slots.len()).try_for_each(|slot| self.wait(mine, slot)),
            Tag(slot) => self.wait(mine, slot as usize),
        }
    }

    /// How often memory was freed.
    pub(crate) fn frees(&self) -> u64 {
        self.clock
    }

    /// Waits on the calling thread until no work uses any free memory.
    ///
    /// # Errors
    /// What that work met.
    pub(crate) fn synchronize(&self) -> Result<()> {
        self.slots.iter().filter_map(|slot| slot.stream.as_ref()).try_for_each(|stream| stream.synchronize())
    }

    /// Lets go of streams that nobody else has, once their work is done.
    pub(crate) fn retire(&mut self) {
        for stream in self.slots.iter_mut().map(|slot| &mut slot.stream) {
            if stream.as_ref().is_some_and(|stream| Arc::strong_count(stream) == 1 && stream.synchronize().is_ok()) {
                *stream = None;
            }
        }
    }

    #[cold]
    fn wait(&mut self, mine: usize, other: usize) -> Result<()> {
        let (freed, clock, slots) = (self.slots[other].freed, self.clock, self.slots.len());
        let is_behind = self.slots[mine].waited.get(other).is_some_and(|&waited| waited >= freed);
        if mine == other || is_behind {
            return Ok(());
        }
        if let (Some(stream), Some(other)) = (&self.slots[mine].stream, &self.slots[other].stream) {
            stream.wait_for(&**other)?;
        }
        let waited = &mut self.slots[mine].waited;
        waited.resize(slots.max(waited.len()), 0);
        waited[other] = clock;
        Ok(())
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
        let slot =
            Slot { id: stream.id(), stream: Some(stream.shared_backend().clone()), freed: 0, waited: Vec::new() };
        if let Some(place) = self.slots.iter().position(|slot| slot.stream.is_none()) {
            // What the ended stream freed is free for all by now, and so for the one that takes its slot.
            self.slots[place] = slot;
            self.slots.iter_mut().filter_map(|slot| slot.waited.get_mut(place)).for_each(|waited| *waited = 0);
            return place;
        }
        self.slots.push(slot);
        self.slots.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::Tag;

    #[test]
    fn merged_tags_forget_nobody() {
        let (a, b) = (Tag(0), Tag(1));
        assert_eq!(Tag::NOBODY.merge(a), a);
        assert_eq!(a.merge(Tag::NOBODY), a);
        assert_eq!(a.merge(a), a);
        assert_eq!(a.merge(b), Tag::SEVERAL);
        assert_eq!(Tag::SEVERAL.merge(a), Tag::SEVERAL);
        assert_eq!(Tag::NOBODY.merge(Tag::NOBODY), Tag::NOBODY);
    }
}
