//! Runs of programs. Each run is a process of its own, since a process keeps its plans.

use std::process::{Command, Stdio};

use clap::ValueEnum;
use fastrand::Rng;
use gpucache::device::Virtual;

use crate::Result;
use crate::figures::Figures;
use crate::program::{Program, all};
use crate::tape::{Tape, Whole};

/// The memory of a device without a limit: more than any machine has (64 TiB).
const PLENTY: usize = 1 << 46;

/// How a program uses gpucache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// A scope around each step.
    Step,
    /// No scope: `gpucache::auto_scope()` at the beginning.
    Auto,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Auto => "auto",
        }
    }
}

/// A run: a program, its seed, and how it uses gpucache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) program: &'static Program,
    pub(crate) seed: u64,
    pub(crate) mode: Mode,
    /// The limit of the device, as a multiple of the program's peak of live bytes.
    pub(crate) limit: Option<f64>,
}

impl Run {
    /// Performs the run in this process.
    pub(crate) fn perform(&self) -> Result<Figures> {
        let capacity = match self.limit {
            Some(factor) => (factor * self.on(None)?.most_live_bytes() as f64) as usize,
            None => PLENTY,
        };
        if self.mode == Mode::Auto {
            gpucache::auto_scope();
        }
        Ok(Figures::of(&self.on(Some(Virtual::new(capacity)))?))
    }

    /// Runs the program on a device, or without one to count its live bytes.
    fn on(&self, device: Option<Virtual>) -> Result<Whole> {
        let tape = Tape::new(device, self.mode == Mode::Step);
        (self.program.run)(&tape, &mut Rng::with_seed(self.seed));
        Ok(tape.end()?)
    }

    /// Performs the run in a process of its own.
    ///
    /// # Errors
    /// The process could not be started, or failed.
    pub(crate) fn perform_apart(&self) -> Result<Figures> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--program", self.program.name, "--mode", self.mode.name()]);
        command.args(["--only", &self.seed.to_string()]);
        if let Some(limit) = self.limit {
            command.args(["--limit", &limit.to_string()]);
        }
        let output = command.stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("{} with seed {} failed", self.program.name, self.seed).into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

/// The programs whose names contain one of these texts; without any text, all programs.
pub(crate) fn chosen(names: &[String]) -> Vec<&'static Program> {
    let is_chosen =
        |program: &&Program| names.is_empty() || names.iter().any(|name| program.name.contains(name.as_str()));
    all().filter(is_chosen).collect()
}
