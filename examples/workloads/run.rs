//! Runs of programs. Each run is a process of its own, since a process keeps its plans.

use std::process::{Command, Stdio};

use clap::ValueEnum;
use fastrand::Rng;
use gpucache::device::Virtual;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::figures::{Figures, most};
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

/// The result of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) figures: Figures,
    /// For each scope, how it plans at the end of the run.
    pub(crate) plans: Vec<String>,
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
    ///
    /// # Errors
    /// gpucache broke a rule of the device.
    pub(crate) fn perform(&self) -> Result<Outcome> {
        let capacity = match self.limit {
            Some(factor) => (factor * most(&self.on(None)?.steps, |step| step.peak_live_bytes) as f64) as usize,
            None => PLENTY,
        };
        if self.mode == Mode::Auto {
            gpucache::auto_scope();
        }
        let figures = Figures::of(&self.on(Some(Virtual::new(capacity)))?);
        Ok(Outcome { figures, plans: plans() })
    }

    /// Runs the program on a device, or without one to count its live bytes.
    fn on(&self, device: Option<Virtual>) -> gpucache::Result<Whole> {
        let tape = Tape::new(device, self.mode == Mode::Step);
        (self.program.run)(&tape, &mut Rng::with_seed(self.seed));
        tape.end()
    }

    /// Performs the run in a process of its own.
    ///
    /// # Errors
    /// The process could not be started, or failed.
    pub(crate) fn perform_apart(&self) -> Result<Outcome> {
        let seed = self.seed.to_string();
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--program", self.program.name, "--mode", self.mode.name(), "--only", &seed]);
        if let Some(limit) = self.limit {
            command.args(["--limit", &limit.to_string()]);
        }
        let output = command.stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            let Self { program, mode, .. } = self;
            return Err(
                format!("the program {} failed with seed {seed} in the mode {}", program.name, mode.name()).into()
            );
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

/// How each scope plans, in one line.
fn plans() -> Vec<String> {
    let plan = |name: &str| gpucache::stats(name).map(|stats| format!("{name}: {}", stats.plan).replace('\n', "; "));
    gpucache::scopes().iter().filter_map(|name| plan(name)).collect()
}

/// The programs whose names contain one of these texts, or all programs if there is no text.
pub(crate) fn chosen(names: &[String]) -> impl Iterator<Item = &'static Program> {
    let is_chosen = |name: &str| names.is_empty() || names.iter().any(|text| name.contains(text.as_str()));
    all().filter(move |program| is_chosen(program.name))
}
