//! How a program allocates: its arrays on the virtual device, its steps, and the counts of both.
//!
//! A program may have several threads. They work in turns (`turn.rs`), so all counts are the same in each run.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gpucache::Scope;
use gpucache::device::Virtual;
use gpucache::prelude::*;

use crate::turn::Turn;

/// Live bytes count each array as a multiple of this: the alignment of arrays in GPU memory.
const GRANULE: u64 = 256;

/// Allocates the arrays of a program, and counts them. All clones have the same counts.
#[derive(Clone, Debug)]
pub(crate) struct Tape(Arc<Memory>);

#[derive(Debug)]
struct Memory {
    /// Without a device, only live bytes are counted.
    device: Option<Virtual>,
    /// Whether steps are entries of scopes.
    is_scoped: bool,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    live_bytes: u64,
    allocations: u64,
    failed: u64,
    /// Peaks since the last step ended.
    peak_live_bytes: u64,
    peak_reserved_bytes: u64,
    steps: Vec<Step>,
    /// The first error that is no lack of memory.
    error: Option<gpucache::Error>,
}

/// The end of a step. Peaks are those since the step before; all others are sums since the program began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Step {
    pub(crate) allocations: u64,
    pub(crate) planned: u64,
    pub(crate) pieces: u64,
    pub(crate) peak_live_bytes: u64,
    pub(crate) peak_reserved_bytes: u64,
}

/// The counts of a program that has ended.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) steps: Vec<Step>,
    pub(crate) failed: u64,
    /// The peak of reserved bytes. It includes peaks within an allocation, which no step has.
    pub(crate) peak_reserved_bytes: u64,
}

/// An array of a program. A drop frees it.
#[derive(Debug)]
pub(crate) struct Held {
    array: Option<Array<u8, Virtual>>,
    bytes: u64,
    memory: Arc<Memory>,
}

impl Tape {
    /// `is_scoped` says whether steps are entries of scopes. Without a device, only live bytes are counted.
    pub(crate) fn new(device: Option<Virtual>, is_scoped: bool) -> Self {
        let is_scoped = is_scoped && device.is_some();
        Self(Arc::new(Memory { device, is_scoped, counts: Mutex::default() }))
    }

    /// Allocates an array. If there is no memory for it, the array has no bytes.
    pub(crate) fn array(&self, bytes: u64) -> Held {
        let array = self.0.device.as_ref().map(|device| device.zeros::<u8>(bytes as usize)).transpose();
        let reserved = self.0.reserved_bytes();
        let counts = &mut *self.0.counts();
        let (array, bytes) = match array {
            Ok(array) => (array, bytes.next_multiple_of(GRANULE)),
            Err(error) => {
                counts.note_failure(error);
                (None, 0)
            }
        };
        counts.note(bytes, reserved);
        Held { array, bytes, memory: self.0.clone() }
    }

    /// Allocates several arrays, one after the other.
    pub(crate) fn arrays(&self, bytes: impl IntoIterator<Item = u64>) -> Vec<Held> {
        bytes.into_iter().map(|bytes| self.array(bytes)).collect()
    }

    /// Allocates an array and drops it.
    pub(crate) fn temporary(&self, bytes: u64) {
        drop(self.array(bytes));
    }

    /// A step of the program: one entry of the scope `name`, if steps are entries.
    pub(crate) fn step<R>(&self, name: &str, body: impl FnOnce() -> R) -> R {
        let result = self.scope(name, body);
        self.0.end_step();
        result
    }

    /// Like [`step`](Tape::step) for work beside the steps, which is not counted as a step.
    pub(crate) fn scope<R>(&self, name: &str, body: impl FnOnce() -> R) -> R {
        if self.0.is_scoped { Scope::new(name).run(body) } else { body() }
    }

    /// Lets the other thread work. The counts of this thread's scopes are published before, so they are in the next step that ends.
    pub(crate) fn pass(&self, turn: &Turn) {
        let _ = planned();
        turn.pass();
    }

    /// The bytes of all arrays now.
    #[cfg(test)]
    pub(crate) fn live_bytes(&self) -> u64 {
        self.0.counts().live_bytes
    }

    /// The counts of the program after its end.
    ///
    /// # Errors
    /// The first error that is no lack of memory: gpucache broke a rule of the device.
    pub(crate) fn end(&self) -> gpucache::Result<Whole> {
        let Counts { steps, failed, error, .. } = std::mem::take(&mut *self.0.counts());
        error.map_or(Ok(()), Err)?;
        let Some(device) = &self.0.device else { return Ok(Whole { steps, failed, peak_reserved_bytes: 0 }) };
        device.synchronize()?;
        Ok(Whole { steps, failed, peak_reserved_bytes: device.memory().peak_bytes })
    }
}

impl Memory {
    /// Only one thread works at a time, and no code of gpucache runs under this lock.
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reserved_bytes(&self) -> u64 {
        self.device.as_ref().map_or(0, |device| device.memory().bytes)
    }

    fn end_step(&self) {
        let reserved = self.reserved_bytes();
        let (planned, pieces) = self.device.as_ref().map_or((0, 0), |device| {
            let memory = device.memory();
            (planned(), memory.times_taken() + memory.times_given_back())
        });
        let counts = &mut *self.counts();
        counts.note_reserved(reserved);
        counts.steps.push(Step {
            allocations: counts.allocations,
            planned,
            pieces,
            peak_live_bytes: counts.peak_live_bytes,
            peak_reserved_bytes: counts.peak_reserved_bytes,
        });
        (counts.peak_live_bytes, counts.peak_reserved_bytes) = (counts.live_bytes, reserved);
    }
}

/// The allocations of all scopes that plans served.
fn planned() -> u64 {
    let scopes = gpucache::scopes();
    scopes.iter().filter_map(gpucache::stats).map(|scope| scope.served.planned.allocations).sum()
}

impl Counts {
    /// Counts an allocation.
    fn note(&mut self, live: u64, reserved: u64) {
        self.allocations += 1;
        self.live_bytes += live;
        self.peak_live_bytes = self.peak_live_bytes.max(self.live_bytes);
        self.note_reserved(reserved);
    }

    fn note_failure(&mut self, error: gpucache::Error) {
        match error.is_out_of_memory() && !error.is_deferred() {
            true => self.failed += 1,
            false => _ = self.error.get_or_insert(error),
        }
    }

    fn note_reserved(&mut self, reserved: u64) {
        self.peak_reserved_bytes = self.peak_reserved_bytes.max(reserved);
    }
}

impl Held {
    /// The bytes of the array, as they are counted.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.array = None;
        self.memory.counts().live_bytes -= self.bytes;
    }
}
