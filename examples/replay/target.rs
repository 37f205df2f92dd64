//! Where a trace is replayed: the arguments of `--device` and `--limit`.

use std::str::FromStr;

use gpucache::device::Virtual;
use gpucache::prelude::*;

use crate::Options;
use crate::check::Contents;
use crate::common::{DeviceChoice, Result};
use crate::measure::{Outcome, measure};
use crate::report::Report;
use crate::trace::Trace;

/// What a virtual device holds without a limit: more than any machine has (64 TiB).
const PLENTY: usize = 1 << (usize::BITS - 18);

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
    Bytes(usize),
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
    /// In bytes, rounded up.
    fn bytes(self, trace: &Trace) -> usize {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::TimesLive(factor) => (factor * trace.peak_live_bytes as f64).ceil() as usize,
        }
    }
}

/// Replays a trace as the options say.
///
/// # Errors
/// Where there is no such device, or it failed.
pub(crate) fn replay(options: &Options, trace: &Trace) -> Result<Report> {
    let (device, outcome) = match options.device {
        Target::Virtual => {
            let bytes = options.limit.map_or(PLENTY, |limit| limit.bytes(trace));
            // Only the run that is not timed has the device check every rule.
            let (watched, timed) = (Virtual::new(bytes), Virtual::unchecked(bytes));
            ("virtual".to_owned(), measured(&watched, &timed, options, trace)?)
        }
        Target::Real(choice) => real(choice, options, trace)?,
    };
    Ok(Report::new(device, trace, options.policy, options.passes.get(), &outcome))
}

#[cfg(feature = "cuda")]
fn real(choice: DeviceChoice, options: &Options, trace: &Trace) -> Result<(String, Outcome)> {
    match choice.open_gpu(|ordinal| Ok((ordinal, Cuda::new(ordinal)?)))? {
        Some((ordinal, gpu)) => Ok((format!("cuda:{ordinal}"), limited(&gpu, options, trace)?)),
        None => on_host(options, trace),
    }
}

#[cfg(not(feature = "cuda"))]
fn real(choice: DeviceChoice, options: &Options, trace: &Trace) -> Result<(String, Outcome)> {
    choice.refuse_gpu()?;
    on_host(options, trace)
}

fn on_host(options: &Options, trace: &Trace) -> Result<(String, Outcome)> {
    let host = Host::new();
    Ok(("host".to_owned(), limited(&host, options, trace)?))
}

/// On a device that has memory: of which no more is held than the limit says.
fn limited<D: Contents>(device: &D, options: &Options, trace: &Trace) -> Result<Outcome> {
    gpucache::limit(device, options.limit.map_or(u64::MAX, |limit| limit.bytes(trace) as u64));
    measured(device, device, options, trace)
}

fn measured<D: Contents>(watched: &D, timed: &D, options: &Options, trace: &Trace) -> Result<Outcome> {
    measure(watched, timed, trace, options.policy, options.passes.get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Builder;

    #[test]
    fn devices_are_named_as_on_the_command_line() {
        assert_eq!("virtual".parse(), Ok(Target::Virtual));
        assert_eq!("cuda:1".parse(), Ok(Target::Real(DeviceChoice::Cuda(1))));
        assert!("virtual:0".parse::<Target>().unwrap_err().contains("virtual, or"));
    }

    #[test]
    fn a_limit_is_bytes_or_a_multiple_of_what_lives() {
        let mut builder = Builder::default();
        builder.step(0).unwrap();
        builder.allocate(0, 1000).unwrap();
        let trace = builder.finish(String::new()).unwrap();
        for (text, bytes) in [("1048576", 1_048_576), ("0", 0), ("1x", 1024), ("1.02x", 1045), ("0.5x", 512)] {
            assert_eq!(text.parse::<Limit>().unwrap().bytes(&trace), bytes, "{text}");
        }
        for wrong in ["", "x", "-1", "-1x", "infx", "nanx", "1e9x", "1.5", "12 MiB"] {
            assert!(wrong.parse::<Limit>().is_err(), "{wrong:?} is no limit");
        }
    }
}
