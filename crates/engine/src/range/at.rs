//! A block at a given address, for an owner that computed where its blocks lie.
//!
//! The search visits free spans until it finds the one at the address. Free spans are few beside blocks, and the owner copies the block's
//! bytes over a bus, which costs far more.

use smallvec::SmallVec;

use super::fit::Fit;
use super::ordered::Ordered;
use super::shared::DeviceRange;
use super::spans::SpanState;
use super::{ALIGN, Carved};
use crate::base::error::Result;
use crate::device::{Pages, Stream};

impl DeviceRange {
    /// The address of contiguous bytes that are free, and have pages from now on, and how many they are: `bytes`, or else as many as can
    /// still be reserved. `None` if that is nothing.
    ///
    /// # Errors
    /// [`is_out_of_memory`](crate::Error::is_out_of_memory) if the device has less than it seems, or a failure of the device.
    pub fn find_contiguous(&self, stream: &Stream, bytes: u64) -> Result<Option<(u64, u64)>> {
        // Others may hold memory of the device too.
        let available = stream.memory().pages().and_then(|pages| pages.available()).unwrap_or(u64::MAX);
        let most = {
            let range = &self.inner().range;
            let pages = range.pages.room().min(available / range.granule * range.granule);
            if range.is_long_enough(bytes) { bytes } else { bytes.min(pages) }
        };
        if most == 0 {
            return Ok(None);
        }
        let carved = self.allocate(stream, most, false)?;
        self.free(stream, carved.block);
        Ok(Some((carved.address, most)))
    }

    /// Memory for `bytes` at `address`. The stream waits for work that still uses it. `None` if a block has some of it, if some of it has no
    /// pages, or if the stream cannot wait.
    ///
    /// # Errors
    /// As for [`reuse`](DeviceRange::reuse).
    pub(crate) fn reuse_at(&self, stream: &Stream, bytes: u64, address: u64) -> Result<Option<Carved>> {
        let inner = &mut *self.inner();
        inner.check()?;
        let Ordered { range, streams, .. } = inner;
        let me = streams.attend(stream);
        let offset = address.wrapping_sub(range.pages.address(0));
        let Some(bytes) = range.rounded(bytes) else { return Ok(None) };
        let Some(spans) = range.fit.free_over(offset, bytes) else { return Ok(None) };
        for &id in &spans {
            match streams.claim(stream, range.fit.spans.at(id).tag) {
                Err(error) if error.is_unavailable() => return Ok(None),
                claimed => claimed?,
            }
        }
        let block = range.fit.carve(spans[0], offset, bytes);
        range.count(bytes);
        Ok(Some(inner.carved(me, block, 0, 0)))
    }
}

impl Fit {
    /// The free spans that cover `bytes` from an offset on, in order of address: one, unless different work may still use them. `None` if
    /// some of it is not free, or the offset is no multiple of [`ALIGN`].
    fn free_over(&self, offset: u64, bytes: u64) -> Option<SmallVec<[u32; 4]>> {
        let end = offset.checked_add(bytes).filter(|_| offset.is_multiple_of(ALIGN))?;
        let spans = &self.spans;
        let begins = |id: u32| spans.at(id).offset <= offset && offset < spans.at(id).end();
        let first = self.free_spans(0).find(|&id| begins(id))?;
        let is_free = |id: &u32| spans.state(*id) == Some(SpanState::Free);
        let next = |&id: &u32| Some(spans.at(id).next).filter(|next| spans.at(id).end() < end && is_free(next));
        let covered: SmallVec<_> = std::iter::successors(Some(first), next).collect();
        covered.last().is_some_and(|&last| end <= spans.at(last).end()).then_some(covered)
    }
}
