//! What tests ask of the process they run in: its size, and numbers from its environment.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Bytes of the process in memory, where the system tells.
pub fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    kibibytes(&status, "VmRSS:")
}

/// A line of the machine's account of its memory, in bytes, where the system tells.
pub fn of_machine(line: &str) -> Option<u64> {
    kibibytes(&std::fs::read_to_string("/proc/meminfo").ok()?, line)
}

fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(1024 * line.split_whitespace().next()?.parse::<u64>().ok()?)
}

/// A number that the environment gives under this name.
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The one in the middle.
///
/// # Panics
/// If there is none.
pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Runs a test that goes by the clock, again if it fails, up to so many times: other programs of the machine may take the processor from
/// one try, and a mistake fails all of them. What a try leaves behind is for the test to tell from what it does.
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
