//! The data of the page as JSON: columns of numbers. Where differences are small, a column has the difference to the number before.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value, json};

use super::bands::Bands;
use super::beside::{self, Cause};
use super::failed;
use super::kinds::Kinds;
use super::limits::{Limited, Limits};
use super::peak;
use super::scopes::{self, SERVED};
use crate::lives::{self, Life, Peak};
use crate::run::{Op, Reserved, Run};

/// The most rows of a table. The page counts the rows beyond.
const MOST_ROWS: usize = 500;

/// All that the page shows.
pub(super) fn of(run: &Run, name: &str, limits: &Limits) -> Value {
    let lives = lives::lives(run);
    let causes = beside::causes(run, &lives);
    let devices = devices(run, &lives);
    let mut kinds = Kinds::default();
    let arrays = arrays(&lives, &causes, &devices, &mut kinds);
    let marks = outermost(run, &mut kinds);
    let (texts, kinds) = kinds.json();
    json!({
        "name": name,
        "lost": run.lost,
        "times": differences(run.events.iter().map(|event| event.time_ns)),
        "texts": texts,
        "kinds": kinds,
        "arrays": arrays,
        "served": SERVED,
        "causes": Cause::ALL.map(|(_, words)| words),
        "devices": devices.iter().map(|(number, of)| device(*number, of, run)).collect::<Value>(),
        "scopes": scopes::rows(run, &lives),
        "marks": marks,
        "beside": rows(beside::groups(&lives, &causes)),
        "limits": {
            "device": limits.device,
            "page_bytes": limits.page_bytes,
            "rows": limits.rows.iter().map(limit).collect::<Value>(),
        },
    })
}

/// The data of one device.
#[derive(Default)]
struct OfDevice<'l> {
    lives: Vec<&'l Life<'l>>,
    reserved: Vec<&'l Reserved>,
    /// The places of the events of failed allocations.
    failed: Vec<usize>,
    peak: Peak,
    bands: Bands,
}

/// The devices by their numbers, in one pass over the arrays.
fn devices<'l>(run: &'l Run, all: &'l [Life<'l>]) -> BTreeMap<u64, OfDevice<'l>> {
    let mut devices: BTreeMap<u64, OfDevice<'l>> = BTreeMap::new();
    for life in all {
        devices.entry(life.allocation.device).or_default().lives.push(life);
    }
    for reserved in &run.reserved {
        devices.entry(reserved.device).or_default().reserved.push(reserved);
    }
    for (number, failed) in failed::failed(run) {
        devices.entry(number).or_default().failed = failed;
    }
    for (number, peak) in lives::peaks(run) {
        devices.entry(number).and_modify(|device| device.peak = peak);
    }
    devices.values_mut().for_each(|device| device.bands = Bands::of(device.lives.iter().copied()));
    devices
}

/// The difference of each number to the one before; the first number itself.
fn differences(numbers: impl Iterator<Item = u64>) -> Vec<i64> {
    let mut last = 0;
    numbers.map(|number| number.wrapping_sub(std::mem::replace(&mut last, number)) as i64).collect()
}

/// The columns of the arrays:
///
/// - `starts`: the events since the allocation of the array before;
/// - `spans`: the events of its life; 0 until the end of the run;
/// - `kinds`, `served`: by number;
/// - `causes`: one more than the number of the cause, or 0;
/// - `places`: its place in the table `offsets`, which are places in the picture.
fn arrays<'r>(
    lives: &[Life<'r>],
    causes: &[Option<Cause>],
    devices: &BTreeMap<u64, OfDevice<'_>>,
    kinds: &mut Kinds<'r>,
) -> Value {
    let offset = |life: &Life<'_>| devices[&life.allocation.device].bands.offset(life.allocation.address);
    let offsets: BTreeSet<u64> = lives.iter().map(offset).collect();
    let places: HashMap<u64, usize> = offsets.iter().copied().zip(0..).collect();
    json!({
        "starts": differences(lives.iter().map(|life| life.start as u64)),
        "spans": lives.iter().map(|life| life.free.map_or(0, |free| free - life.start)).collect::<Vec<_>>(),
        "kinds": lives.iter().map(|life| kinds.kind(life.allocation)).collect::<Vec<_>>(),
        "served": lives.iter().map(|life| scopes::served(&life.allocation.served)).collect::<Vec<_>>(),
        "causes": causes.iter().map(|cause| cause.map_or(0, |cause| cause as usize + 1)).collect::<Vec<_>>(),
        "places": lives.iter().map(|life| places[&offset(life)]).collect::<Vec<_>>(),
        "offsets": differences(offsets.iter().copied()),
    })
}

/// The outermost entries: the events since the entry before, and the scope.
fn outermost<'r>(run: &'r Run, kinds: &mut Kinds<'r>) -> Value {
    let (mut depths, mut starts, mut scopes) = (HashMap::new(), Vec::new(), Vec::new());
    for (place, event) in run.events.iter().enumerate() {
        let depth: &mut u64 = depths.entry(event.thread).or_default();
        match event.op {
            Op::Enter => {
                if *depth == 0 {
                    starts.push(place as u64);
                    scopes.push(kinds.text(&event.scope));
                }
                *depth += 1;
            }
            Op::Leave => *depth = depth.saturating_sub(1),
            Op::Allocate | Op::Free | Op::Short => {}
        }
    }
    json!({ "starts": differences(starts.into_iter()), "scopes": scopes })
}

fn device(number: u64, device: &OfDevice<'_>, run: &Run) -> Value {
    let OfDevice { lives, reserved, failed, peak, bands } = device;
    let holes = peak::holes(lives, bands, peak.event);
    let free = holes.iter().fold(0u64, |sum, hole| sum.saturating_add(hole.2));
    let hole = |hole: &(u64, u64, u64)| json!([format!("{:#x}", hole.0), hole.1, hole.2]);
    json!({
        "number": number,
        "arrays": lives.len(),
        "peak": [peak.event, peak.bytes],
        "reserved": {
            "events": differences(reserved.iter().map(|reserved| reserved.before as u64)),
            "bytes": differences(reserved.iter().map(|reserved| reserved.bytes)),
        },
        "bands": bands.json(),
        "holders": rows(peak::holders(lives, peak.event)),
        "left": rows(peak::left(lives)),
        "failed": rows(failed::groups(run, failed)),
        "failures": failed.len(),
        "holes": { "count": holes.len(), "bytes": free,
            "longest": holes.iter().take(MOST_ROWS).map(hole).collect::<Value>() },
    })
}

fn limit(limit: &Limited) -> Value {
    let Limited { limit_bytes, out_of_memory, reserved_bytes, planned_share } = limit;
    json!([limit_bytes, out_of_memory, reserved_bytes, planned_share])
}

fn rows(mut rows: Vec<Value>) -> Value {
    let left_out = rows.len().saturating_sub(MOST_ROWS);
    rows.truncate(MOST_ROWS);
    json!({ "rows": rows, "left_out": left_out })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::example;

    #[test]
    fn the_data_is_that_of_the_run() {
        let data = of(&example(), "run.csv", &Limits::default());
        let arrays = &data["arrays"];
        assert_eq!((&arrays["starts"], &arrays["spans"]), (&json!([0, 2, 2]), &json!([0, 5, 5])));
        assert_eq!((&arrays["served"], &arrays["kinds"]), (&json!([3, 0, 2]), &json!([0, 1, 2])));
        assert_eq!((&arrays["offsets"], &arrays["places"]), (&json!([0, 4096, 1000]), &json!([0, 1, 2])));
        assert_eq!(data["times"], json!([1000, 1000, 500, 100, 100, 100, 200, 500, 500, 1000]));
        let device = &data["devices"][0];
        assert_eq!((&device["number"], &device["peak"]), (&json!(7), &json!([4, 2_102_248])));
        assert_eq!(device["reserved"], json!({ "events": [4], "bytes": [4_194_304] }));
        let failed = json!(["inner", "u8", "99999999", 1, 99_999_999, "src/main.rs:11:9", 5]);
        assert_eq!((&device["failures"], &device["failed"]["rows"]), (&json!(1), &json!([failed])));
        assert_eq!(data["marks"]["starts"], json!([1]));
        assert_eq!((&data["lost"], &data["limits"]["rows"]), (&json!(12), &json!([])));
    }

    #[test]
    fn what_is_no_longer_told_is_counted() {
        let all = rows((0..MOST_ROWS + 3).map(Value::from).collect());
        assert_eq!((all["rows"].as_array().unwrap().len(), &all["left_out"]), (MOST_ROWS, &json!(3)));
        assert_eq!(differences([5, 7, 6].into_iter()), [5, 2, -1]);
    }
}
