//! The times of an allocation with its free, and of an entry of a scope with its exit, through the interface for frameworks, on the host: best
//! of many steps, in nanoseconds.

use std::time::Instant;

/// Allocations of a step. All live at once, and are freed in the order in which they were allocated.
const PAIRS: usize = 200;
const STEPS: usize = 2000;

fn step(live: &mut Vec<u64>, mixed: bool) {
    for place in 0..PAIRS {
        let bytes = if mixed { 512 << (place % 12) } else { 4096 };
        live.extend(gpucache_capi::allocate(bytes, -1, 0));
        if place % 8 == 7 {
            live.drain(..).for_each(|address| assert!(gpucache_capi::free(address).is_ok()));
        }
    }
}

/// The best time of a pair.
fn best(mixed: bool, scope: Option<&str>) -> f64 {
    let mut live = Vec::with_capacity(PAIRS);
    let times = (0..STEPS).map(|_| {
        let entry = scope.map(gpucache_capi::enter);
        let begin = Instant::now();
        step(&mut live, mixed);
        let time = begin.elapsed();
        entry.into_iter().flatten().for_each(|entry| assert!(gpucache_capi::leave(entry).is_ok()));
        time
    });
    times.min().unwrap_or_default().as_nanos() as f64 / PAIRS as f64
}

/// The best time of an entry with its exit.
fn best_entry() -> f64 {
    let enter_and_leave = || assert!(gpucache_capi::enter("entry").and_then(gpucache_capi::leave).is_ok());
    let times = (0..STEPS).map(|_| {
        let begin = Instant::now();
        (0..PAIRS).for_each(|_| enter_and_leave());
        begin.elapsed()
    });
    times.min().unwrap_or_default().as_nanos() as f64 / PAIRS as f64
}

fn main() {
    println!("an entry: {:.1}", best_entry());
    for (name, mixed) in [("one size", false), ("mixed sizes", true)] {
        println!("{name}, scope: {:.1}", best(mixed, Some(name)));
        println!("{name}, auto: {:.1}", best(mixed, None));
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(move || best(mixed, None))).collect();
        let times: Vec<f64> = threads.into_iter().flat_map(std::thread::JoinHandle::join).collect();
        println!("{name}, auto, 4 threads: {:.1}", times.iter().sum::<f64>() / times.len() as f64);
    }
}
