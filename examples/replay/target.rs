//! The device on which a trace is replayed, and its limit: the arguments of `--device` and `--limit`.

use std::str::FromStr;

use gpucache::prelude::*;
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

/// The argument of `--limit`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Limit {
    Bytes(u64),
    TimesLive(f64),
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let limit = match text.strip_suffix('x') {
            Some(factor) => factor.parse().ok().filter(|factor| (0.0..1e6).contains(factor)).map(Self::TimesLive),
            None => text.parse().ok().map(Self::Bytes),
        };
        limit.ok_or_else(|| "say a number of bytes, or a multiple of the peak live bytes as in 1.02x".to_owned())
    }
}

impl Limit {
    /// Converts to bytes, rounded up.
    fn bytes(self, history: &History) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::TimesLive(factor) => (factor * history.peak_live_bytes() as f64).ceil() as u64,
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
            let limit = options.limit.map(|limit| limit.bytes(history));
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
    let limit = options.limit.map_or(u64::MAX, |limit| limit.bytes(history));
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

    #[test]
    fn a_limit_is_bytes_or_a_multiple_of_what_lives() {
        let path = std::env::temp_dir().join(format!("gpucache-replay-limit-{}.csv", std::process::id()));
        std::fs::write(&path, "step,op,id,bytes,stream\n0,a,0,1000,0\n").unwrap();
        let history = History::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        for (text, bytes) in [("1048576", 1_048_576), ("0", 0), ("1x", 1024), ("1.02x", 1045), ("0.5x", 512)] {
            assert_eq!(text.parse::<Limit>().unwrap().bytes(&history), bytes, "{text}");
        }
        for wrong in ["", "x", "-1", "-1x", "infx", "nanx", "1e9x", "1.5", "12 MiB"] {
            assert!(wrong.parse::<Limit>().is_err(), "{wrong:?} is no limit");
        }
    }
}
