//! The limit of a scope on one thread, as its newest entry sets it.

use crate::base::error::Result;
use crate::base::limit::{Limit, LimitKind, share_of};
use crate::device::Memory;

pub(super) struct ScopeLimit {
    /// The allowed bytes; `u64::MAX` for no limit, and for a share until a device has supplied the scope.
    most: u64,
    /// The packed limit of the newest entry.
    set: u64,
    /// The device that a share was computed for last, and the size of the smallest device that the scope asked.
    device: u64,
    size: u64,
}

impl Default for ScopeLimit {
    fn default() -> ScopeLimit {
        // No device has this id.
        ScopeLimit { most: u64::MAX, set: Limit::NONE.packed(), device: 0, size: u64::MAX }
    }
}

impl ScopeLimit {
    /// The allowed bytes, as far as they are known; `u64::MAX` for no limit.
    #[inline]
    pub(super) fn most(&self) -> u64 {
        self.most
    }

    /// Whether the scope may exceed the limit once it has no idle memory.
    pub(super) fn is_soft(&self) -> bool {
        self.kind().is_soft()
    }

    /// An entry sets the limit.
    #[inline]
    pub(super) fn set(&mut self, packed: u64) {
        self.set = packed;
        self.most = if packed == u64::MAX { u64::MAX } else { self.of_limit() };
    }

    fn kind(&self) -> LimitKind {
        Limit::of_packed(self.set).parts().1
    }

    fn of_limit(&self) -> u64 {
        let (share, kind) = Limit::of_packed(self.set).parts();
        if kind.is_in_bytes() {
            return share;
        }
        let is_known = self.size < u64::MAX && kind != LimitKind::Invalid;
        if is_known { share_of(share, self.size) } else { u64::MAX }
    }

    /// Whether [`learn`](ScopeLimit::learn) has to be called before memory of this device is supplied.
    #[inline]
    pub(super) fn asks_for(&self, memory: &Memory) -> bool {
        match self.kind() {
            // It is refused for each device, also for one whose size is known.
            LimitKind::Invalid => true,
            kind => !kind.is_in_bytes() && self.device != memory.id(),
        }
    }

    /// Computes a share for a device that supplies the scope. With several devices it is a share of the smallest one.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) if the device does not tell its size, or the limit was set with what is none.
    #[cold]
    pub(super) fn learn(&mut self, memory: &Memory) -> Result<()> {
        let size = memory.size();
        Limit::of_packed(self.set).bytes(size)?;
        self.size = self.size.min(size.unwrap_or(u64::MAX));
        self.most = self.of_limit();
        self.device = memory.id();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Virtual;

    #[test]
    fn a_share_is_one_of_the_smallest_device_that_the_scope_asked() {
        let [large, small] = [1000, 500].map(Virtual::new);
        let memory = |device: &Virtual| device.stream_handle().memory().clone();
        let mut limit = ScopeLimit::default();
        let set = |limit: &mut ScopeLimit, new: Limit| limit.set(new.packed());
        set(&mut limit, Limit::share(0.5));
        assert_eq!((limit.most(), limit.asks_for(&memory(&large))), (u64::MAX, true));
        limit.learn(&memory(&large)).unwrap();
        assert_eq!((limit.most(), limit.asks_for(&memory(&large))), (500, false));
        limit.learn(&memory(&small)).unwrap();
        assert_eq!(limit.most(), 250);
        set(&mut limit, Limit::soft(7));
        assert!((limit.most(), limit.is_soft(), limit.asks_for(&memory(&large))) == (7, true, false));
        set(&mut limit, Limit::soft_share(0.1));
        assert!((limit.most(), limit.is_soft()) == (50, true));
        set(&mut limit, Limit::INVALID);
        for device in [&large, &small] {
            assert!(limit.asks_for(&memory(device)) && limit.learn(&memory(device)).is_err());
        }
        set(&mut limit, Limit::NONE);
        assert_eq!(limit.most(), u64::MAX);
    }
}
