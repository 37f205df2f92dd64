//! One run of a client on one GPU, the same for all models.

use std::time::Duration;

use anyhow::Result;
use cudarc::driver::CudaContext;
use serde::Serialize;

use crate::Mode;
use crate::memory::{Memory, MemoryReport};
use crate::seconds::{Seconds, timed};

/// The index of the GPU.
const DEVICE: usize = 0;

#[derive(clap::Args, Clone, Copy, Serialize)]
pub struct Common {
    /// The allocator that serves the client.
    #[arg(long, value_enum)]
    mode: Mode,
    /// Seed of weights and inputs.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Common {
    pub fn mode(self) -> Mode {
        self.mode
    }
}

/// Created before anything is allocated on the GPU.
pub struct Session {
    common: Common,
    pub inputs: fastrand::Rng,
    memory: Memory,
    times: Vec<Duration>,
}

/// The part of the report that all clients have in common.
#[derive(Serialize)]
pub struct Run {
    #[serde(flatten)]
    common: Common,
    /// Whether cudarc creates two events for each array. The client keeps the crate's setting.
    event_tracking: bool,
    seconds: Seconds,
    memory: MemoryReport,
}

impl Session {
    /// `scopes` are the names that the client passes to `scope`.
    pub fn new(common: Common, scopes: &'static [&'static str]) -> Result<Self> {
        let memory = Memory::new(common.mode, DEVICE, scopes)?;
        Ok(Self { common, inputs: fastrand::Rng::with_seed(common.seed), memory, times: Vec::new() })
    }

    /// Runs the body inside the scope with this name in the mode `scope`, and directly in the others.
    pub fn scope<R>(&self, name: &str, body: impl FnOnce() -> R) -> R {
        self.common.mode.run(name, body)
    }

    /// Runs `step` this many times and measures the time of each. A step ends by reading a value from the device, so
    /// the device's time is included.
    pub fn steps(&mut self, steps: usize, mut step: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        for number in 0..steps {
            self.memory.before_step(number, steps)?;
            let ((), time) = timed(|| step(self))?;
            self.times.push(time);
        }
        Ok(())
    }

    /// Random tokens of a vocabulary.
    pub fn tokens(&mut self, count: usize, vocabulary: usize) -> Vec<u32> {
        (0..count).map(|_| self.inputs.u32(0..vocabulary as u32)).collect()
    }

    /// Called while everything that the client keeps is alive. `context` is the one that the crate uses.
    pub fn finish(&self, context: &CudaContext) -> Result<Run> {
        Ok(Run {
            common: self.common,
            event_tracking: context.is_event_tracking(),
            seconds: Seconds::of_warm(&self.times),
            memory: self.memory.report()?,
        })
    }
}
