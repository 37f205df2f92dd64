//! Entries whose sizes are smaller than all known ones.
//!
//! Their requests lower the least bytes of the positions, so later entries of these sizes are served at once. Only the first position gets its
//! least bytes back: by the sizes of the first allocation, an entry finds its plan.

use super::Cursor;

impl Cursor {
    /// Begins an entry whose sizes are smaller than all known ones. Its first allocation has this many bytes.
    pub fn begin_smaller(&mut self, bytes: u64) {
        let Some(first) = self.positions.first_mut().filter(|first| first.is_planned() && self.next == 0) else {
            return;
        };
        self.off_order.is_scaled = true;
        // The first position may be as small in another plan that shares it.
        if bytes < first.least {
            self.off_order.first = Some((first.least, first.spread));
            first.lower_least(bytes);
        }
    }

    /// Lets a position serve smaller requests. The first one stays as it is.
    pub(super) fn lower_least(&mut self, position: usize, bytes: u64) {
        if position > 0 {
            self.positions[position].lower_least(bytes);
        }
    }

    /// Gives the first position its least bytes back.
    #[inline]
    pub(super) fn end_smaller(&mut self) {
        if let Some((least, spread)) = self.off_order.first.take()
            && let Some(first) = self.positions.first_mut()
        {
            (first.least, first.spread) = (least, spread);
        }
    }
}
