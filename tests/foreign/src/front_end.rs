//! The only uses of gpucache in these programs: a scope, and the counts of cudarc's allocations that it served.

#[cfg(feature = "foreign")]
use crate::report::ensure;
use crate::report::{Outcome, Report};

/// Does some work inside the scope `step`.
pub(crate) fn scoped<R>(work: impl FnOnce() -> R) -> R {
    gpucache::cache_scope!(step, { work() })
}

/// Whether gpucache should serve cudarc's allocations.
pub(crate) const IS_SERVING: bool = cfg!(feature = "foreign");

/// Adds the counts of the scope. Returns an error if gpucache does not stand between the program's calls and the driver.
#[cfg(feature = "foreign")]
pub(crate) fn add_to(report: Report) -> Outcome {
    gpucache::foreign::status()?;
    let stats = gpucache::stats("step").ok_or("nobody was inside of the scope")?.foreign;
    ensure(stats.served > 0, || "nothing was served inside of the scope".into())?;
    let report = report.number("served", stats.served).number("passed_on", stats.passed_on);
    Ok(report.number("freed_elsewhere", stats.freed_elsewhere))
}

#[cfg(not(feature = "foreign"))]
pub(crate) fn add_to(report: Report) -> Outcome {
    Ok(report)
}

/// How many blocks of the scope were freed on another stream than their own.
pub(crate) fn freed_elsewhere() -> u64 {
    #[cfg(feature = "foreign")]
    return gpucache::stats("step").map_or(0, |stats| stats.foreign.freed_elsewhere);
    #[cfg(not(feature = "foreign"))]
    0
}
