//! Statistics and diagnosis. The data is JSON, which the Python files turn into objects.

use gpucache::device::DeviceKind;
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::errors::failed;

/// Runs `act` without Python's lock, inside the scopes of this thread, whose figures are then exact.
fn apart_in_scopes<R: Send>(py: Python<'_>, act: impl FnOnce() -> R + Send) -> R {
    py.detach(|| gpucache_capi::in_scopes(act))
}

/// The statistics of a scope as JSON; `None` if there is no scope of this name.
#[pyfunction]
pub(crate) fn scope_stats(py: Python<'_>, name: &str) -> PyResult<Option<String>> {
    let stats = apart_in_scopes(py, || gpucache::stats(name));
    stats.map(|stats| serde_json::to_string(&stats).map_err(failed)).transpose()
}

/// The statistics of a scope as a text.
#[pyfunction]
pub(crate) fn scope_text(py: Python<'_>, name: &str) -> Option<String> {
    apart_in_scopes(py, || gpucache::stats(name).map(|stats| stats.to_string()))
}

/// The statistics of all devices and scopes as JSON and as a text, and the numbers of the devices in Python. JSON and text have those of
/// traces.
#[pyfunction]
pub(crate) fn process_stats(py: Python<'_>) -> PyResult<(String, String, Vec<Option<i64>>)> {
    let told = apart_in_scopes(py, || {
        let stats = gpucache::stats::process();
        let numbers = stats.devices.iter().map(|device| number(device.kind)).collect();
        serde_json::to_string(&stats).map(|fields| (fields, stats.to_string(), numbers))
    });
    told.map_err(failed)
}

/// The number by which Python's functions call a device. Only Rust code can use devices of other kinds.
fn number(kind: DeviceKind) -> Option<i64> {
    match kind {
        DeviceKind::Host => Some(-1),
        DeviceKind::Cuda(ordinal) => i64::try_from(ordinal).ok(),
        _ => None,
    }
}

/// Has the peak of a scope begin anew. Returns whether there is a scope of this name.
#[pyfunction]
pub(crate) fn reset_scope_peaks(py: Python<'_>, name: &str) -> bool {
    apart_in_scopes(py, || gpucache::stats::reset_peaks(name))
}

/// The diagnosis of a scope as JSON; `None` if there is no scope of this name.
#[pyfunction]
pub(crate) fn diagnose(py: Python<'_>, name: &str) -> Option<String> {
    let diagnosis = apart_in_scopes(py, || gpucache::diagnose(name))?;
    let findings: Vec<Value> = diagnosis.findings.iter().map(finding).collect();
    let fields = json!({
        "scope": &*diagnosis.scope,
        "entries": diagnosis.entries,
        "is_healthy": diagnosis.is_healthy(),
        "is_early": diagnosis.is_early,
        "still_alive": diagnosis.still_alive,
        "findings": findings,
        "text": diagnosis.to_string(),
    });
    Some(fields.to_string())
}

fn finding(finding: &gpucache::diagnosis::Finding) -> Value {
    json!({
        "cause": format!("{:?}", finding.cause),
        "reason": finding.cause.reason(),
        "remedy": finding.cause.remedy(),
        "entries": finding.entries,
        "of_entries": finding.of_entries,
        "allocations": finding.allocations,
        "share": finding.share,
        "bytes": finding.bytes,
        "details": &finding.details,
    })
}
