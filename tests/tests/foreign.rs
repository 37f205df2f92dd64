//! Programs that allocate through cudarc inside gpucache's scopes (`tests/foreign`), over a made-up driver (`tests/driver`). They
//! are built as for real use: linked against the driver and loading it, with two linkers, with and without link-time optimization.
//! Cargo builds both here, in a folder below the workspace's own target folder.
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use gpucache_tests::madeup;
use serde_json::Value;

/// The features of every build, beside those of its mode.
const FEATURES: &str = "foreign";

/// The runs over the unchanged driver: a program, and its environment variables for the driver.
const RUNS: [(&str, &[(&str, &str)]); 23] = [
    ("empty", &[]),
    ("empty", &[("MADEUP_PAGES", "0")]),
    ("empty", &[("MADEUP_POOLS", "0"), ("MADEUP_PINNED", "0")]),
    ("step", &[]),
    ("step", &[("MADEUP_POOLS", "0")]),
    ("threads", &[]),
    ("threads", &[("MADEUP_POOLS", "0")]),
    ("streams", &[]),
    ("no_context", &[]),
    ("other_stream", &[]),
    ("double_free", &[]),
    ("sync_pair", &[]),
    ("sync_pair", &[("MADEUP_POOLS", "0")]),
    ("oom", &[("MADEUP_BYTES", "67108864")]),
    ("exit", &[]),
    ("info", &[("MADEUP_BYTES", "268435456")]),
    ("no_place", &[]),
    ("sizes", &[]),
    ("adopted", &[]),
    ("own_library", &[]),
    ("placed", &[]),
    ("placed", &[("MADEUP_PINNED", "0")]),
    ("placed", &[("MADEUP_PAGES", "0"), ("MADEUP_POOLS", "0")]),
];

/// Programs of many rounds with several threads. They test orders of threads, which depend on optimization and not on the linker, and
/// take 20 s of a processor. So only optimized programs run them.
const RACES: [(&str, &[(&str, &str)]); 4] = [
    ("first_use", &[]),
    ("storm", &[]),
    ("storm", &[("MADEUP_POOLS", "0")]),
    ("storm", &[("MADEUP_BYTES", "16777216"), ("MADEUP_PATIENCE", "0")]),
];

/// A device so short of memory that streams claim memory which others still use.
const SHORT: &[(&str, &str)] = &[("MADEUP_BYTES", "16777216"), ("MADEUP_PATIENCE", "0")];
/// A device whose memory comes in chunks.
const CHUNKS: &[(&str, &str)] = &[("MADEUP_PAGES", "0")];

/// Far more than any program takes.
const LIMIT: Duration = Duration::from_secs(300);

/// How cudarc finds the driver.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Linked,
    Loaded,
}

/// A build of the programs.
#[derive(Clone, Copy, Debug)]
struct Build {
    mode: Mode,
    is_release: bool,
    /// The linker, if it is not the compiler's own choice.
    linker: Option<&'static str>,
}

fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("foreign")
}

/// The folder with the driver, under the names that linkers and loaders ask for.
fn driver() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| madeup::driver(&target()))
}

impl Build {
    /// Builds the programs, and returns their path.
    fn make(self) -> PathBuf {
        // Builds of two modes put their programs in the same place.
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mode = if self.mode == Mode::Linked { "linked" } else { "loaded" };
        let features = format!("{mode},{FEATURES}");
        let mut arguments = vec!["--features", &features];
        if self.is_release {
            arguments.push("--release");
        }
        let mut variables = vec![("FOREIGN_DRIVER", driver().as_os_str())];
        variables.extend(self.linker.map(|linker| ("FOREIGN_LINKER", OsStr::new(linker))));
        madeup::build("foreign/Cargo.toml", &target(), &arguments, variables);
        // The next build with other features puts its programs in the same place.
        let profile = if self.is_release { "release" } else { "debug" };
        let program = target().join(format!("{mode}-{profile}"));
        std::fs::copy(target().join(profile).join("foreign"), &program).unwrap();
        program
    }

    /// Builds the programs and runs each.
    fn test(self) {
        let program = self.make();
        let bytes = std::fs::read(&program).unwrap();
        let is_of_lld = bytes.windows(11).any(|window| window == b"Linker: LLD");
        assert!(self.linker.is_none() || !is_of_lld, "{self:?} is of the linker that was asked for");
        let races = if self.is_release { &RACES[..] } else { &[] };
        for (name, variables) in RUNS.iter().chain(races) {
            let start = Instant::now();
            let found = report(&run(&program, name, Some(driver()), variables));
            println!("{self:?} {name} {variables:?}: {found} in {:?}", start.elapsed());
        }
        self.test_without_driver(&program);
    }

    /// Without a driver, the program ends as a program of plain cudarc does.
    fn test_without_driver(self, program: &Path) {
        let output = run(program, "no_driver", None, &[]);
        let words = String::from_utf8_lossy(&output.stderr);
        if words.contains("there is a driver") {
            return println!("{self:?}: this machine has a driver");
        }
        match self.mode {
            Mode::Linked => assert!(!output.status.success() && words.contains("libcuda.so.1"), "{output:?}"),
            Mode::Loaded => {
                let message = report(&output)["message"].to_string();
                assert!(message.contains("Unable to dynamically load"), "{message}");
                assert!(message.contains("libcuda.so.1"), "{message}");
            }
        }
    }
}

/// Runs a program over the driver in a folder, or without a driver.
fn run(program: &Path, name: &str, driver: Option<&Path>, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(program);
    command.arg(name).envs(variables.iter().copied()).env_remove("LD_LIBRARY_PATH");
    if let Some(folder) = driver {
        command.env("LD_LIBRARY_PATH", folder);
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let start = Instant::now();
    // The program writes only a few lines. The pipes take them before anybody reads.
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > LIMIT {
            child.kill().unwrap();
            panic!("{name} does not end: {:?}", child.wait_with_output());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    child.wait_with_output().unwrap()
}

/// The output of a program, which is one JSON object.
fn report(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report.is_object(), "{report}");
    report
}

// The gate makes two builds, which differ in each choice. With the other three, each pair of choices is met.

#[test]
fn linked_and_optimized_as_a_whole() {
    Build { mode: Mode::Linked, is_release: true, linker: None }.test();
}

#[test]
fn loaded_without_optimization_by_another_linker() {
    Build { mode: Mode::Loaded, is_release: false, linker: Some("bfd") }.test();
}

#[test]
#[ignore = "`.ci/platforms` runs it"]
fn linked_without_optimization() {
    Build { mode: Mode::Linked, is_release: false, linker: None }.test();
}

#[test]
#[ignore = "`.ci/platforms` runs it"]
fn linked_and_optimized_as_a_whole_by_another_linker() {
    Build { mode: Mode::Linked, is_release: true, linker: Some("bfd") }.test();
}

#[test]
#[ignore = "`.ci/platforms` runs it"]
fn loaded_and_optimized_as_a_whole() {
    Build { mode: Mode::Loaded, is_release: true, linker: None }.test();
}

/// Runs a program that loads the driver of a folder.
fn loaded(name: &str, folder: &Path, variables: &[(&str, &str)]) {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let made = Build { mode: Mode::Loaded, is_release: false, linker: Some("bfd") }.make();
        let program = target().join("known-faults");
        std::fs::copy(made, &program).unwrap();
        program
    });
    println!("{name} {variables:?}: {}", report(&run(program, name, Some(folder), variables)));
}

#[test]
fn a_free_without_a_context_waits_or_is_refused() {
    loaded("host_without_context", driver(), &[]);
}

#[test]
fn the_current_context_stays() {
    loaded("current_context", driver(), &[]);
}

#[test]
fn memory_without_a_stream_is_idle_after_a_refusal() {
    loaded("host_refused", driver(), SHORT);
}

#[test]
fn memory_without_a_stream_is_idle_for_each_thread() {
    loaded("host_at_once", driver(), SHORT);
}

#[test]
fn a_stream_that_ends_unseen_keeps_its_memory_while_it_works() {
    loaded("unseen_end", driver(), &[]);
}

#[test]
fn work_of_a_thread_that_ends_keeps_its_memory() {
    loaded("thread_end", driver(), &[]);
}

#[test]
fn a_stream_is_destroyed_while_somebody_waits_for_it() {
    loaded("destroyed_meanwhile", driver(), &[]);
}

#[test]
fn a_second_free_does_not_reach_a_chunk() {
    loaded("double_free", driver(), CHUNKS);
}

#[test]
fn chunks_are_used_behind_their_allocation() {
    loaded("threads", driver(), CHUNKS);
    loaded("streams", driver(), CHUNKS);
}

/// `cuStreamGetId` came with CUDA 12.0.
#[test]
fn an_older_driver_serves() {
    let folder = madeup::driver_without(&target(), "cuStreamGetId");
    loaded("step", &folder, &[]);
    loaded("streams", &folder, &[]);
}
