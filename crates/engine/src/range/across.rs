//! Blocks across neighbouring free spans, which stay apart because different work may still use them. A stream that may use each of them may
//! use them together.
//!
//! The search visits every free span. It runs only before a shared range grows, which costs far more.

use super::fit::{Fit, RangeBlock};
use super::range::Range;
use super::spans::SpanState;
use crate::device::Pages;
use crate::order::Tag;

impl<P: Pages> Range<P> {
    /// A block of at least `bytes` in mapped memory whose tags `may_use` accepts.
    pub(super) fn reuse_across(&mut self, bytes: u64, may_use: impl Fn(Tag) -> bool) -> Option<RangeBlock> {
        let rounded = self.rounded(bytes)?;
        let block = self.fit.allocate_across(rounded, may_use)?;
        self.count(rounded);
        Some(block)
    }
}

impl Fit {
    /// A block at the front of the shortest run of neighbouring free spans that `may_use` accepts and that are long enough together; among
    /// equals, of the one at the lowest address.
    fn allocate_across(&mut self, bytes: u64, may_use: impl Fn(Tag) -> bool) -> Option<RangeBlock> {
        let is_usable = |&id: &u32| self.spans.state(id) == Some(SpanState::Free) && may_use(self.spans.at(id).tag);
        let begins = |&id: &u32| !is_usable(&self.spans.at(id).prev);
        let behind = |&id: &u32| Some(self.spans.at(id).next).filter(is_usable);
        let length = |first: u32| std::iter::successors(Some(first), behind).map(|id| self.spans.at(id).bytes).sum();
        let runs = self.free_spans(0).filter(is_usable).filter(begins).map(|first| (length(first), first));
        let shortest = runs
            .filter(|&(length, _): &(u64, u32)| length >= bytes)
            .min_by_key(|&(length, id)| (length, self.spans.at(id).offset));
        let (_, first) = shortest?;
        Some(self.carve(first, self.spans.at(first).offset, bytes))
    }
}
