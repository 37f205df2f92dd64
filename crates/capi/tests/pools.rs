//! Pools of graphs that end, and the memory that others get then.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Barrier, Mutex};

use gpucache_capi::{allocate, free, pool_begin, pool_end, pool_release, set_limit};

/// The host.
const DEVICE: i32 = -1;

/// One test at a time: an open pool serves all requests for the host.
static TURN: Mutex<()> = Mutex::new(());

/// The filter of a pool is code of the framework, and runs while no lock is held. So the pool may end meanwhile.
#[test]
fn a_request_is_served_although_its_pool_ends_meanwhile() {
    let _turn = TURN.lock();
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

/// The second pool's stream gets the slot of the first one's, which has ended.
#[test]
fn a_pool_reserves_no_memory_of_an_earlier_pool() {
    const MIB: usize = 1 << 20;
    let _turn = TURN.lock();
    set_limit(DEVICE, "96MiB").unwrap();
    pool_begin(DEVICE, (2, 1), Box::new(|_| true)).unwrap();
    let large = allocate(64 * MIB, DEVICE, 0).unwrap();
    pool_end(DEVICE, (2, 1)).unwrap();
    free(large).unwrap();
    pool_release(DEVICE, (2, 1)).unwrap();
    pool_begin(DEVICE, (2, 2), Box::new(|_| true)).unwrap();
    let small = allocate(4096, DEVICE, 0).unwrap();
    pool_end(DEVICE, (2, 2)).unwrap();
    free(small).unwrap();
    free(allocate(60 * MIB, DEVICE, 0).unwrap()).unwrap();
    pool_release(DEVICE, (2, 2)).unwrap();
}
