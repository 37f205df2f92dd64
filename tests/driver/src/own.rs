//! The functions for tests that no real driver has: how often a function was called, streams that sleep, and
//! calls that fail.

use std::time::Duration;

use crate::answer::{self, Status, Text, answer};
use crate::{fails, streams};

/// How often the driver's function of this name was called.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn madeup_calls(name: Text) -> u64 {
    name.read().map_or(0, answer::calls)
}

/// Lets a stream sleep, after its present work.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn madeup_delay(stream: usize, milliseconds: u64) -> Status {
    answer("madeup_delay", || {
        streams::submit(stream, move || std::thread::sleep(Duration::from_millis(milliseconds))).map(drop)
    })
}

/// Lets calls of a function fail: of its calls from now on, the first `after` go as usual, and the next `times` only return `status`
/// (`u64::MAX`: all of them). It replaces the function's previous rule. With `times` 0, no call fails.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn madeup_fail(name: Text, after: u64, times: u64, status: u32) -> Status {
    match name.read() {
        None => Status::INVALID_VALUE,
        Some(name) => {
            fails::set(name, after, times, Status(status));
            Status::SUCCESS
        }
    }
}
