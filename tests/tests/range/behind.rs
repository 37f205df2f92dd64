//! A device that is behind its host: earlier work may still use free memory, so its pages cannot move yet. A range that grew by as much
//! instead would stay as large.
#![allow(unsafe_code)]

use std::any::Any;
use std::ptr::from_ref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use gpucache::device::backend::{Backend, Event, Memory, Stream, VirtualMemory};
use gpucache::prelude::*;
use gpucache::{Result, Scope};
use gpucache_tests::turn;

const PAGE: u64 = 2 << 20;

/// A handle of a device without memory behind its addresses. An event answers so many queries with no before it is complete.
#[derive(Clone, Debug)]
#[repr(transparent)]
struct Behind(Stream);

#[derive(Debug)]
struct Addresses(u64);

#[derive(Debug)]
struct LateEvent(AtomicU64);

impl Behind {
    fn by(queries: u64) -> Behind {
        // SAFETY: nobody dereferences the addresses.
        Behind(unsafe { Stream::new(Memory::with_pages(Addresses(queries)).into(), Addresses(queries)) })
    }
}

// SAFETY: a transparent struct around a `Stream`, which both methods return unchanged.
unsafe impl Device for Behind {
    fn stream_handle(&self) -> &Stream {
        &self.0
    }

    unsafe fn from_stream_handle(stream: &Stream) -> &Behind {
        // SAFETY: the caller's stream belongs to a `Behind`, which is a transparent struct around one.
        unsafe { &*from_ref(stream).cast() }
    }
}

// SAFETY: nobody dereferences the addresses.
unsafe impl VirtualMemory for Addresses {
    fn granularity(&self) -> u64 {
        PAGE
    }

    fn reserve(&self) -> Result<(u64, u64)> {
        Ok((1 << 40, 1 << 46))
    }

    fn map(&self, _: u64, _: u64) -> Result<()> {
        Ok(())
    }

    unsafe fn unmap(&self, _: u64, _: u64) -> Result<()> {
        Ok(())
    }
}

// SAFETY: nothing is done with memory, so it does not matter when an event says that it is complete.
unsafe impl Event for LateEvent {
    fn is_complete(&self) -> Result<bool> {
        Ok(self.0.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_err())
    }
}

// SAFETY: nothing is done with memory.
unsafe impl Backend for Addresses {
    fn allocate(&self, bytes: usize) -> Result<u64> {
        Err(gpucache::Error::out_of_memory("the device", bytes, "it has pages alone"))
    }

    unsafe fn free(&self, _: u64, _: usize) -> Result<()> {
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

    fn new_event(&self) -> Result<Arc<dyn Event>> {
        Ok(Arc::new(LateEvent(AtomicU64::new(0))))
    }

    fn record(&self, event: &dyn Event) -> Result<()> {
        let event: &dyn Any = event;
        let LateEvent(left) = event.downcast_ref().unwrap();
        left.store(self.0, SeqCst);
        Ok(())
    }
}

/// The most pages that a training reserved. Each step has up to four batches of up to six lengths.
fn train(name: &str, queries: u64, seed: u64) -> u64 {
    let (device, scope) = (Behind::by(queries), Scope::new(name));
    let mut random = fastrand::Rng::with_seed(seed);
    let array = |pages: u64| Array::<u8, _>::zeros(&device, (pages * PAGE) as usize).unwrap();
    for _ in 0..60 {
        let _inside = scope.enter();
        let mut gradients = Vec::new();
        for _ in 0..random.u64(1..5) {
            let length = random.u64(1..7);
            let mut kept: Vec<_> = (0..12).map(|layer| array(length * (1 + layer % 5))).collect();
            while let Some(activations) = kept.pop() {
                if gradients.len() < 12 {
                    gradients.push(array(3));
                }
                drop(activations);
            }
        }
    }
    device.memory().peak_bytes / PAGE
}

/// An arena that comes back while the step before still runs finds its pages in use. Grown ranges reserved 1.03 times as much as without
/// delay, on average.
#[test]
fn a_range_waits_rather_than_grow() {
    let _turn = turn();
    let reserved = |queries: u64| -> u64 {
        (0..10).map(|seed| train(&format!("behind by {queries}, seed {seed}"), queries, seed)).sum()
    };
    let at_once = reserved(0);
    for queries in [1, 3, 10] {
        let late = reserved(queries);
        assert!(late * 100 <= at_once * 101, "{late} pages with {queries} queries, {at_once} without");
    }
}
