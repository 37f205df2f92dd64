//! What an allocation asks of a device's range first, and where it ends: what is free, and more from the device.

use super::ordered::{CANDIDATES, Carved, Ordered, RangeUse};
use super::shared::DeviceRange;
use crate::base::errand::run_user_code;
use crate::base::error::Result;
use crate::base::held::assert_nothing_held;
use crate::device::Stream;

/// What a range has for a request without more memory from the device.
pub(crate) enum Reused {
    Carved(Carved),
    /// Nothing is long enough that the stream may use at once.
    Nothing(RangeUse),
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
}
