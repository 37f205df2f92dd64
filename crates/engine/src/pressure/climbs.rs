//! What the ladder did, counted by rung: of a device, or of a scope.

use std::fmt;

use super::ladder::Rung;
use crate::base::amounts::{Bytes, Count, add, total};

/// What allocations did on one rung.
///
/// ```
/// assert_eq!(gpucache::RungUse::default().tried, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct RungUse {
    /// How many came to it.
    pub tried: u64,
    /// How many of them were served there.
    pub served: u64,
    /// Bytes that scopes gave back to the device's range for them.
    pub freed_bytes: u64,
}

/// How often the memory of a device was short, and how allocations were served then: what [`climbs`](crate::climbs) tells of a
/// device, and `climbs_of` of a scope.
///
/// ```
/// use gpucache::{Rung, cache_scope, climbs, device::Virtual, prelude::*};
///
/// let device = Virtual::new(8 << 20);
/// cache_scope!(first, recycle = "keyed", { device.zeros::<u8>(6 << 20)? });
/// cache_scope!(second, recycle = "keyed", { device.zeros::<u8>(4 << 20)? }); // for which the first one gives its memory
/// let climbs = climbs(&device);
/// assert_eq!((climbs.begun(), climbs.failed, climbs.of(Rung::Others).served), (1, 0, 1));
/// println!("{climbs}");
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Climbs {
    /// Allocations that no rung served: each returned an error.
    pub failed: u64,
    /// Allocations for which more than the soft limit of the device is held, as nothing idle could serve them.
    pub beyond_soft: u64,
    pub(super) rungs: [RungUse; Rung::ALL.len()],
}

impl Climbs {
    /// What was done on one rung.
    ///
    /// ```
    /// use gpucache::{Rung, climbs, device::Virtual};
    ///
    /// assert_eq!(climbs(&Virtual::new(1 << 30)).of(Rung::Pages).tried, 0);
    /// ```
    pub fn of(&self, rung: Rung) -> RungUse {
        self.rungs[rung as usize]
    }

    /// How many allocations found the device short of memory.
    ///
    /// ```
    /// use gpucache::{climbs, device::Virtual, prelude::*};
    ///
    /// let device = Virtual::new(1 << 20);
    /// assert!(device.zeros::<u8>(2 << 20).is_err());
    /// assert_eq!((climbs(&device).begun(), climbs(&device).failed), (1, 1));
    /// ```
    pub fn begun(&self) -> u64 {
        total(self.rungs.iter().map(|rung| rung.served).chain([self.failed]))
    }
}

impl fmt::Display for Climbs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let begun = Count(self.begun(), "shortage", "shortages");
        write!(f, "{begun}, {} of them errors", self.failed)?;
        if self.beyond_soft > 0 {
            write!(f, "; {} beyond the soft limit", self.beyond_soft)?;
        }
        for (rung, used) in Rung::ALL.iter().zip(&self.rungs).filter(|(_, used)| used.tried > 0) {
            write!(f, "; {rung}: {} of {} served", used.served, used.tried)?;
            if used.freed_bytes > 0 {
                write!(f, ", {} freed", Bytes(used.freed_bytes))?;
            }
        }
        Ok(())
    }
}

impl Climbs {
    /// Counts more of them.
    pub(crate) fn add(&mut self, more: &Climbs) {
        add(&mut self.failed, more.failed);
        add(&mut self.beyond_soft, more.beyond_soft);
        for (sum, more) in self.rungs.iter_mut().zip(&more.rungs) {
            add(&mut sum.tried, more.tried);
            add(&mut sum.served, more.served);
            add(&mut sum.freed_bytes, more.freed_bytes);
        }
    }
}
