//! An allocator that counts the calls of each thread to the host's heap, so that neither the test harness nor another test disturbs
//! the counts. A program that counts declares it as its own: `#[global_allocator] static COUNTING: Counting = Counting;`.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, with counts.
pub struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static FREES: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<u64> = const { Cell::new(0) };
}

// At the end of a thread the cells are gone. Nobody asks for them then.
fn count_allocation(bytes: usize) {
    let _ = ALLOCATIONS.try_with(|number| number.set(number.get() + 1));
    let _ = BYTES.try_with(|held| held.set(held.get().wrapping_add(bytes as u64)));
}

fn count_free(bytes: usize) {
    let _ = FREES.try_with(|number| number.set(number.get() + 1));
    let _ = BYTES.try_with(|held| held.set(held.get().wrapping_sub(bytes as u64)));
}

// SAFETY: all calls go to the system's allocator, with the same arguments and under the same contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_allocation(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_allocation(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_allocation(size);
        let _ = BYTES.try_with(|held| held.set(held.get().wrapping_sub(layout.size() as u64)));
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count_free(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// How many allocations this thread has made so far; 0 if the program has another allocator.
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// How many times this thread has freed memory so far.
pub fn frees() -> u64 {
    FREES.get()
}

/// The bytes that this thread allocated and did not free, minus those that it freed for other threads.
pub fn held_bytes() -> i64 {
    BYTES.get() as i64
}

/// How many allocations `act` makes on this thread.
pub fn allocations_of(act: impl FnOnce()) -> u64 {
    let before = allocations();
    act();
    allocations() - before
}
