//! Models of several threads that use one cache at once. loom runs them in every order of events that makes a difference. The
//! models use the code of the caches over the simplest possible contents.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p gpucache-engine --lib home::tests`, with `LOOM_MAX_PREEMPTIONS=2`: with
//! 3, the models of three threads do not end within three minutes. In loom, an exchange always sees the newest value. So a weaker
//! ordering of an exchange shows only if the other side then misses something.

mod hold;
mod lease;
mod returns;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use loom::cell::UnsafeCell;

use super::returns::Linked;

/// A node that reports each touch to loom, and counts the nodes that are alive.
struct Marked {
    mark: u64,
    next: *mut Marked,
    touched: UnsafeCell<()>,
    alive: Arc<AtomicUsize>,
}

// SAFETY: a node is owned by one thread, or by a stack, which hands it to one thread.
#[allow(unsafe_code)]
unsafe impl Send for Marked {}

impl Marked {
    fn new(mark: u64, alive: &Arc<AtomicUsize>) -> Box<Marked> {
        alive.fetch_add(1, Relaxed);
        Box::new(Marked { mark, next: std::ptr::null_mut(), touched: UnsafeCell::new(()), alive: Arc::clone(alive) })
    }
}

impl Linked for Marked {
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
