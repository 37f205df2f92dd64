//! Streams that come and go although the program needs no new memory. In a process of its own, since threads are counted.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::thread::sleep;
use std::time::{Duration, Instant};

use gpucache::prelude::*;

/// The threads of this process that do the work of a stream. Linux keeps the first 15 bytes of a thread's name.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    // A thread may end between the two calls.
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("gpucache host s")).count()
}

/// A server makes a stream for each task. It keeps few of those whose work is done.
#[test]
fn streams_end_although_nothing_is_allocated() {
    let stays = Host::new_stream().unwrap();
    let array = Array::full(&stays, 1000, 1u8).unwrap();
    for _ in 0..200 {
        let reader = Host::new_stream().unwrap();
        reader.launch(&array, |_| ()).unwrap();
        reader.synchronize().unwrap();
    }
    // The array forgets readers whose work is done when it has 8 readers, and when it has 16 if that was too early. A new stream ends the
    // others that nobody remembers. So at most 15 readers stay, the last stream, and the array's own.
    let wait = Instant::now();
    while threads() > 17 && wait.elapsed() < Duration::from_secs(10) {
        sleep(Duration::from_millis(1));
    }
    assert!(threads() <= 17, "{} threads", threads());
}
