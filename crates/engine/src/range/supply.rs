//! What an allocation asks of a device's range first, and where it ends: what is free, and more from the device; and what a shortage
//! asks of the range. Nobody is waited for while the range is locked.

use super::Limit;
use super::ordered::{CANDIDATES, Carved, Ordered, RangeState};
use super::shared::{DeviceRange, memories};
use super::wait::WaitFor;
use crate::base::errand::run_user_code;
use crate::base::error::Result;
use crate::base::held::assert_nothing_held;
use crate::device::Stream;

/// What a range has for a request without more memory from the device.
pub(crate) enum Reused {
    Carved(Carved),
    /// Nothing is long enough that the stream may use at once.
    Nothing(RangeState),
}

impl DeviceRange {
    /// Memory for `bytes` from what the device has given already, or else how much of it is in use.
    ///
    /// # Errors
    /// What the work of those met who use the rest.
    pub(crate) fn reuse(&self, stream: &Stream, bytes: u64) -> Result<Reused> {
        self.supply(|inner| {
            inner.check()?;
            let carved = inner.reuse(stream, bytes, CANDIDATES)?;
            Ok(carved.map_or_else(|| Reused::Nothing(inner.occupancy()), Reused::Carved))
        })
    }

    /// As [`reuse`](DeviceRange::reuse), or behind whoever still uses what is free: for those who know that they are done in time.
    ///
    /// # Errors
    /// As for [`reuse`](DeviceRange::reuse).
    pub(crate) fn reuse_behind(&self, stream: &Stream, bytes: u64) -> Result<Option<Carved>> {
        self.supply(|inner| {
            inner.check()?;
            if let Some(carved) = inner.reuse_at_its_end(stream, bytes) {
                return Ok(Some(carved));
            }
            match inner.reuse(stream, bytes, CANDIDATES)? {
                Some(carved) => Ok(Some(carved)),
                None => inner.reuse_behind(stream, bytes),
            }
        })
    }

    /// Memory for `bytes`, with more from the device if need be. If it `insists`, and the device has no more, what other
    /// streams still use, behind which `stream` comes then.
    ///
    /// # Errors
    /// [`is_out_of_memory`](crate::Error::is_out_of_memory) if neither memory nor addresses suffice; a failure of the device.
    pub(crate) fn allocate(&self, stream: &Stream, bytes: u64, insists: bool) -> Result<Carved> {
        self.supply(|inner| {
            inner.serve(stream);
            match inner.extend(stream, bytes) {
                Err(error) if insists && error.is_out_of_memory() => inner.seize(stream, bytes, error),
                carved => carved,
            }
        })
    }

    /// Drops the backends of streams that ended, as a supply does.
    pub(crate) fn drop_ended(&self) {
        self.supply(|_| ());
    }

    /// Does what an allocation asks for. The backends of streams that ended are dropped behind the lock: the destructor of one may be code
    /// of the program.
    fn supply<R>(&self, act: impl FnOnce(&mut Ordered) -> R) -> R {
        let mut inner = self.inner();
        let answer = act(&mut inner);
        let ended = inner.streams.take_ended();
        drop(inner);
        assert_nothing_held();
        if !ended.is_empty() {
            run_user_code(|| drop(ended));
        }
        answer
    }

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
        let given = self.trim(self.occupancy().reserved.saturating_sub(bytes), WaitFor::UnknownWork)?;
        Ok(given + if given < bytes { self.trim(0, WaitFor::UnknownWork)? } else { 0 })
    }

    /// Gives all free pages back to the device, with those of which it is found out now that no work uses them.
    ///
    /// # Errors
    /// As for [`trim`](DeviceRange::trim).
    pub fn give_all_back(&self, wait_for: WaitFor) -> Result<u64> {
        self.end_epochs()?;
        self.trim(0, wait_for)
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

/// As [`give_back_elsewhere`], with `wait_for` for the work that uses pages, until so many bytes went back.
pub(crate) fn await_elsewhere(but: u64, bytes: u64, wait_for: WaitFor) -> u64 {
    elsewhere(but, bytes, |range, _| range.give_all_back(wait_for))
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
