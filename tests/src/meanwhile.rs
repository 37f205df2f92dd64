//! Another thread that disturbs scopes while they are in use.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use gpucache::{Scope, diagnose, invalidate, invalidate_all, stats, trace};

use crate::play::Checked;

/// Tells other threads to end when it is dropped, also in a panic. A scope of threads would otherwise wait for them for ever.
pub struct End<'a>(pub &'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Calls `play` while another thread calls `act` again and again, with a random number each time.
///
/// # Panics
/// As both do.
pub fn beside(rng: &mut Rng, act: impl Fn(u64) + Sync, play: impl FnOnce()) {
    let (is_over, mut own) = (AtomicBool::new(false), Rng::with_seed(rng.u64(..)));
    thread::scope(|threads| {
        threads.spawn(|| {
            while !is_over.load(SeqCst) {
                act(own.u64(..));
                if own.bool() {
                    thread::sleep(Duration::from_micros(own.u64(1..300)));
                }
            }
        });
        let _end = End(&is_over);
        play();
    });
}

/// Invalidates and looks at a scope, and frees memory of a device.
pub fn disturb<D: Checked>(device: &D, names: &[String], number: u64) {
    let name = &names[(number / 32) as usize % names.len()];
    match number % 32 {
        0 => _ = invalidate(name),
        1 => _ = invalidate_all(),
        2..=5 => _ = stats::reset_peaks(name),
        6..=9 => _ = device.trim(),
        10..=14 => _ = stats(name).map(|stats| stats.to_string()),
        15..=18 => _ = diagnose(name).map(|diagnosis| diagnosis.to_string()),
        19 => trace::start(1000),
        20 => _ = trace::stop(),
        // The other thread needs memory at the same time.
        21..=24 => _ = device.make((number / 64) as usize % (1 << 18), 7).map(drop),
        25..=28 => _ = Scope::new(name).run(|| device.make((number / 64) as usize % (1 << 18), 7).map(drop)),
        _ => {}
    }
}
