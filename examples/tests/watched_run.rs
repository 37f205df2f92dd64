//! A second process watches a run of `train`: the file must be complete whenever it is read, and describe the run.
//!
//! Cargo builds the programs as a user would, in this test's own folder of build products.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A folder that is removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = Folder(std::env::temp_dir().join(format!("gpucache-{name}-{}", std::process::id())));
        std::fs::create_dir(&folder.0).unwrap();
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A program that is stopped with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Builds an example, and returns the program.
fn built(example: &str) -> PathBuf {
    let mut command = Command::new(env!("CARGO"));
    // With the features of the whole workspace, with which it is already built.
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    command.args(["build", "--quiet", "--example", example]);
    if !cfg!(feature = "cuda") {
        command.arg("--no-default-features");
    }
    assert!(command.status().unwrap().success());
    // This test is in `deps`; the examples' folder is beside that.
    let here = std::env::current_exe().unwrap();
    let program = here.parent().unwrap().parent().unwrap().join("examples").join(example);
    program.with_extension(std::env::consts::EXE_EXTENSION)
}

fn train(epochs: &str, watch: &Path) -> Command {
    let mut command = Command::new(built("train"));
    command.args(["--device", "host", "--epochs", epochs]).env("GPUCACHE_WATCH", watch);
    command
}

/// The fields of the line for the scope `train_step`, if there is one.
fn line_of_step(text: &str) -> Option<Vec<String>> {
    let line = text.lines().find(|line| line.starts_with("train_step "))?;
    Some(line.split("  ").map(str::trim).filter(|field| !field.is_empty()).map(str::to_string).collect())
}

#[test]
fn a_run_is_watched_from_another_process() {
    let folder = Folder::new("watched");
    let file = folder.0.join("run.txt");
    let mut running = Running(train("1000", &file).stdout(Stdio::null()).spawn().unwrap());
    let began = Instant::now();
    let mut seen = Vec::new();
    // The run enters its scope some seconds after its start, if other programs run too, and continues for minutes.
    while seen.len() < 3 && began.elapsed() < Duration::from_secs(120) {
        assert!(running.0.try_wait().unwrap().is_none(), "it goes on");
        if let Ok(text) = std::fs::read_to_string(&file) {
            assert!(text.starts_with("process ") && text.ends_with('\n') && text.contains("\nscope "), "{text}");
            let entries = line_of_step(&text).map(|line| line[line.len() - 2].parse::<u64>().unwrap());
            seen.extend(entries.filter(|entries| seen.last().is_none_or(|last| last < entries)));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(seen.len() == 3, "{seen:?}");
    let text =
        String::from_utf8(Command::new(built("watch")).arg(&file).arg("--once").output().unwrap().stdout).unwrap();
    let line = line_of_step(&text).unwrap();
    assert_eq!(line[1], "main", "{text}");
    let planned: f64 = line.iter().find_map(|field| field.strip_suffix('%')?.parse().ok()).unwrap();
    assert!(planned > 90.0 && line.last().unwrap().parse::<f64>().unwrap() > 0.0, "{text}");
    drop(running);
    let left: Vec<_> = std::fs::read_dir(&folder.0).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(left.iter().any(|name| name == "run.txt"), "{left:?}");
}

#[test]
fn a_file_that_cannot_be_written_is_told_once() {
    let folder = Folder::new("unwatched");
    let done = train("20", &folder.0.join("nowhere/run.txt")).output().unwrap();
    let told = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success(), "{told}");
    assert_eq!(told.matches("gpucache: GPUCACHE_WATCH=").count(), 1, "{told}");
}

/// A run that is shorter than the time between two readings: the file has the figures of its end.
#[test]
fn the_last_reading_is_that_of_the_exit() {
    let folder = Folder::new("watched-to-the-end");
    let file = folder.0.join("run.txt");
    let done = train("3", &file).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = std::fs::read_to_string(&file).unwrap();
    let line = line_of_step(&text).unwrap_or_else(|| panic!("{text}"));
    let shown =
        String::from_utf8(train("3", &folder.0.join("other.txt")).arg("--json").output().unwrap().stdout).unwrap();
    let report: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(line[line.len() - 2].parse::<u64>().unwrap(), report["steps"].as_u64().unwrap(), "{text}");
}
