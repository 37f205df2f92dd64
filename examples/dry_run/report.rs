//! The memory that a history needs under each policy: a table, or one JSON object.

use std::fmt;
use std::num::NonZeroUsize;

use gpucache_report::replay::{History, Policy, dry_run, smallest_limit};

use crate::common::Result;

/// The unit in which a GPU maps memory.
pub(crate) const PAGE: u64 = 2 << 20;

#[derive(Debug, serde::Serialize)]
pub(crate) struct Report {
    run: String,
    /// The most memory that was reserved at once while the training ran on a device without memory. `train` on a GPU reports the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_device_bytes: Option<u64>,
    /// The largest sum of live bytes, each array's rounded up to 256.
    peak_live_bytes: u64,
    policies: Vec<Row>,
}

/// A history, replayed under one policy.
#[derive(Debug, serde::Serialize)]
struct Row {
    policy: &'static str,
    /// The most bytes that were reserved, in pages of 2 MiB and in arrays outside of scopes.
    peak_reserved_bytes: u64,
    reserved_over_live: f64,
    /// The share of the allocations of scopes in the last three steps that a plan served.
    steady_planned_share: f64,
    /// The smallest limit at which no allocation fails, exact to 64 KiB.
    smallest_limit_bytes: Option<u64>,
}

impl Report {
    /// Replays the history once under each policy.
    pub(crate) fn new(history: &History, peak_device_bytes: Option<u64>) -> Result<Self> {
        let policies = Policy::ALL.into_iter().map(|policy| Row::new(history, policy)).collect::<Result<_>>()?;
        let (run, peak_live_bytes) = (history.name().to_owned(), history.peak_live_bytes());
        Ok(Self { run, peak_device_bytes, peak_live_bytes, policies })
    }
}

impl Row {
    fn new(history: &History, policy: Policy) -> Result<Self> {
        let figures = dry_run(history, policy, None, NonZeroUsize::MIN)?;
        Ok(Self {
            policy: policy.name(),
            peak_reserved_bytes: figures.peak_reserved_bytes,
            reserved_over_live: figures.peak_reserved_bytes as f64 / figures.peak_live_bytes as f64,
            steady_planned_share: figures.steady.planned,
            smallest_limit_bytes: smallest_limit(history, policy, NonZeroUsize::MIN)?,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: at most {:.2} MiB live at once", self.run, mebibytes(self.peak_live_bytes))?;
        if let Some(bytes) = self.peak_device_bytes {
            write!(f, "; the run reserves {:.2} MiB of a GPU", mebibytes(bytes))?;
        }
        write!(f, "\n\npolicy  MiB reserved  reserved/live  planned  smallest limit, MiB")?;
        self.policies.iter().try_for_each(|row| write!(f, "\n{row}"))?;
        self.explain_pages(f)
    }
}

impl Report {
    /// Why a small program reserves more than it uses.
    fn explain_pages(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(more) = self.policies.first().map(|row| row.peak_reserved_bytes.saturating_sub(self.peak_live_bytes))
        else {
            return Ok(());
        };
        if !(1..=2 * PAGE).contains(&more) {
            return Ok(());
        }
        let more = mebibytes(more);
        write!(
            f,
            "\n\nA GPU maps memory in pages of 2 MiB, and the arrays of scopes reserve whole pages. Here this adds {more:.2} MiB."
        )?;
        write!(
            f,
            "\nThe addition does not grow with the program: a large program reserves little more than its live memory."
        )
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (reserved, planned) = (mebibytes(self.peak_reserved_bytes), 100.0 * self.steady_planned_share);
        write!(f, "{:6}  {reserved:12.2}  {:13.3}  {planned:5.1} %", self.policy, self.reserved_over_live)?;
        match self.smallest_limit_bytes {
            Some(bytes) => write!(f, "  {:19.2}", mebibytes(bytes)),
            None => write!(f, "  {:>19}", "none"),
        }
    }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
