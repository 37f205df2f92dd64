//! All uses of gpucache except `foreign`. Without the feature `scoped` gpucache is not linked, and the mode that
//! needs it is refused.

use serde::Serialize;

use crate::foreign::Counts;

/// Memory that scopes took from the device.
#[derive(Clone, Copy, Default, Serialize)]
pub(crate) struct Taken {
    /// Allocations for which a scope took memory from the device.
    misses: u64,
    /// Allocations and mapped pieces: the number of calls of the device, including those for plans.
    device_calls: u64,
}

/// One scope after a run. Its counters come from gpucache's `ScopeStats`.
#[derive(Serialize)]
pub struct ScopeReport {
    name: &'static str,
    entries: u64,
    hits: u64,
    recycled: u64,
    misses: u64,
    /// Hits that a plan served.
    planned: u64,
    /// Planned allocations that were alive when their successors were born (`carried`), and allocations for which neither plan nor
    /// ring has a place (`aside`).
    carried: u64,
    aside: u64,
    /// Bytes of the plan's arena, and the lower bound of any plan for the same entries.
    arena_bytes: u64,
    bound_bytes: u64,
    /// How often entries deviated from their plan.
    deviations: u64,
    /// Why no plan serves the scope now; `null` if one does.
    unplanned: Option<String>,
    /// Peak of live memory in the second half of the steps.
    pub(crate) live_most: u64,
    idle_bytes: u64,
    /// Counters of memory that other crates allocate.
    foreign: Option<Counts>,
}

impl std::ops::Sub for Taken {
    type Output = Taken;

    fn sub(self, earlier: Taken) -> Taken {
        Taken { misses: self.misses - earlier.misses, device_calls: self.device_calls - earlier.device_calls }
    }
}

#[cfg(feature = "scoped")]
pub use linked::report;
#[cfg(feature = "scoped")]
pub(crate) use linked::{IS_LINKED, held, reset_peaks, run, taken};
#[cfg(not(feature = "scoped"))]
pub use missing::report;
#[cfg(not(feature = "scoped"))]
pub(crate) use missing::{IS_LINKED, held, reset_peaks, run, taken};

#[cfg(feature = "scoped")]
mod linked {
    use anyhow::Result;
    use gpucache::Scope;
    use gpucache::device::{Cuda, Device as _, MemoryUse};

    use super::{ScopeReport, Taken};

    pub(crate) const IS_LINKED: bool = true;

    pub(crate) fn run<R>(name: &str, body: impl FnOnce() -> R) -> R {
        Scope::new(name).run(body)
    }

    pub(crate) fn taken(device: usize, names: &[&str]) -> Result<Taken> {
        let misses = names.iter().filter_map(gpucache::stats).map(|stats| stats.misses).sum();
        Ok(Taken { misses, device_calls: memory(device)?.times_taken() })
    }

    /// Bytes that gpucache reserves on the device: now, and at most.
    pub(crate) fn held(device: usize) -> Result<(u64, u64)> {
        let memory = memory(device)?;
        Ok((memory.bytes, memory.peak_bytes))
    }

    /// Resets the peaks of the device and of these scopes.
    pub(crate) fn reset_peaks(device: usize, names: &[&str]) -> Result<()> {
        Cuda::new(device)?.reset_peaks();
        for name in names {
            gpucache::stats::reset_peaks(name);
        }
        Ok(())
    }

    fn memory(device: usize) -> Result<MemoryUse> {
        Ok(Cuda::new(device)?.memory())
    }

    /// `None` for a scope that was never entered.
    pub fn report(name: &'static str) -> Option<ScopeReport> {
        let stats = gpucache::stats(name)?;
        let plan = stats.plan;
        Some(ScopeReport {
            name,
            entries: stats.entries,
            hits: stats.hits,
            recycled: stats.recycled,
            misses: stats.misses,
            planned: stats.served.planned.allocations,
            carried: plan.carried,
            aside: plan.aside,
            arena_bytes: plan.arena_bytes,
            bound_bytes: plan.bound_bytes,
            deviations: plan.deviations.total(),
            unplanned: plan.unplanned.map(|reason| format!("{reason:?}")),
            live_most: stats.high_water_bytes,
            idle_bytes: stats.idle_bytes,
            foreign: crate::foreign::counts(name),
        })
    }
}

#[cfg(not(feature = "scoped"))]
mod missing {
    use anyhow::Result;

    use super::{ScopeReport, Taken};

    pub(crate) const IS_LINKED: bool = false;

    pub(crate) fn run<R>(_name: &str, body: impl FnOnce() -> R) -> R {
        body()
    }

    pub(crate) fn taken(_device: usize, _names: &[&str]) -> Result<Taken> {
        Ok(Taken::default())
    }

    pub(crate) fn held(_device: usize) -> Result<(u64, u64)> {
        Ok((0, 0))
    }

    pub(crate) fn reset_peaks(_device: usize, _names: &[&str]) -> Result<()> {
        Ok(())
    }

    pub fn report(_name: &'static str) -> Option<ScopeReport> {
        None
    }
}
