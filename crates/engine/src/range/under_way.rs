//! The work that may use free memory at some moment, for a caller who waits until all of it is done. Later work does not count.

use super::DeviceRange;
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
    /// The work that may use free memory now.
    ///
    /// # Errors
    /// An error of that work.
    pub(crate) fn under_way(&self) -> Result<UnderWay> {
        self.mark_now()?;
        let streams = &mut self.inner().streams;
        streams.look(true)?;
        Ok(UnderWay { mark: streams.unknown.last_mark(), epochs: streams.under_way() })
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
}
