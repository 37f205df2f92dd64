//! The functions for tests that no real driver has: how often a function was called, and streams that sleep.

use std::time::Duration;

use crate::answer::{self, Status, Text, answer};
use crate::streams;

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
