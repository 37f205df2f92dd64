//! One run of a client on one GPU: the same for all models.

use std::time::Duration;

use anyhow::Result;
use cudarc::driver::CudaContext;
use serde::Serialize;

use crate::Mode;
use crate::memory::{Memory, MemoryReport};
use crate::seconds::{Seconds, timed};

/// The number of the GPU.
const DEVICE: usize = 0;

#[derive(clap::Args, Clone, Copy, Serialize)]
pub struct Common {
    /// Who serves what is allocated.
    #[arg(long, value_enum)]
    mode: Mode,
    /// Of weights and inputs.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Made before anything is allocated on the GPU.
pub struct Session {
    common: Common,
    pub inputs: fastrand::Rng,
    memory: Memory,
    times: Vec<Duration>,
}

/// What every client prints.
#[derive(Serialize)]
pub struct Run {
    #[serde(flatten)]
    common: Common,
    /// Left as the crate sets it. With it, cudarc makes two events for each array.
    event_tracking: bool,
    seconds: Seconds,
    memory: MemoryReport,
}

impl Session {
    /// `scopes` are the names that the client gives to `scope`.
    pub fn new(common: Common, scopes: &'static [&'static str]) -> Result<Self> {
        let memory = Memory::new(common.mode, DEVICE, scopes)?;
        Ok(Self { common, inputs: fastrand::Rng::with_seed(common.seed), memory, times: Vec::new() })
    }

    /// The body inside of the scope of this name in the mode `scope`, and as it is in the others.
    pub fn scope<R>(&self, name: &str, body: impl FnOnce() -> R) -> R {
        self.common.mode.run(name, body)
    }

    /// Does `step` so many times, and notes how long each took. A step ends with something read from the device, so that the
    /// device's time is in it.
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

    /// Asked while everything that the client keeps is alive. `context` is the one that the crate works in.
    pub fn finish(&self, context: &CudaContext) -> Result<Run> {
        Ok(Run {
            common: self.common,
            event_tracking: context.is_event_tracking(),
            seconds: Seconds::of_warm(&self.times),
            memory: self.memory.report()?,
        })
    }
}
