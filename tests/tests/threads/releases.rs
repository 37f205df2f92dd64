//! Arrays that other threads drop while a thread releases others.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr::from_ref;
use std::sync::{Arc, Mutex};

use gpucache::device::backend::{Backend, Memory, Stream};
use gpucache::prelude::*;
use gpucache::{Result, Scope, invalidate};

/// A handle of a device without memory. Whenever it frees a block, another thread drops the next array.
#[derive(Clone, Debug)]
#[repr(transparent)]
struct Chain(Stream);

/// The arrays to drop, and where the stack was at each free.
#[derive(Clone, Default)]
struct Links {
    arrays: Arc<Mutex<Vec<Array<u8, Chain>>>>,
    places: Arc<Mutex<Vec<usize>>>,
}

impl fmt::Debug for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Links")
    }
}

// SAFETY: a transparent struct around a `Stream`, which both methods return unchanged.
unsafe impl Device for Chain {
    fn stream_handle(&self) -> &Stream {
        &self.0
    }

    unsafe fn from_stream_handle(stream: &Stream) -> &Chain {
        // SAFETY: the caller's stream belongs to a `Chain`, which is a transparent struct around one.
        unsafe { &*from_ref(stream).cast() }
    }
}

// SAFETY: nothing is done with memory.
unsafe impl Backend for Links {
    fn allocate(&self, _: usize) -> Result<u64> {
        Ok(1 << 40)
    }

    unsafe fn free(&self, _: u64, _: usize) -> Result<()> {
        let here = 0u8;
        self.places.lock().unwrap().push(from_ref(&here).addr());
        let next = self.arrays.lock().unwrap().pop();
        std::thread::spawn(|| drop(next)).join().unwrap();
        Ok(())
    }

    unsafe fn fill(&self, _: u64, _: usize, _: &[u8]) -> Result<()> {
        Ok(())
    }

    unsafe fn write(&self, _: *const u8, _: u64, _: usize) -> Result<()> {
        Ok(())
    }

    unsafe fn read(&self, _: u64, _: *mut u8, _: usize) -> Result<()> {
        Ok(())
    }

    unsafe fn copy(&self, _: u64, _: u64, _: usize) -> Result<()> {
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn releases_of_returned_arrays_need_no_more_stack() {
    let (links, scope) = (Links::default(), Scope::new("a chain of releases"));
    // SAFETY: there is no memory.
    let device = Chain(unsafe { Stream::new(Arc::new(Memory::default()), links.clone()) });
    let inside = scope.enter();
    let new = || Array::<u8, _>::zeros(&device, 4096).unwrap();
    let first = new();
    *links.arrays.lock().unwrap() = (0..100).map(|_| new()).collect();
    std::thread::spawn(|| {
        invalidate("a chain of releases");
        drop(first);
    })
    .join()
    .unwrap();
    drop(inside);
    let places = links.places.lock().unwrap();
    let grown = places.iter().max().unwrap() - places.iter().min().unwrap();
    assert_eq!(places.len(), 101);
    assert!(grown < 4096, "the stack grew by {grown} bytes");
}
