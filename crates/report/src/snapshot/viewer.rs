//! Tests of the snapshot: its schema, and the answers of PyTorch's own `_memory_viz.py`. The variable `MEMORY_VIZ` names that file, which
//! needs only Python. Without the variable these tests pass, and say that they did nothing.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::pickle::pickle;
use super::snapshot;
use crate::run::Op;
use crate::run::tests::example;

/// The fields that the viewer reads of each kind of object.
const SEGMENT: [&str; 6] = ["device", "address", "total_size", "allocated_size", "stream", "blocks"];
const BLOCK: [&str; 5] = ["address", "size", "requested_size", "state", "frames"];
const ACTION: [&str; 6] = ["action", "addr", "size", "stream", "time_us", "frames"];
const FRAME: [&str; 3] = ["name", "filename", "line"];

fn assert_has(object: &Value, names: &[&str]) {
    names.iter().for_each(|name| assert!(object.get(name).is_some(), "there is no {name} in {object}"));
}

fn list<'v>(object: &'v Value, name: &str) -> &'v [Value] {
    object[name].as_array().unwrap()
}

#[test]
fn blocks_fill_their_segments() {
    let snapshot = snapshot(&example());
    let segments = list(&snapshot, "segments");
    assert_eq!(segments.len(), 2, "an array lies over a border of pages, beside another one");
    for segment in segments {
        assert_has(segment, &SEGMENT);
        let mut end = segment["address"].as_u64().unwrap();
        for block in list(segment, "blocks") {
            assert_has(block, &BLOCK);
            assert_eq!(block["address"].as_u64(), Some(end));
            end += block["size"].as_u64().unwrap();
        }
        let begin = segment["address"].as_u64().unwrap();
        assert_eq!(segment["total_size"].as_u64(), Some(end - begin));
    }
    assert_eq!(segments[0]["allocated_size"], 4096);
    assert_eq!(segments[1]["allocated_size"], 0);
}

#[test]
fn the_history_is_in_words_of_the_viewer() {
    let snapshot = snapshot(&example());
    let history = snapshot["device_traces"][0].as_array().unwrap();
    let actions: Vec<&str> = history.iter().map(|action| action["action"].as_str().unwrap()).collect();
    let (allocated, freed) = (["segment_alloc", "alloc"], ["free_requested", "free_completed"]);
    assert_eq!(actions, [&allocated[..], &allocated, &["alloc", "oom"], &freed, &freed].concat());
    for action in history.iter().filter(|action| action["action"] != "oom") {
        assert_has(action, &ACTION);
    }
    let inner = history.iter().find(|action| action["size"] == 2_097_152 && action["action"] == "alloc").unwrap();
    let frames = list(inner, "frames");
    frames.iter().for_each(|frame| assert_has(frame, &FRAME));
    let frame = |place: usize| (frames[place]["name"].as_str().unwrap(), frames[place]["line"].as_u64().unwrap());
    assert_eq!((frames.len(), frame(0), frame(1)), (3, ("f64 [262144]", 10), ("inner", 9)));
}

/// Addresses are those of one device.
#[test]
fn devices_have_segments_and_a_history_each() {
    let mut run = example();
    run.events[2].device = 3;
    run.events[2].address = run.events[0].address;
    run.events.retain(|event| event.op != Op::Free);
    let snapshot = snapshot(&run);
    let segments = list(&snapshot, "segments").iter();
    let of_segments: Vec<(u64, u64)> = segments
        .map(|segment| (segment["device"].as_u64().unwrap(), segment["allocated_size"].as_u64().unwrap()))
        .collect();
    assert_eq!(of_segments, [(0, 1000), (1, 4096), (1, 2_097_152)]);
    let allocations = |history: &Value| {
        let actions = history.as_array().unwrap().iter();
        actions.filter(|action| action["action"] == "alloc").map(|action| action["size"].as_u64().unwrap()).collect()
    };
    let of_histories: Vec<Vec<u64>> = list(&snapshot, "device_traces").iter().map(allocations).collect();
    assert_eq!(of_histories, [vec![1000], vec![4096, 2_097_152]]);
}

#[test]
fn the_viewer_of_pytorch_reads_it() {
    let Some(viewer) = std::env::var_os("MEMORY_VIZ").map(PathBuf::from) else {
        println!("MEMORY_VIZ names no _memory_viz.py: nothing was done");
        return;
    };
    let path = std::env::temp_dir().join(format!("gpucache-snapshot-{}.pickle", std::process::id()));
    std::fs::write(&path, pickle(&snapshot(&example())).unwrap()).unwrap();
    let run = |command: &str, output: &[&str]| {
        let done = Command::new("python3").arg(&viewer).arg(command).arg(&path).args(output).output().unwrap();
        assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    let stats = run("stats", &[]);
    assert!(stats.contains("segments: 2") && stats.contains("total_allocated: 4.0KiB"), "{stats}");
    let history = run("trace", &[]);
    let lines: BTreeSet<&str> = history.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert!(lines.contains("raise") && history.contains("2.0MiB"), "{history}");
    run("trace_plot", &["-o", path.with_extension("html").to_str().unwrap()]);
    [path.clone(), path.with_extension("html")].iter().for_each(|path| std::fs::remove_file(path).unwrap());
}
