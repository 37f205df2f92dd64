//! The device on which a trace is replayed, under the limit of the options.

use std::str::FromStr;

use gpucache::{Limit, prelude::*};
use gpucache_report::replay::{self, Contents, Figures, History};

use crate::Options;
use crate::common::{DeviceChoice, Result};
use crate::report::Report;

/// The argument of `--device`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Addresses without memory.
    Virtual,
    /// Memory of this machine.
    Real(DeviceChoice),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "virtual" => Ok(Self::Virtual),
            _ => text.parse().map(Self::Real).map_err(|others| format!("say virtual, or {others}")),
        }
    }
}

/// Replays a history with these options.
///
/// # Errors
/// If the device does not exist, or fails.
pub(crate) fn replay(options: &Options, history: &History) -> Result<Report> {
    let (device, figures) = match options.device {
        Target::Virtual => {
            let limit = options.limit.map(|limit| limit.of(history.peak_live_bytes()));
            if limit.is_some_and(|limit| limit.is_soft()) {
                return Err("a dry run has no soft limit: write the same limit without \"soft\"".into());
            }
            let limit = limit.map(|limit| limit.bytes(None)).transpose()?;
            ("virtual".to_owned(), replay::dry_run(history, options.policy, limit, options.passes)?)
        }
        Target::Real(choice) => real(choice, options, history)?,
    };
    Ok(Report::new(device, history, options.policy, options.passes.get(), &figures))
}

#[cfg(feature = "cuda")]
fn real(choice: DeviceChoice, options: &Options, history: &History) -> Result<(String, Figures)> {
    match choice.open_gpu(|ordinal| Ok((ordinal, Cuda::new(ordinal)?)))? {
        Some((ordinal, gpu)) => Ok((format!("cuda:{ordinal}"), limited(&gpu, options, history)?)),
        None => on_host(options, history),
    }
}

#[cfg(not(feature = "cuda"))]
fn real(choice: DeviceChoice, options: &Options, history: &History) -> Result<(String, Figures)> {
    choice.refuse_gpu()?;
    on_host(options, history)
}

fn on_host(options: &Options, history: &History) -> Result<(String, Figures)> {
    let host = Host::new();
    Ok(("host".to_owned(), limited(&host, options, history)?))
}

/// Replays on a device with memory. The limit of the options counts, and not that of the environment.
fn limited<D: Contents>(device: &D, options: &Options, history: &History) -> Result<Figures> {
    let limit = options.limit.map_or(Limit::hard(u64::MAX), |limit| limit.of(history.peak_live_bytes()));
    Ok(replay::replay(device, history, options.policy, Some(limit), options.passes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_as_on_the_command_line() {
        assert_eq!("virtual".parse(), Ok(Target::Virtual));
        assert_eq!("cuda:1".parse(), Ok(Target::Real(DeviceChoice::Cuda(1))));
        assert!("virtual:0".parse::<Target>().unwrap_err().contains("virtual, or"));
    }
}
