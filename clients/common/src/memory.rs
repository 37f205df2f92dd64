//! The device's memory during one run of a client: how much was reserved, and how much of it was live.

use std::sync::Arc;

use anyhow::{Result, bail};
use cudarc::driver::CudaContext;
use serde::Serialize;

use crate::Mode;
use crate::pool::{Pool, PoolBytes};
use crate::scope::{self, ScopeReport};
use crate::{foreign, nvml};

/// Created before the client's first tensor, and read after its last step.
pub(crate) struct Memory {
    mode: Mode,
    device: usize,
    names: &'static [&'static str],
    pool: Pool,
    /// Keeps the device's context, and with it the pool, alive while statistics are read.
    _context: Arc<CudaContext>,
    used_before: Option<u64>,
    halfway: Halfway,
}

/// The scopes' statistics at half of the steps. The warm half begins there, with new peaks.
#[derive(Default)]
struct Halfway {
    taken: scope::Taken,
    peak_bytes: u64,
    live_bytes: u64,
}

/// The effect of one run on the device's memory.
#[derive(Serialize)]
pub(crate) struct MemoryReport {
    /// Peak of reserved memory: that of the driver's pool plus that of gpucache.
    reserved_bytes: u64,
    /// Peak of live memory: the pool's plus each scope's. The sum exceeds the true peak if the single peaks were at
    /// different times.
    live_bytes: u64,
    /// How much more of the device is in use after the last step than before the first tensor, by all programs; `null` without NVML.
    device_taken_bytes: Option<u64>,
    /// The driver's pool. In every mode it serves allocations outside scopes.
    pool: PoolBytes,
    /// `null` in the other modes.
    gpucache: Option<ScopesReport>,
}

#[derive(Serialize)]
struct ScopesReport {
    /// How gpucache intercepts the crate's calls of the driver.
    entrance: String,
    /// Memory reserved for scopes: the peak, and the current amount.
    peak_bytes: u64,
    bytes: u64,
    /// Over the whole run: allocations for which a scope took memory from the device, and the number of calls of the device.
    taken: scope::Taken,
    /// The same in the second half of the steps; zero if the scopes are warm.
    taken_warm: scope::Taken,
    /// In the second half of the steps: the peak of memory that gpucache reserved, the peak of live memory in the
    /// scopes, and reserved ÷ live.
    steady_reserved_bytes: u64,
    steady_live_bytes: u64,
    steady_reserved_over_live: f64,
    #[serde(skip)]
    live_most: u64,
    scopes: Vec<ScopeReport>,
}

impl Memory {
    /// `names` are the scopes that the client enters.
    pub(crate) fn new(mode: Mode, device: usize, names: &'static [&'static str]) -> Result<Self> {
        if mode == Mode::Scope && !scope::IS_LINKED {
            bail!("this binary was built without the feature `scoped`: it has no mode `scope`");
        }
        if mode == Mode::Plain {
            foreign::leave_pool();
        }
        let context = CudaContext::new(device)?;
        let pool = Pool::of(&context)?;
        if mode == Mode::Pool {
            pool.keep_everything()?;
        }
        if mode == Mode::Scope {
            // This registers the device before the first step, so that a trace of the run contains that step.
            scope::held(device)?;
        }
        let used_before = nvml::used_bytes(device);
        Ok(Self { mode, device, names, pool, _context: context, used_before, halfway: Halfway::default() })
    }

    /// Called before each step.
    pub(crate) fn before_step(&mut self, step: usize, steps: usize) -> Result<()> {
        if self.mode == Mode::Scope && step == steps / 2 {
            let (_, peak_bytes) = scope::held(self.device)?;
            let taken = scope::taken(self.device, self.names)?;
            self.halfway = Halfway { taken, peak_bytes, live_bytes: live_most(&self.scope_reports()) };
            scope::reset_peaks(self.device, self.names)?;
        }
        Ok(())
    }

    /// Called after the last step, before the client drops what it has.
    pub(crate) fn report(&self) -> Result<MemoryReport> {
        let pool = self.pool.bytes()?;
        let gpucache = if self.mode == Mode::Scope { Some(self.scopes()?) } else { None };
        let scoped = |bytes: fn(&ScopesReport) -> u64| gpucache.as_ref().map_or(0, bytes);
        Ok(MemoryReport {
            reserved_bytes: pool.reserved_most + scoped(|report| report.peak_bytes),
            live_bytes: pool.used_most + scoped(|report| report.live_most),
            device_taken_bytes: nvml::used_bytes(self.device)
                .zip(self.used_before)
                .map(|(now, then)| now.saturating_sub(then)),
            pool,
            gpucache,
        })
    }

    fn scope_reports(&self) -> Vec<ScopeReport> {
        self.names.iter().filter_map(|name| scope::report(name)).collect()
    }

    fn scopes(&self) -> Result<ScopesReport> {
        let taken = scope::taken(self.device, self.names)?;
        let (bytes, steady_reserved_bytes) = scope::held(self.device)?;
        let scopes = self.scope_reports();
        let steady_live_bytes = live_most(&scopes);
        Ok(ScopesReport {
            entrance: foreign::entrance(),
            peak_bytes: steady_reserved_bytes.max(self.halfway.peak_bytes),
            bytes,
            taken,
            taken_warm: taken - self.halfway.taken,
            steady_reserved_bytes,
            steady_live_bytes,
            steady_reserved_over_live: steady_reserved_bytes as f64 / steady_live_bytes as f64,
            live_most: steady_live_bytes.max(self.halfway.live_bytes),
            scopes,
        })
    }
}

fn live_most(scopes: &[ScopeReport]) -> u64 {
    scopes.iter().map(|scope| scope.live_most).sum()
}
