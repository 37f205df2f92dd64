//! Placed arrays that come and go. The device's queues for copies stay, so a program that makes one placed array after the other starts no
//! threads again and again. In a process of its own, since threads are counted.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use gpucache::offload::{Placed, Placement};
use gpucache::prelude::*;

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn one_placed_array_after_the_other() {
    let host = Host::new_stream().unwrap();
    let mut most = 0;
    for _ in 0..1000 {
        let placed = Placed::<u8, _>::zeros(&host, 10_000).unwrap();
        placed.set_placement(Placement::Host).unwrap();
        drop(placed.fetch().unwrap());
        drop(placed);
        most = most.max(threads());
    }
    // The test's own threads, the stream's, and that of each queue for copies.
    assert!(most <= 8, "{most} threads");
}
