//! The work that may use free memory at some moment, for a caller who waits until all of it is done. Later work does not count.

use super::DeviceRange;
use super::wait::{LONGEST, SHORT, WaitFor, poll};
use crate::base::error::Result;
use crate::order::{Epoch, FreeMoment};

/// Work that may use free memory.
pub(crate) struct UnderWay {
    /// The last mark behind work on unknown streams.
    mark: Option<FreeMoment>,
    /// The last epoch of each stream with such work.
    epochs: Vec<(usize, Epoch)>,
}

impl UnderWay {
    pub(crate) fn is_any(&self) -> bool {
        self.mark.is_some() || !self.epochs.is_empty()
    }
}

impl DeviceRange {
    /// Whether the range could serve `bytes` bytes if all work were done, as far as its limits allow.
    pub(crate) fn could_serve(&self, bytes: u64) -> bool {
        let inner = self.inner();
        inner.range.could_gather(bytes, |tag| !inner.streams.is_reserved(tag))
    }

    /// How many bytes the device must add to serve `bytes` bytes, if all work were done. 0 if the range could serve them as it is.
    pub(crate) fn needs(&self, bytes: u64) -> u64 {
        let inner = self.inner();
        inner.range.needs(bytes, |tag| !inner.streams.is_reserved(tag))
    }

    /// The work that may use free memory now, without work that somebody waited for in vain.
    ///
    /// # Errors
    /// An error of that work.
    pub(crate) fn under_way(&self) -> Result<UnderWay> {
        self.mark_behind_all()?;
        let streams = &mut self.inner().streams;
        streams.look(true)?;
        Ok(UnderWay { mark: streams.unknown.last_mark(), epochs: streams.under_way() })
    }

    /// Waits until no work uses free memory, for a limited time, and returns all free pages to the device. Returns whether the wait was long
    /// enough.
    ///
    /// # Errors
    /// As for [`trim`](DeviceRange::trim).
    pub fn empty(&self) -> Result<bool> {
        let work = self.under_way()?;
        let is_over = poll(LONGEST, || Ok(self.is_over(&work)?.then_some(())))?.is_some();
        if is_over {
            self.give_all_back(WaitFor::AnyWork)?;
        } else {
            self.give_up_on(&work);
        }
        Ok(is_over)
    }

    /// Learns which free memory no work uses any more. It waits for a moment, since a device needs one to report that nothing is left to do.
    ///
    /// # Errors
    /// An error of that work.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "CUDA alone has captures"))]
    pub(crate) fn learn_idle(&self) -> Result<()> {
        let work = self.under_way()?;
        poll(SHORT, || Ok(self.is_over(&work)?.then_some(()))).map(drop)
    }

    /// Sets a mark behind all present work of the device, also if a short wait for earlier marks was in vain.
    fn mark_behind_all(&self) -> Result<()> {
        let were_slow = self.inner().streams.unknown.try_again();
        let marked = self.mark_now();
        if were_slow {
            self.inner().streams.unknown.give_up();
        }
        marked
    }

    /// Whether this work is done.
    ///
    /// # Errors
    /// An error of that work.
    pub(crate) fn is_over(&self, work: &UnderWay) -> Result<bool> {
        let streams = &mut self.inner().streams;
        streams.look(false)?;
        let is_settled = work.mark.is_none_or(|mark| mark <= streams.unknown.settled());
        Ok(is_settled && streams.are_over(&work.epochs))
    }

    /// Notes that a request waited for this work in vain, for as long as requests wait.
    pub(crate) fn give_up_on(&self, work: &UnderWay) {
        let streams = &mut self.inner().streams;
        streams.unknown.outlasted_by(work.mark);
        streams.outlasted_by(&work.epochs);
    }
}
