//! Writes Prometheus's text format: counters and gauges by scope, with their values at the end of the run.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::run::{Op, Run};

/// Writes all metrics with their values at the end of the run, in bytes or counts. Arrays outside scopes have an empty scope name.
///
/// # Errors
/// Errors of the writer.
///
/// ```
/// use gpucache::{cache_scope, prelude::*, trace};
/// use gpucache_report::{Run, prometheus};
///
/// trace::start(1000);
/// cache_scope!(step, { drop(Host::new().zeros::<f32>([32, 64])?) });
/// let mut text = Vec::new();
/// prometheus::write(&Run::from(&trace::stop()), &mut text)?;
/// assert!(String::from_utf8(text)?.contains("gpucache_peak_live_bytes{scope=\"step\"} 8192"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write(run: &Run, mut to: impl Write) -> io::Result<()> {
    let to: &mut dyn Write = &mut to;
    let sums = Sums::of(run);
    let head = |to: &mut dyn Write, name: &str, kind: &str, help: &str| {
        writeln!(to, "# HELP gpucache_{name} {help}\n# TYPE gpucache_{name} {kind}")
    };
    head(to, "allocations_total", "counter", "Allocations by scope and by what served them.")?;
    for ((scope, served), count) in &sums.allocations {
        let (scope, served) = (label(scope), label(served));
        writeln!(to, "gpucache_allocations_total{{scope=\"{scope}\",served_by=\"{served}\"}} {count}")?;
    }
    let by_scope = [
        ("allocated_bytes_total", "counter", "Bytes of all allocations.", &sums.allocated),
        ("shortages_total", "counter", "Allocations that found no memory.", &sums.shortages),
        ("entries_total", "counter", "Entries of the scope.", &sums.entries),
        ("live_bytes", "gauge", "Bytes of arrays that are alive.", &sums.live),
        ("peak_live_bytes", "gauge", "The most bytes of arrays of the scope that were alive at once.", &sums.peaks),
    ];
    for (name, kind, help, values) in by_scope {
        head(to, name, kind, help)?;
        for (scope, value) in values {
            writeln!(to, "gpucache_{name}{{scope=\"{}\"}} {value}", label(scope))?;
        }
    }
    head(to, "trace_lost_events_total", "counter", "Events that the trace had no room for.")?;
    writeln!(to, "gpucache_trace_lost_events_total {}", run.lost)
}

/// Escapes the value of a label.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

type ByScope<'r> = BTreeMap<&'r str, u64>;

#[derive(Default)]
struct Sums<'r> {
    allocations: BTreeMap<(&'r str, &'r str), u64>,
    allocated: ByScope<'r>,
    shortages: ByScope<'r>,
    entries: ByScope<'r>,
    live: ByScope<'r>,
    peaks: ByScope<'r>,
    /// The scope of each allocation.
    scopes: BTreeMap<u64, &'r str>,
}

impl<'r> Sums<'r> {
    fn of(run: &'r Run) -> Sums<'r> {
        let mut sums = Sums::default();
        for event in &run.events {
            let scope = &*event.scope;
            match event.op {
                Op::Allocate => {
                    *sums.allocations.entry((scope, &event.served)).or_default() += 1;
                    let allocated = sums.allocated.entry(scope).or_default();
                    *allocated = allocated.saturating_add(event.bytes);
                    sums.scopes.insert(event.id, scope);
                    let live = sums.live.entry(scope).or_default();
                    *live = live.saturating_add(event.bytes);
                    let peak = sums.peaks.entry(scope).or_default();
                    *peak = (*peak).max(*live);
                }
                Op::Free => {
                    if let Some(scope) = sums.scopes.remove(&event.id) {
                        let live = sums.live.entry(scope).or_default();
                        *live = live.saturating_sub(event.bytes);
                    }
                }
                Op::Enter => *sums.entries.entry(scope).or_default() += 1,
                Op::Leave => {}
                Op::Short => *sums.shortages.entry(scope).or_default() += 1,
            }
        }
        sums
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::run::tests::example;

    #[test]
    fn sums_are_by_scope() {
        let mut text = Vec::new();
        write(&example(), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for line in [
            "gpucache_allocations_total{scope=\"\",served_by=\"device\"} 1",
            "gpucache_allocations_total{scope=\"train, step\",served_by=\"plan\"} 1",
            "gpucache_allocated_bytes_total{scope=\"inner\"} 2097152",
            "gpucache_shortages_total{scope=\"inner\"} 1",
            "gpucache_entries_total{scope=\"train, step\"} 1",
            "gpucache_live_bytes{scope=\"\"} 4096",
            "gpucache_live_bytes{scope=\"inner\"} 0",
            "gpucache_peak_live_bytes{scope=\"inner\"} 2097152",
            "gpucache_trace_lost_events_total 12",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
    }

    /// Each line is a comment or a sample. The samples of a metric follow its type.
    #[test]
    fn the_format_is_kept() {
        let mut text = Vec::new();
        write(&example(), &mut text).unwrap();
        let mut metric = String::new();
        for line in String::from_utf8(text).unwrap().lines() {
            if let Some(kind) = line.strip_prefix("# TYPE ") {
                metric = kind.split(' ').next().unwrap().to_owned();
            } else if !line.starts_with("# HELP ") {
                let (name, value) = line.rsplit_once(' ').unwrap();
                assert_eq!(name.split('{').next().unwrap(), metric);
                assert!(value.parse::<u64>().is_ok(), "{line}");
            }
        }
        assert_eq!(label("a\"b\\c\n"), "a\\\"b\\\\c\\n");
    }
}
