//! Facts about the test's own process: its size, and numbers from its environment.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// The bytes of the process in memory, if the system reports them.
pub fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    kibibytes(&status, "VmRSS:")
}

/// A line of the machine's memory statistics, in bytes, if the system reports it.
pub fn of_machine(line: &str) -> Option<u64> {
    kibibytes(&std::fs::read_to_string("/proc/meminfo").ok()?, line)
}

fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(1024 * line.split_whitespace().next()?.parse::<u64>().ok()?)
}

/// The number in the environment variable of this name.
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The median.
///
/// # Panics
/// If there are no times.
pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Runs a test that depends on the clock, and repeats it up to `tries` times if it fails. Other programs may take the processor
/// from one try, but a mistake fails all tries. The test itself must cope with the effects of an earlier try.
///
/// # Panics
/// As the last try does.
pub fn in_one_of<R>(tries: u32, mut test: impl FnMut() -> R) -> R {
    for number in 1..tries {
        match catch_unwind(AssertUnwindSafe(&mut test)) {
            Ok(result) => return result,
            Err(_) => eprintln!("try {number} of {tries} fails"),
        }
    }
    test()
}
