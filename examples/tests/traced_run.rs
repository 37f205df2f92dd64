//! Traces a run of `train` by the environment, and replays and reports it: the file must describe the run. A dry run before it must
//! predict the run.
//!
//! Cargo builds the programs as a user would, in this test's own folder of build products.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use serde_json::Value;

/// The unit in which the virtual device maps memory.
const PAGE: u64 = 2 << 20;

/// A folder that is removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("gpucache-traced-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let folder = Folder(std::env::temp_dir().join(name));
        std::fs::create_dir(&folder.0).unwrap();
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs an example, and returns what it printed.
fn run(example: &str, arguments: &[&str], trace: Option<&Path>) -> String {
    let mut command = Command::new(env!("CARGO"));
    // With the features of the whole workspace, with which it is already built.
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    command.args(["run", "--quiet", "--example", example]);
    if !cfg!(feature = "cuda") {
        command.arg("--no-default-features");
    }
    command.arg("--").args(arguments).env_remove("GPUCACHE_TRACE");
    command.envs(trace.map(|path| ("GPUCACHE_TRACE", path)));
    let done = command.output().unwrap();
    assert!(done.status.success(), "{example}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

fn run_for_json(example: &str, arguments: &[&str], trace: Option<&Path>) -> Value {
    serde_json::from_str(&run(example, arguments, trace)).unwrap()
}

/// Computes from the file: operations, the peak of live bytes (each rounded up to 256), and the fraction of the scopes'
/// allocations in the last three steps that was planned.
fn told(file: &str) -> (u64, u64, f64) {
    let (mut operations, mut live, mut peak) = (0, 0, 0u64);
    let mut served = BTreeMap::<u64, (u64, u64)>::new();
    for line in file.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let (step, bytes): (u64, u64) = (fields[0].parse().unwrap(), fields[3].parse().unwrap());
        let (planned, all) = served.entry(step).or_default();
        match fields[1] {
            "a" => {
                live += bytes.next_multiple_of(256);
                *planned += u64::from(fields[8] == "plan");
                *all += u64::from(fields[8] != "device");
            }
            "f" => live -= bytes.next_multiple_of(256),
            _ => continue,
        }
        operations += 1;
        peak = peak.max(live);
    }
    let last = served.values().rev().take(3);
    let (planned, all) = last.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    (operations, peak, planned as f64 / all as f64)
}

#[test]
fn a_traced_run_is_replayed_as_it_was() {
    let folder = Folder::new();
    let [trace, log, snapshot, perfetto] =
        ["run.csv", "run.log", "run.pickle", "run.json"].map(|name| folder.0.join(name));

    let trained = run_for_json("train", &["--device", "host", "--epochs", "2", "--json"], Some(&trace));
    let file = std::fs::read_to_string(&trace).unwrap();
    let (operations, peak, planned) = told(&file);
    assert!(file.contains(",enter,") && file.contains(",train_step,plan,") && !file.contains(",lost,"));

    let arguments = ["--passes", "1", "--json"];
    let replayed = run_for_json("replay", &[&[trace.to_str().unwrap()], &arguments[..]].concat(), None);
    assert_eq!(replayed["operations"], operations);
    assert_eq!(replayed["peak_live_bytes"], peak);
    let [held, reserved] =
        [&trained["peak_device_bytes"], &replayed["peak_reserved_bytes"]].map(|bytes| bytes.as_u64().unwrap());
    assert!(held.abs_diff(reserved) <= PAGE, "held {held}, and {reserved} as it was replayed");
    assert_eq!(replayed["steady_planned_share"], planned);

    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let [from, log_to, snapshot_to, perfetto_to] = [&trace, &log, &snapshot, &perfetto].map(|file| path(file));
    run("report", &[&from, "--rmm", &log_to, "--snapshot", &snapshot_to, "--perfetto", &perfetto_to], None);
    let of_log = run_for_json("replay", &[&[&*log_to], &arguments[..]].concat(), None);
    assert_eq!(
        (&of_log["operations"], &of_log["peak_live_bytes"]),
        (&replayed["operations"], &replayed["peak_live_bytes"])
    );
    assert!(std::fs::read(&snapshot).unwrap().starts_with(b"\x80\x02}("));
    let shown: Value = serde_json::from_slice(&std::fs::read(&perfetto).unwrap()).unwrap();
    assert!(shown["traceEvents"].as_array().unwrap().len() > operations as usize);
}

/// Training allocates the same arrays on any machine. So a dry run must report the same as the trace of a real run, and the memory that
/// it reserved must be what a replay reserves.
#[test]
fn a_dry_run_tells_what_the_run_takes() {
    let (folder, training) = (Folder::new(), ["--epochs", "2", "--functional", "--json"]);
    let trace = folder.0.join("run.csv");
    run("train", &[&["--device", "host"], &training[..]].concat(), Some(&trace));
    let trace = trace.to_str().unwrap();

    let before = run_for_json("dry_run", &training, None);
    let of_file = run_for_json("dry_run", &[trace, "--json"], None);
    assert_eq!(before["policies"], of_file["policies"]);
    assert_eq!(before["peak_live_bytes"], of_file["peak_live_bytes"]);
    let auto = &before["policies"][0];
    let bytes = |of: &Value, name: &str| of[name].as_u64().unwrap();
    let (held, reserved) = (bytes(&before, "peak_device_bytes"), bytes(auto, "peak_reserved_bytes"));
    assert!(50 * held.abs_diff(reserved) <= held, "held {held}, and {reserved} as it was replayed");
    assert_eq!((auto["policy"].as_str(), of_file.get("peak_device_bytes")), (Some("auto"), None));

    let limit = bytes(auto, "smallest_limit_bytes");
    assert!((bytes(&before, "peak_live_bytes")..=reserved + PAGE).contains(&limit), "{limit}");
    run("replay", &[trace, "--passes", "1", "--limit", &limit.to_string()], None);
}
