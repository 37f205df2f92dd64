//! The reclaim steps: the actions for a request that finds no memory, in their order, and how often each step served a request.
//!
//! Each step costs somebody more than the step before it. Each does as little as necessary, and only on the device that is short.
//! `serve` carries the steps out.

use std::fmt;

use crate::base::amounts::{Bytes, Combine, Count, SUM, combine, total};

/// A reclaim step: an action for an allocation that finds no memory on its device. The steps are taken in order until one serves
/// the allocation.
///
/// ```
/// use gpucache::stats::ReclaimStep;
///
/// let names: Vec<_> = ReclaimStep::ALL.iter().map(|step| step.name()).collect();
/// let first = ["move pages", "release other scopes", "release own scope", "reuse across streams", "wait for work"];
/// let last = ["offload arrays", "drop graphs", "take arenas", "wait for threads", "call handlers"];
/// assert_eq!(names, [&first[..], &last[..]].concat());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReclaimStep {
    /// Moves free pages to where the allocation fits.
    Pages,
    /// Takes other scopes' idle memory, one scope after the other: first the scopes of threads that have ended, then the least
    /// recently entered scope.
    OtherScopes,
    /// Takes the requesting scope's own idle memory: the blocks in its lists, the longest idle first, and then its plan's block.
    OwnScope,
    /// Takes memory that other streams freed and may still use. The requesting stream is ordered behind them.
    OtherStreams,
    /// Waits for memory whose work is done in a moment.
    PendingWork,
    /// Moves arrays in use that can be offloaded (`Placed`) to host memory, the least recently used first.
    Offload,
    /// Takes the executables of captured scopes' graphs away, if they have enough memory: first those with the fewest launches lately. Their
    /// blocks run directly then, and are captured again later.
    Graphs,
    /// Takes the arenas of scopes that other threads are inside of, if nothing in them is alive.
    Arenas,
    /// Waits for other threads to drop arrays, for at most the allocation timeout.
    OtherThreads,
    /// Calls the handlers of the program (`Device::on_pressure`), which can give something up.
    Handlers,
}

impl ReclaimStep {
    /// All steps, in their order.
    ///
    /// ```
    /// assert_eq!(gpucache::stats::ReclaimStep::ALL.len(), 10);
    /// ```
    pub const ALL: [ReclaimStep; 10] = [
        ReclaimStep::Pages,
        ReclaimStep::OtherScopes,
        ReclaimStep::OwnScope,
        ReclaimStep::OtherStreams,
        ReclaimStep::PendingWork,
        ReclaimStep::Offload,
        ReclaimStep::Graphs,
        ReclaimStep::Arenas,
        ReclaimStep::OtherThreads,
        ReclaimStep::Handlers,
    ];

    /// The name of the step.
    ///
    /// ```
    /// assert_eq!(gpucache::stats::ReclaimStep::OtherScopes.name(), "release other scopes");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            ReclaimStep::Pages => "move pages",
            ReclaimStep::OwnScope => "release own scope",
            ReclaimStep::OtherScopes => "release other scopes",
            ReclaimStep::OtherStreams => "reuse across streams",
            ReclaimStep::PendingWork => "wait for work",
            ReclaimStep::Offload => "offload arrays",
            ReclaimStep::Graphs => "drop graphs",
            ReclaimStep::Arenas => "take arenas",
            ReclaimStep::OtherThreads => "wait for threads",
            ReclaimStep::Handlers => "call handlers",
        }
    }
}

impl fmt::Display for ReclaimStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How often allocations came to one reclaim step, and its results.
///
/// ```
/// assert_eq!(gpucache::stats::StepUse::default().tried, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct StepUse {
    /// How many allocations came to this step.
    pub tried: u64,
    /// How many of them this step served.
    pub served: u64,
    /// The bytes that scopes gave back to the device's range in this step, or that executables of graphs had.
    pub freed_bytes: u64,
}

/// How often a device was short of memory, and how allocations were served then. The statistics of a device and of a scope
/// have it as `reclaim`.
///
/// ```
/// use gpucache::{cache_scope, device::Virtual, prelude::*, stats::ReclaimStep};
///
/// let device = Virtual::new(8 << 20);
/// cache_scope!(first, recycle = "keyed", { device.zeros::<u8>(6 << 20)? });
/// cache_scope!(second, recycle = "keyed", { device.zeros::<u8>(4 << 20)? }); // the first scope gives its memory back
/// let reclaim = device.stats().reclaim;
/// assert_eq!((reclaim.shortages(), reclaim.failed, reclaim.step(ReclaimStep::OtherScopes).served), (1, 0, 1));
/// println!("{reclaim}");
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ReclaimStats {
    /// Allocations that no step served. Each returned an error.
    pub failed: u64,
    /// Allocations that exceeded the soft limit of the device, since no idle memory could serve them.
    pub beyond_soft: u64,
    pub(super) steps: [StepUse; ReclaimStep::ALL.len()],
}

impl ReclaimStats {
    /// The counts of one step.
    ///
    /// ```
    /// use gpucache::{device::Virtual, prelude::*, stats::ReclaimStep};
    ///
    /// assert_eq!(Virtual::new(1 << 30).stats().reclaim.step(ReclaimStep::Pages).tried, 0);
    /// ```
    pub fn step(&self, step: ReclaimStep) -> StepUse {
        self.steps[step as usize]
    }

    /// How many allocations found the device short of memory.
    ///
    /// ```
    /// use gpucache::{device::Virtual, prelude::*};
    ///
    /// let device = Virtual::new(1 << 20);
    /// assert!(device.zeros::<u8>(2 << 20).is_err());
    /// assert_eq!((device.stats().reclaim.shortages(), device.stats().reclaim.failed), (1, 1));
    /// ```
    pub fn shortages(&self) -> u64 {
        total(self.steps.iter().map(|step| step.served).chain([self.failed]))
    }
}

combine!(StepUse: tried served freed_bytes;);
combine!(ReclaimStats: failed beyond_soft steps;);

impl fmt::Display for ReclaimStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let begun = Count(self.shortages(), "shortage", "shortages");
        write!(f, "{begun}, {} of them errors", self.failed)?;
        if self.beyond_soft > 0 {
            write!(f, "; {} beyond the soft limit", self.beyond_soft)?;
        }
        for (step, used) in ReclaimStep::ALL.iter().zip(&self.steps).filter(|(_, used)| used.tried > 0) {
            write!(f, "; {step}: {} of {} served", used.served, used.tried)?;
            if used.freed_bytes > 0 {
                write!(f, ", {} freed", Bytes(used.freed_bytes))?;
            }
        }
        Ok(())
    }
}

impl ReclaimStats {
    /// Adds other counts to these.
    pub(crate) fn add(&mut self, more: &ReclaimStats) {
        self.combine(more, SUM);
    }

    /// For the counts of one request: the counts of one step.
    pub(super) fn step_mut(&mut self, step: ReclaimStep) -> &mut StepUse {
        &mut self.steps[step as usize]
    }

    /// The bytes that scopes gave back, in all steps.
    pub(super) fn freed_bytes(&self) -> u64 {
        total(self.steps.iter().map(|step| step.freed_bytes))
    }

    /// The steps that freed memory, with the bytes of each.
    #[cfg(feature = "tracing")]
    pub(super) fn gave(&self) -> String {
        let gave = ReclaimStep::ALL.into_iter().zip(&self.steps).filter(|(_, used)| used.freed_bytes > 0);
        gave.map(|(step, used)| format!("{step}: {}", used.freed_bytes)).collect::<Vec<_>>().join(", ")
    }
}
