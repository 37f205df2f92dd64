//! Models of what threads do with one cache at once, run by loom in every order that differs: the code is that of the
//! caches, over contents as plain as can be.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p gpucache --lib home::interleavings`, with `LOOM_MAX_PREEMPTIONS=2`: with 3,
//! those of three threads do not end within three minutes. What loom cannot see: an exchange always meets the newest value,
//! so that a weaker ordering of an exchange shows only by what the other side then misses.

mod hold;
mod lease;
mod returns;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use loom::cell::UnsafeCell;

use super::returns::Node;

/// A node that tells the model whenever it is touched, and counts those that are there.
struct Marked {
    mark: u64,
    next: *mut Marked,
    touched: UnsafeCell<()>,
    alive: Arc<AtomicUsize>,
}

// SAFETY: a node is owned by one thread, or by a stack, which hands it to one.
#[allow(unsafe_code)]
unsafe impl Send for Marked {}

impl Marked {
    fn new(mark: u64, alive: &Arc<AtomicUsize>) -> Box<Marked> {
        alive.fetch_add(1, Relaxed);
        Box::new(Marked { mark, next: std::ptr::null_mut(), touched: UnsafeCell::new(()), alive: Arc::clone(alive) })
    }
}

impl Node for Marked {
    fn next(&mut self) -> &mut *mut Marked {
        self.touched.with_mut(|_| ());
        &mut self.next
    }

    fn bytes(&self) -> usize {
        1
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        self.touched.with_mut(|_| ());
        self.alive.fetch_sub(1, Relaxed);
    }
}

fn sorted(mut marks: Vec<u64>) -> Vec<u64> {
    marks.sort_unstable();
    marks
}
