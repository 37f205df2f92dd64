//! What a shortage asks of a device's range. As all of `shared` it waits for nobody while the range is locked.

use super::Limit;
use super::ordered::Carved;
use super::patience::Patience;
use super::shared::{DeviceRange, memories};
use crate::base::error::Result;
use crate::device::Stream;

impl DeviceRange {
    /// Memory for `bytes` for which free pages move, as few as do. Waits for no work except that of which nobody tells. `None`
    /// if the pages that no work uses are not enough.
    ///
    /// # Errors
    /// A failure of the device other than that it has no memory, or of work on it.
    pub(crate) fn move_pages(&self, stream: &Stream, bytes: u64) -> Result<Option<Carved>> {
        // As many go as what the device has by all that is known, and by its limit, is short of.
        match self.try_gather(stream, bytes, Limit::aiming_at(u64::MAX)) {
            // Others have some of it: as many have to go as come.
            Err(error) if error.is_out_of_memory() => {}
            moved => return moved,
        }
        match self.try_gather(stream, bytes, Limit::at(0)) {
            Err(error) if error.is_out_of_memory() => Ok(None),
            moved => moved,
        }
    }

    /// Gives free pages of so many bytes back to the device, or all that no work uses where those of that length are not enough.
    ///
    /// # Errors
    /// As for [`trim`](DeviceRange::trim).
    pub fn give_back(&self, bytes: u64) -> Result<u64> {
        let given = self.trim(self.occupancy().reserved.saturating_sub(bytes), Patience::ForUnknown)?;
        Ok(given + if given < bytes { self.trim(0, Patience::ForUnknown)? } else { 0 })
    }

    /// Gives all free pages back to the device, with those of which it is found out now that no work uses them.
    ///
    /// # Errors
    /// As for [`trim`](DeviceRange::trim).
    pub fn give_all_back(&self, patience: Patience) -> Result<u64> {
        self.end_epochs()?;
        self.trim(0, patience)
    }

    /// The device has no memory left: ends the epochs of all streams, so that it can be found out what they still use.
    ///
    /// # Errors
    /// What the streams' work met.
    fn end_epochs(&self) -> Result<()> {
        self.inner().streams.look(true)
    }

    /// The longest stretch that is free.
    pub fn longest_free(&self) -> u64 {
        self.inner().range.longest_free()
    }
}

/// Gives free pages of so many bytes back to their devices, of whatever device but one; or all that no work uses. Returns the bytes.
/// A failure is the device's, which the next call there meets as well.
pub(crate) fn give_back_elsewhere(but: u64, bytes: u64) -> u64 {
    elsewhere(but, bytes, DeviceRange::give_back)
}

/// As [`give_back_elsewhere`], with `patience` for the work that uses pages, until so many bytes went back.
pub(crate) fn await_elsewhere(but: u64, bytes: u64, patience: Patience) -> u64 {
    elsewhere(but, bytes, |range, _| range.give_all_back(patience))
}

fn elsewhere(but: u64, bytes: u64, give_back: impl Fn(&DeviceRange, u64) -> Result<u64>) -> u64 {
    let mut given = 0;
    for memory in memories().into_iter().filter(|memory| memory.id() != but) {
        if given < bytes
            && let Some(range) = memory.known_range::<DeviceRange>()
        {
            given += give_back(range, bytes - given).unwrap_or(0);
        }
    }
    given
}

/// The devices that have a range, but one.
pub(crate) fn devices_but(but: u64) -> impl Iterator<Item = u64> {
    memories().into_iter().map(|memory| memory.id()).filter(move |&id| id != but)
}
