//! The first and the last step of an allocation in a device's range: free memory, and more memory from the device. Also the calls that a
//! shortage makes. No thread waits while the range is locked.

use std::sync::Arc;

use super::GatherLimit;
use super::ordered::{CANDIDATES, Carved, Ordered, RangeState};
use super::shared::DeviceRange;
use super::wait::WaitFor;
use crate::base::errand::run_user_code;
use crate::base::error::Result;
use crate::base::held::assert_nothing_held;
use crate::device::{Memory, Stream};

impl DeviceRange {
    /// Memory for `bytes` from memory that is already reserved; or the state of the range, if no free span that the stream may use at once
    /// is long enough.
    ///
    /// # Errors
    /// An error of the work that uses the other memory.
    pub(crate) fn reuse(&self, stream: &Stream, bytes: u64) -> Result<Result<Carved, RangeState>> {
        self.supply(|inner| {
            inner.check()?;
            let carved = inner.reuse(stream, bytes, CANDIDATES)?;
            Ok(carved.ok_or_else(|| inner.occupancy()))
        })
    }

    /// Like [`reuse`](DeviceRange::reuse), or memory that other work still uses. The stream then waits for that work. It is for callers who
    /// know that the work is done in time.
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

    /// Memory for `bytes`, with more memory from the device if necessary. If the device has no more and the caller `insists`, this takes
    /// memory that other streams still use, and `stream` waits for their work.
    ///
    /// # Errors
    /// [`is_out_of_memory`](crate::Error::is_out_of_memory) if neither memory nor addresses suffice; a failure of the device.
    pub(crate) fn allocate(&self, stream: &Stream, bytes: u64, insists: bool) -> Result<Carved> {
        self.supply(|inner| {
            inner.serve(stream);
            match inner.extend(stream, bytes) {
                Err(error) if insists && error.is_shortage() => inner.seize(stream, bytes, error),
                carved => carved,
            }
        })
    }

    /// Drops the backends of streams that ended, as every supply does, and of those that nobody has a handle of and whose work is done.
    pub(crate) fn drop_ended(&self) {
        self.supply(|inner| inner.streams.retire());
    }

    /// Runs a step of an allocation under the lock. The backends of streams that ended are dropped after the lock is released, since their
    /// destructors may be code of the program.
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

    /// Memory for `bytes`, for which free pages are moved, as few as possible. It waits for no work except work on unknown streams. `None`
    /// if the pages that no work uses do not suffice.
    ///
    /// # Errors
    /// A failure of the device other than out of memory, or of work on it.
    pub(crate) fn move_pages(&self, stream: &Stream, bytes: u64) -> Result<Option<Carved>> {
        // The first attempt unmaps only as much as the device lacks by its limit and by all that is known.
        match self.try_gather(stream, bytes, GatherLimit::aiming_at(u64::MAX)) {
            // Other programs hold some of that memory. The second attempt unmaps as many bytes as it maps.
            Err(error) if error.is_shortage() => {}
            moved => return moved,
        }
        match self.try_gather(stream, bytes, GatherLimit::at(0)) {
            Err(error) if error.is_shortage() => Ok(None),
            moved => moved,
        }
    }

    /// Returns free pages of `bytes` bytes to the device. If the handles of at most that length do not suffice, it returns all pages that
    /// no work uses.
    ///
    /// # Errors
    /// As for [`trim`](DeviceRange::trim).
    pub(crate) fn give_back(&self, bytes: u64) -> Result<u64> {
        let given = self.trim(self.occupancy().reserved.saturating_sub(bytes), WaitFor::UnknownWork)?;
        Ok(given + if given < bytes { self.trim(0, WaitFor::UnknownWork)? } else { 0 })
    }

    /// Returns all free pages to the device. It first asks all streams how far they are, so pages whose work is done are included.
    ///
    /// # Errors
    /// As for [`trim`](DeviceRange::trim).
    pub(crate) fn give_all_back(&self, wait_for: WaitFor) -> Result<u64> {
        self.inner().streams.look(true)?;
        self.trim(0, wait_for)
    }

    /// The length of the longest free stretch.
    pub(crate) fn longest_free(&self) -> u64 {
        self.inner().range.longest_free()
    }

    /// The reserved bytes, the bytes in use, the longest free stretch, and the counts of the device ([`Meter::read`](crate::device::Meter::read)). They are of one moment,
    /// since the range asks the device for memory only under its lock.
    pub fn read(&self) -> ([u64; 3], ([u64; 4], u64, u64)) {
        let inner = self.inner();
        let RangeState { reserved, live, .. } = inner.occupancy();
        ([reserved, live, inner.range.longest_free()], inner.range.pages.meter().read())
    }
}

/// Returns free pages of `bytes` bytes to all devices except one, or all pages that no work uses. Returns the number of bytes. A failure is
/// ignored: the next call on that device meets it too.
pub(crate) fn give_back_elsewhere(but: u64, bytes: u64) -> u64 {
    elsewhere(but, bytes, DeviceRange::give_back)
}

/// Like [`give_back_elsewhere`], but waits for the work that uses pages as `wait_for` says, until `bytes` bytes were returned.
pub(crate) fn await_elsewhere(but: u64, bytes: u64, wait_for: WaitFor) -> u64 {
    elsewhere(but, bytes, |range, _| range.give_all_back(wait_for))
}

fn elsewhere(but: u64, bytes: u64, give_back: impl Fn(&DeviceRange, u64) -> Result<u64>) -> u64 {
    let mut given = 0;
    for memory in Memory::every().into_iter().filter(|memory| memory.id() != but) {
        if given < bytes
            && let Some(range) = memory.known_range::<DeviceRange>()
        {
            given += give_back(range, bytes - given).unwrap_or(0);
        }
    }
    given
}

/// The devices that have a range, except one.
pub(crate) fn devices_but(but: u64) -> impl Iterator<Item = u64> {
    let with_range = |memory: &Arc<Memory>| memory.known_range::<DeviceRange>().is_some();
    Memory::every().into_iter().filter(with_range).map(|memory| memory.id()).filter(move |&id| id != but)
}
