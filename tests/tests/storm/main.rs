//! A test with threads that come and go. They enter shared and own scopes of all kinds. They allocate on the host, on its streams
//! and on a device of addresses. They write, check, reshape, copy, lend, hand on and drop arrays, and meanwhile invalidate, trim
//! and read statistics.
//!
//! The machine decides which threads meet. Every element is checked whenever an array goes, and the device of addresses checks
//! every block. At the end nothing may be in use, and all memory must go back. This is all that the test itself can see; it is made
//! for the sanitizers, which see more (`tests/sanitize.sh`). `STORM_SECONDS` sets how long the test takes, and `STORM_SEED` what
//! the threads do.
#![allow(clippy::unwrap_used)]

mod life;
mod load;

use std::sync::atomic::AtomicU32;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use gpucache::Recycle;
use gpucache::device::{Device, Virtual};
use gpucache::prelude::Host;
use gpucache::{invalidate_all, stats};

use life::Life;
use load::Load;

const KINDS: [Recycle; 4] = [Recycle::Auto, Recycle::Range, Recycle::Keyed, Recycle::Off];
/// The number of threads at one time, and of streams that all of them use.
const THREADS: usize = 6;
const STREAMS: usize = 3;

/// The values that the threads share.
struct Storm {
    host: Host,
    streams: Vec<Host>,
    device: Virtual,
    inboxes: Vec<Sender<Load>>,
    /// Gives each array a different mark.
    marks: AtomicU32,
    end: Instant,
}

impl Storm {
    /// The name of a scope of a kind: one for all threads, or one for a place.
    fn name(kind: usize, place: Option<usize>) -> String {
        format!("storm {kind} {place:?}")
    }

    /// Runs one thread after the other in the same place. Each goes on with the caches of a thread that ended.
    fn lives(&self, place: usize, seed: u64, mut inbox: Receiver<Load>) -> Receiver<Load> {
        let mut seeds = fastrand::Rng::with_seed(seed ^ place as u64);
        while Instant::now() < self.end {
            let (seed, inbox) = (seeds.u64(..), &mut inbox);
            // A scope of threads does not wait for the end of their thread-locals, but a join does.
            thread::scope(|threads| threads.spawn(move || Life::run(self, place, seed, inbox)).join().unwrap())
                .unwrap();
        }
        inbox
    }

    /// Checks that nothing is in use any more, and that all memory goes back.
    fn check_end(&self) {
        self.streams.iter().for_each(|stream| stream.synchronize().unwrap());
        for (kind, place) in (0..KINDS.len()).flat_map(|kind| (0..=THREADS).map(move |place| (kind, place))) {
            let name = Storm::name(kind, place.checked_sub(1));
            let found = stats(&name).unwrap_or_default();
            assert_eq!((found.busy_blocks, found.busy_bytes), (0, 0), "{name}");
        }
        let _ = invalidate_all();
        assert_emptied(&self.device);
        assert_emptied(&self.host);
        // Streams without a handle may still have work to do.
        assert_emptied(&self.streams[0]);
        self.device.synchronize().unwrap();
    }
}

/// Trims until the device has everything back. This may take as long as late work does.
fn assert_emptied<D: Device>(device: &D) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while device.memory().bytes > 0 {
        assert!(Instant::now() < deadline, "{device:?} has {:?}", device.memory());
        device.trim();
        thread::yield_now();
    }
}

/// A number from the environment.
fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|number| number.parse().ok())
}

#[test]
fn a_storm() {
    let (inboxes, outlets): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| channel()).unzip();
    let streams = (0..STREAMS).map(|_| Host::new_stream().unwrap()).collect();
    let (seconds, seed) = (asked("STORM_SECONDS").unwrap_or(2), asked("STORM_SEED").unwrap_or(1));
    let (marks, end) = (AtomicU32::new(0), Instant::now() + Duration::from_secs(seconds));
    let storm = Storm { host: Host::new(), streams, device: Virtual::new(1 << 40), inboxes, marks, end };
    let left: Vec<Receiver<Load>> = thread::scope(|threads| {
        let storm = &storm;
        let places = (0..).zip(outlets).map(|(place, inbox)| threads.spawn(move || storm.lives(place, seed, inbox)));
        // All threads start before the test waits for the first.
        let places: Vec<_> = places.collect();
        places.into_iter().map(|place| place.join().unwrap()).collect()
    });
    left.iter().flat_map(Receiver::try_iter).for_each(|load| load.check());
    drop(left);
    storm.check_end();
}
