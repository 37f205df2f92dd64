//! An allocator that counts what each thread does on the host's heap, so that neither the test harness nor a test beside
//! disturbs. A program that counts makes it its own: `#[global_allocator] static COUNTING: Counting = Counting;`.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counted.
pub struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static FREES: Cell<u64> = const { Cell::new(0) };
}

fn count(counter: &'static std::thread::LocalKey<Cell<u64>>) {
    // Not there any more at the end of a thread, when nobody asks.
    let _ = counter.try_with(|number| number.set(number.get() + 1));
}

// SAFETY: all calls go to the system's allocator, with the arguments and the contract they came with.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(&ALLOCATIONS);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(&ALLOCATIONS);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(&ALLOCATIONS);
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(&FREES);
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// How often this thread allocated so far; 0 where the allocator is another one.
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// How often this thread freed so far.
pub fn frees() -> u64 {
    FREES.get()
}

/// How many allocations `act` makes on this thread.
pub fn allocations_of(act: impl FnOnce()) -> u64 {
    let before = allocations();
    act();
    allocations() - before
}
