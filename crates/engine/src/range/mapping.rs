//! The calls of the device, and the record of their results. Handles, free spans and holes change with every call. If a call fails
//! half-way, they change by the part that was done.
//!
//! Neighbouring handles are mapped with one call and unmapped with one, which costs far less on most devices than a call for each handle.

use super::fit::Fit;
use super::handles::IdleHandle;
use super::range::{Backing, Range};
use super::spans::NIL;
use super::window::Stretch;
use crate::device::{Pages, Unfinished};

impl<P: Pages> Range<P> {
    /// Maps all `stretches` or none, and returns the free span that contains the last of them. If a later stretch fails and the device
    /// refuses to unmap earlier ones, these stay as free memory.
    pub(super) fn map_all(&mut self, stretches: &[Stretch]) -> Result<Option<u32>, P::Error> {
        for (done, stretch) in stretches.iter().enumerate() {
            if let Err(Unfinished { mapped, error }) = self.map(stretch) {
                self.fit.map_first(stretch, mapped);
                for stretch in stretches[..done].iter().rev() {
                    let left = self.unmap(stretch.offset, &stretch.pieces).err().map_or(0, |left| left.mapped);
                    self.fit.map_first(stretch, left);
                }
                return Err(error);
            }
        }
        Ok(stretches.iter().filter_map(|stretch| self.fit.map_first(stretch, stretch.pieces.len())).last())
    }

    /// Unmaps handles. They are given in order of address, so in each span the rest lies behind the handles that were unmapped.
    pub(super) fn unmap_idle(&mut self, idle: &[IdleHandle]) -> Result<(), P::Error> {
        let (mut span, mut rest) = (NIL, NIL);
        for run in idle.chunk_by(|left, right| left.span == right.span && left.offset + left.bytes == right.offset) {
            if run[0].span != span {
                (span, rest) = (run[0].span, run[0].span);
            }
            let pieces: Vec<u64> = run.iter().map(|handle| handle.bytes).collect();
            rest = self.unmap_free(rest, run[0].offset, &pieces)?;
        }
        Ok(())
    }

    /// Unmaps neighbouring handles within the free span `id`, and returns the free span behind them.
    fn unmap_free(&mut self, id: u32, offset: u64, pieces: &[u64]) -> Result<u32, P::Error> {
        let unmapped = self.unmap(offset, pieces);
        let (left, gone) = pieces.split_at(unmapped.as_ref().err().map_or(0, |left| left.mapped));
        let mut rest = id;
        if !gone.is_empty() {
            match self.backing {
                Backing::Span => rest = self.fit.unmap(id, offset + left.iter().sum::<u64>(), gone.iter().sum()),
                Backing::Chunks => self.fit.remove_chunk(id),
            }
        }
        unmapped.map(|()| rest).map_err(|unfinished| unfinished.error)
    }

    /// Takes a chunk of `bytes`, and returns its address.
    pub(super) fn take_chunk(&mut self, bytes: u64) -> Result<u64, P::Error> {
        let offset = self.pages.chunk(bytes)?;
        self.count_mapped(offset, &[bytes]);
        Ok(offset)
    }

    fn map(&mut self, stretch: &Stretch) -> Result<(), Unfinished<P::Error>> {
        let mapped = self.pages.map(stretch.offset, &stretch.pieces);
        let count = mapped.as_ref().err().map_or(stretch.pieces.len(), |unfinished| unfinished.mapped);
        self.count_mapped(stretch.offset, &stretch.pieces[..count]);
        mapped
    }

    fn unmap(&mut self, offset: u64, pieces: &[u64]) -> Result<(), Unfinished<P::Error>> {
        let unmapped = self.pages.unmap(offset, pieces);
        let (left, gone) = pieces.split_at(unmapped.as_ref().err().map_or(0, |unfinished| unfinished.mapped));
        self.stats.reserved -= self.handles.remove(offset + left.iter().sum::<u64>(), gone);
        self.stats.unmap_calls += gone.len() as u64;
        unmapped
    }

    fn count_mapped(&mut self, offset: u64, pieces: &[u64]) {
        self.stats.reserved += self.handles.insert(offset, pieces);
        self.stats.map_calls += pieces.len() as u64;
    }
}

impl Fit {
    /// Makes the first `count` pieces of a stretch free memory, and returns the free span that contains them then.
    fn map_first(&mut self, stretch: &Stretch, count: usize) -> Option<u32> {
        (count > 0).then(|| self.map(stretch.hole, stretch.offset, stretch.pieces[..count].iter().sum()))
    }
}
