//! An allocator that counts the heap calls of each thread, so neither the test harness nor another test disturbs. A program that counts
//! sets it as its own: `#[global_allocator] static COUNTING: Counting = Counting;`.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator with counters.
pub struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static FREES: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<u64> = const { Cell::new(0) };
}

// At the end of a thread the cells no longer exist, and nobody reads them.
fn count_allocation(bytes: usize) {
    let _ = ALLOCATIONS.try_with(|number| number.set(number.get() + 1));
    let _ = BYTES.try_with(|held| held.set(held.get().wrapping_add(bytes as u64)));
}

fn count_free(bytes: usize) {
    let _ = FREES.try_with(|number| number.set(number.get() + 1));
    let _ = BYTES.try_with(|held| held.set(held.get().wrapping_sub(bytes as u64)));
}

// SAFETY: all calls go to the system's allocator, with the same arguments and the same contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_allocation(layout.size());
        // SAFETY: the caller's contract for `alloc` is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_allocation(layout.size());
        // SAFETY: the caller's contract for `alloc_zeroed` is the system's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_allocation(size);
        let _ = BYTES.try_with(|held| held.set(held.get().wrapping_sub(layout.size() as u64)));
        // SAFETY: the caller's contract for `realloc` is the system's.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count_free(layout.size());
        // SAFETY: the caller's contract for `dealloc` is the system's.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// The number of this thread's allocations so far; 0 if the program uses another allocator.
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// The number of this thread's frees so far.
pub fn frees() -> u64 {
    FREES.get()
}

/// The bytes that this thread allocated and did not free, minus those that it freed for others.
pub fn held_bytes() -> i64 {
    BYTES.get() as i64
}

/// How many allocations `act` makes on this thread.
pub fn allocations_of(act: impl FnOnce()) -> u64 {
    let before = allocations();
    act();
    allocations() - before
}
