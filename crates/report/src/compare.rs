//! Compares two runs: the live arrays at their peaks, by the source line that allocated them.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::lives::{self, Life};
use crate::run::{Event, Run};

/// The result of [`compare`]: the peaks of two runs, and the growth between them.
///
/// `Display` gives a table for a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Comparison {
    /// The devices of both runs, in the order of their numbers. The first device of one run is compared with the first of the other.
    pub devices: Vec<DeviceComparison>,
}

/// One device in two runs. In each pair of numbers, the first belongs to the earlier run.
///
/// ```
/// use gpucache_report::{Run, compare};
///
/// let comparison = compare(&Run::default(), &Run::default());
/// assert!(comparison.devices.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceComparison {
    /// The peaks of live memory, in bytes.
    pub live_bytes: [u64; 2],
    /// The reserved memory at these peaks, in bytes; 0 if the trace does not say it.
    pub reserved_bytes: [u64; 2],
    /// The peaks of reserved memory, in bytes; 0 if the trace does not say it.
    pub peak_reserved_bytes: [u64; 2],
    /// Arrays with different bytes at the two peaks. The largest growth comes first, the largest decrease last.
    pub changes: Vec<Change>,
}

/// The arrays of one source line, scope and type that are live at the peaks. In each pair of values, the first belongs to the
/// earlier run.
///
/// ```
/// use gpucache::{cache_scope, prelude::*, trace};
/// use gpucache_report::{Run, compare};
///
/// let host = Host::new();
/// let run = |rows: usize| {
///     trace::start(1000);
///     cache_scope!(step, { drop(host.zeros::<f32>([rows, 64])?) });
///     Ok::<_, gpucache::Error>(Run::from(&trace::stop()))
/// };
/// let (before, after) = (run(32)?, run(128)?);
/// let change = &compare(&before, &after).devices[0].changes[0];
/// assert_eq!((&*change.scope, change.bytes), ("step", [8192, 32768]));
/// assert_eq!(change.shapes, ["32x64", "128x64"]);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The source line that allocated the arrays; empty if the trace does not say it.
    pub site: String,
    /// The scope; empty for arrays outside scopes.
    pub scope: String,
    /// The type of the elements.
    pub dtype: String,
    /// The shape with the most bytes; empty if there is no array.
    pub shapes: [String; 2],
    /// The number of arrays.
    pub arrays: [u64; 2],
    /// The bytes of the arrays.
    pub bytes: [u64; 2],
}

/// Compares the peaks of two runs: the live arrays, and the reserved memory.
///
/// ```
/// use gpucache::{cache_scope, prelude::*, trace};
/// use gpucache_report::{Run, compare};
///
/// let host = Host::new();
/// let run = |copies: usize| {
///     trace::start(1000);
///     cache_scope!(step, {
///         let arrays: Vec<_> = (0..copies).map(|_| host.zeros::<f32>([32, 64])).collect::<Result<_, _>>()?;
///         drop(arrays);
///     });
///     Ok::<_, gpucache::Error>(Run::from(&trace::stop()))
/// };
/// let comparison = compare(&run(2)?, &run(5)?);
/// assert_eq!(comparison.devices[0].live_bytes, [2 * 8192, 5 * 8192]);
/// println!("{comparison}");
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn compare(before: &Run, after: &Run) -> Comparison {
    let [mut before, mut after] = [peaks(before), peaks(after)];
    let count = before.len().max(after.len());
    before.resize_with(count, AtPeak::default);
    after.resize_with(count, AtPeak::default);
    Comparison { devices: before.into_iter().zip(after).map(|(before, after)| both(before, after)).collect() }
}

/// Source line, scope and type; and the shape, where the line is not known.
type Key = (String, String, String, String);

/// Arrays of one key.
#[derive(Clone, Debug, Default)]
struct Group {
    arrays: u64,
    bytes: u64,
    shapes: BTreeMap<String, u64>,
}

/// A device at its peak.
#[derive(Debug, Default)]
struct AtPeak {
    live: u64,
    reserved: u64,
    peak_reserved: u64,
    groups: HashMap<Key, Group>,
}

/// The peaks of the devices of a run, in the order of their numbers.
fn peaks(run: &Run) -> Vec<AtPeak> {
    let (all, peaks) = (lives::lives(run), lives::peaks(run));
    let peaks: BTreeMap<u64, lives::Peak> = peaks.into_iter().collect();
    peaks.into_iter().map(|(device, peak)| at_peak(run, &all, device, peak)).collect()
}

fn at_peak(run: &Run, all: &[Life<'_>], device: u64, peak: lives::Peak) -> AtPeak {
    let reserved = || run.reserved.iter().filter(|reserved| reserved.device == device);
    let at = reserved().take_while(|reserved| reserved.before <= peak.event).last();
    let mut groups: HashMap<Key, Group> = HashMap::new();
    for life in all.iter().filter(|life| life.allocation.device == device && life.is_alive_after(peak.event)) {
        groups.entry(key(life.allocation)).or_default().add(life.allocation);
    }
    AtPeak {
        live: peak.bytes,
        reserved: at.map_or(0, |reserved| reserved.bytes),
        peak_reserved: reserved().map(|reserved| reserved.bytes).max().unwrap_or(0),
        groups,
    }
}

fn key(event: &Event) -> Key {
    let Event { site, scope, dtype, shape, .. } = event;
    let shape = if site.is_empty() { shape.clone() } else { String::new() };
    (site.clone(), scope.clone(), dtype.clone(), shape)
}

impl Group {
    fn add(&mut self, event: &Event) {
        self.arrays += 1;
        self.bytes = self.bytes.saturating_add(event.bytes);
        let bytes = self.shapes.entry(event.shape.clone()).or_default();
        *bytes = bytes.saturating_add(event.bytes);
    }

    /// The shape with the most bytes.
    fn shape(&self) -> String {
        let largest = self.shapes.iter().max_by_key(|(_, bytes)| **bytes);
        largest.map_or_else(String::new, |(shape, _)| shape.clone())
    }
}

fn both(before: AtPeak, after: AtPeak) -> DeviceComparison {
    let mut groups: BTreeMap<Key, [Group; 2]> = BTreeMap::new();
    for (place, of_run) in [before.groups, after.groups].into_iter().enumerate() {
        of_run.into_iter().for_each(|(key, group)| groups.entry(key).or_default()[place] = group);
    }
    let change = |((site, scope, dtype, _), [before, after]): (Key, [Group; 2])| Change {
        site,
        scope,
        dtype,
        shapes: [before.shape(), after.shape()],
        arrays: [before.arrays, after.arrays],
        bytes: [before.bytes, after.bytes],
    };
    let mut changes: Vec<Change> = groups.into_iter().map(change).filter(|change| change.growth() != 0).collect();
    changes.sort_by_key(|change| -change.growth());
    DeviceComparison {
        live_bytes: [before.live, after.live],
        reserved_bytes: [before.reserved, after.reserved],
        peak_reserved_bytes: [before.peak_reserved, after.peak_reserved],
        changes,
    }
}

impl Change {
    /// The bytes after, less the bytes before.
    ///
    /// ```
    /// use gpucache_report::Change;
    ///
    /// assert_eq!(Change::default().growth(), 0);
    /// ```
    pub fn growth(&self) -> i128 {
        growth(self.bytes)
    }
}

fn growth([before, after]: [u64; 2]) -> i128 {
    i128::from(after) - i128::from(before)
}

/// Rows of a table that grew, and rows that shrank.
const MOST_ROWS: [usize; 2] = [20, 10];

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, device) in self.devices.iter().enumerate() {
            if self.devices.len() > 1 {
                writeln!(f, "device {} of {}:", number + 1, self.devices.len())?;
            }
            write!(f, "{device}")?;
        }
        Ok(())
    }
}

impl fmt::Display for DeviceComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<24} {:>11} {:>11} {:>12}", "", "before", "after", "growth")?;
        for (name, bytes) in [
            ("peak live", self.live_bytes),
            ("reserved at that peak", self.reserved_bytes),
            ("peak reserved", self.peak_reserved_bytes),
        ] {
            let [before, after] = bytes.map(text);
            writeln!(f, "{name:<24} {before:>11} {after:>11} {:>12}", signed(growth(bytes)))?;
        }
        let (grown, shrunk): (Vec<&Change>, Vec<&Change>) = self.changes.iter().partition(|change| change.growth() > 0);
        rows(f, "grew", &grown, MOST_ROWS[0])?;
        rows(f, "shrank", &shrunk.into_iter().rev().collect::<Vec<_>>(), MOST_ROWS[1])
    }
}

fn rows(f: &mut fmt::Formatter<'_>, what: &str, changes: &[&Change], most: usize) -> fmt::Result {
    if changes.is_empty() {
        return writeln!(f, "\nNo arrays at the peak {what}.");
    }
    writeln!(f, "\nArrays at the peak that {what}:")?;
    for change in changes.iter().take(most) {
        let [before, after] = change.bytes.map(text);
        write!(
            f,
            "{:>12}  {before} → {after}, arrays {} → {}: ",
            signed(change.growth()),
            change.arrays[0],
            change.arrays[1]
        )?;
        writeln!(f, "{}", place(change))?;
    }
    let left = changes.len().saturating_sub(most);
    if left > 0 { writeln!(f, "and {left} more") } else { Ok(()) }
}

/// The array, its scope and its source line.
fn place(change: &Change) -> String {
    let Change { site, scope, dtype, shapes: [before, after], .. } = change;
    let shape = match (before.is_empty(), after.is_empty()) {
        (false, false) if before != after => format!("[{before}] → [{after}]"),
        (_, true) => format!("[{before}]"),
        (_, false) => format!("[{after}]"),
    };
    let scope = if scope.is_empty() { "outside scopes".to_owned() } else { format!("in `{scope}`") };
    let site = if site.is_empty() { String::new() } else { format!(" at {site}") };
    format!("{dtype} {shape} {scope}{site}")
}

fn signed(bytes: i128) -> String {
    let sign = if bytes < 0 { "-" } else { "+" };
    format!("{sign}{}", text(u64::try_from(bytes.unsigned_abs()).unwrap_or(u64::MAX)))
}

fn text(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = (bytes.max(1).ilog2() / 10).min(4);
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{:.2} {}", bytes as f64 / (1u64 << (10 * unit)) as f64, UNITS[unit as usize]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::example;

    #[test]
    fn what_grew_is_told_with_its_line() {
        let (before, mut after) = (example(), example());
        after.events[2].bytes = 5_000_000;
        after.events[2].shape = "5000000".into();
        after.reserved[0].bytes = 8 << 20;
        after.events.retain(|event| event.id != 1);
        let comparison = compare(&before, &after);
        let [device] = &comparison.devices[..] else { panic!("{comparison}") };
        assert_eq!(device.live_bytes, [2_102_248, 7_097_152]);
        assert_eq!(device.peak_reserved_bytes, [4 << 20, 8 << 20]);
        let [grown, shrunk] = &device.changes[..] else { panic!("{comparison}") };
        assert_eq!((&*grown.site, grown.bytes, grown.arrays), ("src/main.rs:8:9", [1000, 5_000_000], [1, 1]));
        assert_eq!((&*shrunk.site, shrunk.growth()), ("src/main.rs:3:9", -4096));
        let shown = comparison.to_string();
        let line = "u8 [1000] → [5000000] in `train, step` at src/main.rs:8:9";
        assert!(shown.contains(line) && shown.contains("+4.77 MiB"), "{shown}");
        assert!(shown.contains("f32 [32x32] outside scopes at src/main.rs:3:9"), "{shown}");
    }

    #[test]
    fn equal_runs_have_no_changes() {
        let comparison = compare(&example(), &example());
        assert_eq!(comparison.devices[0].changes, []);
        assert!(comparison.to_string().contains("No arrays at the peak grew."));
        let absurd = compare(&example(), &Run { events: Vec::new(), ..example() });
        assert_eq!(absurd.devices[0].live_bytes, [2_102_248, 0]);
    }
}
