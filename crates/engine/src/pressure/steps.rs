//! The reclaim steps: what is done, in which order, for a request that finds no memory, and how often each step served one.
//!
//! A step costs somebody more than the step before it. Each does as little as suffices, and only on the device that is short. `climb`
//! does what the steps say.

use std::fmt;

use crate::base::amounts::{Bytes, Count, add, total};

/// A step of the reclaim: what is done for an allocation that finds no memory on its device, until it is served.
///
/// ```
/// use gpucache::Rung;
///
/// let names: Vec<_> = Rung::ALL.iter().map(|rung| rung.name()).collect();
/// assert_eq!(names, ["pages", "others", "own", "streams", "waiting", "spill", "arenas", "patience", "handlers"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rung {
    /// Pages in which nothing lies move to where the allocation fits.
    Pages,
    /// Other scopes' idle memory, one scope after the other: those of threads that have ended, then the one that was
    /// entered least recently.
    Others,
    /// The asking scope's own idle memory: its lists, what was idle longest first, then its plan's block.
    Own,
    /// Memory that other streams freed and may still use: the asking stream comes behind them.
    Streams,
    /// Memory whose work is done in a moment, for which the thread waits.
    Waiting,
    /// Arrays in use that may rest on the host (`Placed`): those that were used least recently leave.
    Spill,
    /// The blocks of plans that other threads are inside of, where nothing in them is alive.
    Arenas,
    /// What other threads drop meanwhile, for which the thread waits as long as `patience` says.
    Patience,
    /// What the program gives up, by [`on_pressure`](crate::on_pressure).
    Handlers,
}

impl Rung {
    /// All of them, in their order.
    ///
    /// ```
    /// assert_eq!(gpucache::Rung::ALL.len(), 9);
    /// ```
    pub const ALL: [Rung; 9] = [
        Rung::Pages,
        Rung::Others,
        Rung::Own,
        Rung::Streams,
        Rung::Waiting,
        Rung::Spill,
        Rung::Arenas,
        Rung::Patience,
        Rung::Handlers,
    ];

    /// Its name.
    ///
    /// ```
    /// assert_eq!(gpucache::Rung::Others.name(), "others");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Rung::Pages => "pages",
            Rung::Own => "own",
            Rung::Others => "others",
            Rung::Streams => "streams",
            Rung::Waiting => "waiting",
            Rung::Spill => "spill",
            Rung::Arenas => "arenas",
            Rung::Patience => "patience",
            Rung::Handlers => "handlers",
        }
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What allocations did in one step of the reclaim.
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

/// How often the memory of a device was short, and how allocations were served then: what `climbs` tells of a device, and
/// `climbs_of` of a scope.
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
    /// Allocations that no step served: each returned an error.
    pub failed: u64,
    /// Allocations for which more than the soft limit of the device is held, as nothing idle could serve them.
    pub beyond_soft: u64,
    pub(super) rungs: [RungUse; Rung::ALL.len()],
}

impl Climbs {
    /// What was done in one step.
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

    /// For the counts of one request: what one step did.
    pub(super) fn step(&mut self, rung: Rung) -> &mut RungUse {
        &mut self.rungs[rung as usize]
    }

    /// Bytes that scopes gave back, in all steps.
    pub(super) fn freed_bytes(&self) -> u64 {
        total(self.rungs.iter().map(|rung| rung.freed_bytes))
    }

    /// The steps in which somebody gave something, with the bytes of each.
    #[cfg(feature = "tracing")]
    pub(super) fn gave(&self) -> String {
        let gave = Rung::ALL.into_iter().zip(&self.rungs).filter(|(_, used)| used.freed_bytes > 0);
        gave.map(|(rung, used)| format!("{rung}: {}", used.freed_bytes)).collect::<Vec<_>>().join(", ")
    }
}
