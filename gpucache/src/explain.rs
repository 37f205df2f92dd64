//! For one measurement: where the time of moves goes. Not part of the library.
#![allow(missing_docs)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use crate::device::{Mark, Stream, mark};

static ON: AtomicBool = AtomicBool::new(false);

pub const NAMES: [&str; 20] = [
    "fetch", "fill", "note", "due", "make_room", "alloc", "alloc_miss", "gather", "soon", "insist", "copy_in", "copy_out",
    "evict", "bring", "follow", "layout", "watch", "lru", "writeback", "drop_here",
];
pub const FETCH: usize = 0;
pub const FILL: usize = 1;
pub const NOTE: usize = 2;
pub const DUE: usize = 3;
pub const MAKE_ROOM: usize = 4;
pub const ALLOC: usize = 5;
pub const ALLOC_MISS: usize = 6;
pub const GATHER: usize = 7;
pub const SOON: usize = 8;
pub const INSIST: usize = 9;
pub const COPY_IN: usize = 10;
pub const COPY_OUT: usize = 11;
pub const EVICT: usize = 12;
pub const BRING: usize = 13;
pub const FOLLOW: usize = 14;
pub const LAYOUT: usize = 15;
pub const WATCH: usize = 16;
pub const LRU: usize = 17;
pub const WRITEBACK: usize = 18;
pub const DROP_HERE: usize = 19;

static COUNTS: [AtomicU64; 20] = [const { AtomicU64::new(0) }; 20];
static NANOS: [AtomicU64; 20] = [const { AtomicU64::new(0) }; 20];
static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());
static REFERENCE: Mutex<Option<Box<dyn Mark>>> = Mutex::new(None);

pub fn turn_on(on: bool) {
    ON.store(on, Relaxed);
}

pub fn is_on() -> bool {
    ON.load(Relaxed)
}

#[inline(always)]
pub fn timed<R>(kind: usize, act: impl FnOnce() -> R) -> R {
    if !is_on() {
        return act();
    }
    let begun = Instant::now();
    let answer = act();
    COUNTS[kind].fetch_add(1, Relaxed);
    NANOS[kind].fetch_add(begun.elapsed().as_nanos() as u64, Relaxed);
    answer
}

/// Count and nanoseconds of each kind so far.
pub fn counts() -> [(u64, u64); 20] {
    std::array::from_fn(|kind| (COUNTS[kind].load(Relaxed), NANOS[kind].load(Relaxed)))
}

pub fn host_us() -> f64 {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    BEGUN.get_or_init(Instant::now).elapsed().as_secs_f64() * 1e6
}

pub fn log(line: impl FnOnce() -> String) {
    if is_on() {
        LOG.lock().unwrap_or_else(PoisonError::into_inner).push(line());
    }
}

pub fn take_log() -> Vec<String> {
    std::mem::take(&mut *LOG.lock().unwrap_or_else(PoisonError::into_inner))
}

pub(crate) fn refer_to(stream: &Stream) {
    let mut reference = REFERENCE.lock().unwrap_or_else(PoisonError::into_inner);
    if is_on() && reference.is_none() {
        *reference = mark(stream);
        let at = host_us();
        drop(reference);
        log(|| format!("R {at:.1}"));
    }
}

pub fn restart() {
    *REFERENCE.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Microseconds from the reference to a mark.
pub(crate) fn at(mark: &dyn Mark) -> f64 {
    let reference = REFERENCE.lock().unwrap_or_else(PoisonError::into_inner);
    let since = reference.as_ref().and_then(|reference| mark.since(&**reference).ok().flatten());
    since.map_or(-1.0, |since| since.as_secs_f64() * 1e6)
}
