//! Pools of graphs that end while another thread asks for memory.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Barrier};

use gpucache_capi::{allocate, free, pool_begin, pool_end, pool_release};

/// The host.
const DEVICE: i32 = -1;

/// The filter of a pool is code of the framework, and runs while no lock is held. So the pool may end meanwhile.
#[test]
fn a_request_is_served_although_its_pool_ends_meanwhile() {
    let (asked, over) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let waits = (asked.clone(), over.clone());
    let serves = move |_| {
        waits.0.wait();
        waits.1.wait();
        true
    };
    pool_begin(DEVICE, (1, 1), Box::new(serves)).unwrap();
    std::thread::scope(|threads| {
        let request = threads.spawn(|| allocate(4096, DEVICE, 0).and_then(free));
        asked.wait();
        pool_end(DEVICE, (1, 1)).unwrap();
        pool_release(DEVICE, (1, 1)).unwrap();
        over.wait();
        request.join().unwrap().unwrap();
    });
}
