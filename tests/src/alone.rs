//! Runs tests in processes of their own, so that a lost context, a hang or a crash affects only one test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Set in a process that runs one test.
const CHILD: &str = "GPUCACHE_TEST_ALONE";
/// The exit status of a process whose test finished. A process that ran no test has another status.
const DONE: i32 = 42;

/// The bytes of the made-up driver's device. Few, since the driver writes all requested memory, and shortages take their time.
const BYTES: &str = "268435456";

/// Builds a driver, and returns its folder.
pub type Driver = fn(&Path) -> PathBuf;

/// Runs the closure of a test in a process of its own. Fails if the closure does not finish within `seconds`. From its start, the
/// process has the driver that [`gpu::device`](crate::gpu::device) finds.
///
/// The closure must be written in the test itself: its name begins with the test's path.
///
/// # Panics
/// If the test fails or hangs.
pub fn alone<F: FnOnce()>(seconds: u64, body: F) {
    run::<F>(seconds, body, crate::madeup::folder_unless_there_is_another);
}

/// As [`alone`], but always over this made-up driver.
///
/// # Panics
/// As [`alone`].
pub fn alone_over<F: FnOnce()>(driver: Driver, seconds: u64, body: F) {
    run::<F>(seconds, body, || Some(driver(&crate::madeup::target())));
}

fn run<F: FnOnce()>(seconds: u64, body: F, driver: impl FnOnce() -> Option<PathBuf>) {
    if std::env::var_os(CHILD).is_some() {
        body();
        std::process::exit(DONE);
    }
    let path = std::any::type_name::<F>().trim_end_matches("::{{closure}}");
    let name = path.split_once("::").map_or(path, |(_, name)| name);
    let mut command = Command::new(std::env::current_exe().expect("the program has a path"));
    command.args([name, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"]).env(CHILD, "1");
    let driver = driver();
    // Each process has its own made-up device, but all share a real one.
    let _turn = driver.is_none().then(crate::turn);
    if let Some(folder) = driver {
        command.env("LD_LIBRARY_PATH", folder).env("MADEUP_BYTES", BYTES);
    }
    let mut child = command.spawn().expect("the program starts");
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(seconds) {
        if let Some(status) = child.try_wait().expect("the process is ours") {
            assert_eq!(status.code(), Some(DONE), "{name}: {status}");
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().expect("the process is ours");
    child.wait().expect("the process is ours");
    panic!("{name} HANGS: it has not ended after {seconds} s");
}
