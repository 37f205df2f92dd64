//! Properties of the test's process: its size, and numbers from its environment.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// The resident bytes of the process, if the system reports them.
pub fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    kibibytes(&status, "VmRSS:")
}

/// A line of the machine's memory figures, in bytes, if the system reports it.
pub fn of_machine(line: &str) -> Option<u64> {
    kibibytes(&std::fs::read_to_string("/proc/meminfo").ok()?, line)
}

fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(1024 * line.split_whitespace().next()?.parse::<u64>().ok()?)
}

/// The number in this environment variable.
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The median.
///
/// # Panics
/// If there is no time.
pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Runs a test that depends on the clock, again if it fails, up to `tries` times. Other programs of the machine may take the processor from
/// one attempt, and a defect fails all of them. The test itself must cope with the state that an attempt leaves behind.
///
/// # Panics
/// As the last attempt does.
pub fn in_one_of<R>(tries: u32, mut test: impl FnMut() -> R) -> R {
    for number in 1..tries {
        match catch_unwind(AssertUnwindSafe(&mut test)) {
            Ok(result) => return result,
            Err(_) => eprintln!("try {number} of {tries} fails"),
        }
    }
    test()
}
