//! Records of positions that a plan does not serve now.

use super::identity::ArenaId;
use super::lives::Record;

/// Records without memory, the one that came last on top: its lines are the likeliest to be in the processor's cache.
#[derive(Default)]
pub(crate) struct Stack(Option<Box<Record>>);

impl Stack {
    #[inline]
    pub(crate) fn push(&mut self, mut record: Box<Record>) {
        let nothing = std::mem::replace(&mut record.below, self.0.take());
        // None is under a record that is on no stack; to forget that costs nothing, to drop it would.
        std::mem::forget(nothing);
        self.0 = Some(record);
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Box<Record>> {
        let mut top = self.0.take()?;
        self.0 = top.below.take();
        Some(top)
    }

    /// Lets all of them serve positions of this arena.
    pub(crate) fn join(&mut self, arena: ArenaId) {
        let mut next = &mut self.0;
        while let Some(record) = next {
            record.join(arena);
            next = &mut record.below;
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // One by one, not one within the other.
        while self.pop().is_some() {}
    }
}
