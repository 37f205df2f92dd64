//! The result of an invalidation: [`Invalidated`].

use std::fmt;

use gpucache_engine::base::amounts::{Bytes, Count};

/// The result of an invalidation: the memory that it freed in one scope or several, over all threads.
///
/// ```
/// use gpucache::{cache_scope, invalidate, prelude::*};
///
/// let host = Host::new();
/// let kept = cache_scope!(given, { host.zeros::<u8>(4096)? });
/// cache_scope!(given, { host.zeros::<u8>(4096)? });
/// let given = invalidate("given");
/// assert_eq!((given.is_known, given.bytes, given.busy_blocks), (true, 4096, 1));
/// # drop(kept);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Invalidated {
    /// Whether a scope of this name exists. If not, the name may be misspelt.
    pub is_known: bool,
    /// Bytes that the scope no longer keeps: the larger of [`idle_bytes`](super::ScopeStats::idle_bytes) and
    /// [`spare_bytes`](super::ScopeStats::spare_bytes) before the call. The device's range keeps the part of them that other scopes are
    /// likely to need; [`Device::memory`](crate::device::Device::memory) shows how much went back to the device.
    pub bytes: u64,
    /// Blocks in use. Their memory is freed when their arrays are dropped.
    pub busy_blocks: u64,
}

impl fmt::Display for Invalidated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_known {
            true => {
                let busy = Count(self.busy_blocks, "block", "blocks");
                write!(f, "{} freed, {busy} still in use", Bytes(self.bytes))
            }
            false => f.write_str("no scope of this name exists"),
        }
    }
}
