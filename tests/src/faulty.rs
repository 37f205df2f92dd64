//! A device over host memory that counts every call, fails on demand, and checks how the engine uses its memory.
//!
//! [`Faulty::new`] makes an independent device with its own memory, calls and faults. Memory is filled with garbage when it is
//! allocated, so that nothing is zero by luck, and wiped when it is freed. A free that is made to fail still frees the memory, as
//! [`Backend::free`] says. The host's memory, to which arrays are offloaded, is a machine of its own: [`Faulty::host_side`].
#![allow(unsafe_code)]

mod ledger;

use std::alloc::{Layout, alloc, dealloc};
use std::fmt;
use std::ptr::{copy, from_ref, with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, PoisonError};

use gpucache::device::{
    Device,
    backend::{Backend, Copies, Event, Memory, Stream},
};
use gpucache::{Error, Result};

use self::ledger::{ALIGNMENT, Ledger, Place};
pub use self::ledger::{Call, Calls, Failure, Fault};
use crate::sync::{Mutex, MutexGuard};

/// The contents of memory before its first use.
const GARBAGE: u8 = 0xA5;
/// The contents of memory after its last use.
const WIPED: u8 = 0xDD;

/// A handle of one stream of a device that can be made to fail.
#[derive(Clone)]
#[repr(transparent)]
pub struct Faulty(Stream);

/// One device: the state that its streams share.
struct Machine {
    ledger: Mutex<Ledger>,
    streams: AtomicU64,
    /// Whether events do not complete for now.
    lags: AtomicBool,
    memory: Arc<Memory>,
    /// The host's side, once somebody asked for it.
    host: OnceLock<Arc<Machine>>,
}

/// One stream of a device. It keeps no order, since every call is done when it returns.
struct FaultyMemory {
    machine: Arc<Machine>,
    stream: u64,
}

/// An event. It is complete as soon as it is recorded, unless the device lags.
struct FaultyEvent {
    machine: Arc<Machine>,
}

impl Faulty {
    /// A new device, and its first stream. Nothing fails until [`arm`](Faulty::arm) is called.
    pub fn new() -> Faulty {
        Faulty::with_limit(usize::MAX)
    }

    /// A new device with `bytes` bytes of memory.
    pub fn with_limit(bytes: usize) -> Faulty {
        let ledger = Mutex::new(Ledger::new(bytes));
        Faulty::on(ledger, Arc::default())
    }

    /// A new device whose range is made of chunks, as on a GPU without virtual memory management.
    pub fn with_chunks(limit: usize) -> Faulty {
        let (mut ledger, memory) = (Ledger::new(limit), Memory::with_chunks().into());
        ledger.is_shared = true;
        Faulty::on(Mutex::new(ledger), memory)
    }

    fn on(ledger: Mutex<Ledger>, memory: Arc<Memory>) -> Faulty {
        Faulty::over(Machine::new(ledger, memory))
    }

    /// The host's side, with its own calls, faults and blocks. Copies between both sides are calls of the device.
    pub fn host_side(&self) -> Faulty {
        Faulty::over(self.memory_of_this().machine.host().clone())
    }

    /// Another stream of the same device.
    pub fn another_stream(&self) -> Faulty {
        Faulty::over(self.memory_of_this().machine.clone())
    }

    fn over(machine: Arc<Machine>) -> Faulty {
        let memory = machine.memory.clone();
        // SAFETY: both belong to one machine, whose memory is this process's.
        Faulty(unsafe { Stream::new(memory, FaultyMemory::new(machine)) })
    }

    fn memory_of_this(&self) -> &FaultyMemory {
        self.0.backend().expect("a Faulty is made around a FaultyMemory")
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.memory_of_this().machine.ledger()
    }

    /// Makes calls fail as `fault` says, counted from now. Replaces an earlier fault.
    pub fn arm(&self, fault: Fault) {
        self.ledger().arm(fault);
    }

    /// While the device lags, no event completes, as if work were still running.
    pub fn set_lagging(&self, lags: bool) {
        self.memory_of_this().machine.lags.store(lags, Relaxed);
    }

    /// Removes the fault, so nothing fails any more.
    pub fn disarm(&self) {
        self.ledger().disarm();
    }

    /// Changes how many bytes of memory the device has.
    pub fn set_room(&self, bytes: usize) {
        self.ledger().limit = bytes;
    }

    /// The calls so far, of all streams of the device.
    pub fn calls(&self) -> Calls {
        self.ledger().calls()
    }

    /// How many calls have failed so far because of a fault, and not because of the limit.
    pub fn failures(&self) -> u64 {
        self.ledger().failures()
    }

    /// The bytes of each block that is allocated and not freed.
    pub fn live(&self) -> Vec<usize> {
        self.ledger().live()
    }

    /// The engine's violations of the contract of [`Backend`].
    pub fn violations(&self) -> Vec<String> {
        self.ledger().violations().to_vec()
    }

    /// # Panics
    /// If the engine broke a rule, or anything is still allocated.
    pub fn assert_clean(&self) {
        assert_eq!(self.violations(), [""; 0], "rules of the device broken");
        assert_eq!(self.live(), [0; 0], "blocks that were never freed");
    }
}

/// Whether this is a `Faulty` device. It has no range, so it has exactly the bytes of its blocks.
pub fn is_faulty<D: Device>(device: &D) -> bool {
    device.stream_handle().backend::<FaultyMemory>().is_some()
}

impl Default for Faulty {
    fn default() -> Faulty {
        Faulty::new()
    }
}

// SAFETY: a transparent struct around a `Stream`, which both methods return unchanged.
unsafe impl Device for Faulty {
    fn stream_handle(&self) -> &Stream {
        &self.0
    }

    unsafe fn from_stream_handle(stream: &Stream) -> &Faulty {
        // SAFETY: `Faulty` is a transparent struct around a `Stream`, and the caller's stream belongs to a `Faulty`.
        unsafe { &*from_ref(stream).cast() }
    }
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "faulty stream {}", self.memory_of_this().stream)
    }
}

impl fmt::Debug for FaultyMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultyMemory {}", self.stream)
    }
}

impl fmt::Debug for FaultyEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultyEvent")
    }
}

// SAFETY: work of these streams is done when a call returns.
unsafe impl Event for FaultyEvent {
    fn is_complete(&self) -> Result<bool> {
        self.machine.call(Call::Query, "asking for an event", 0).map(|()| !self.machine.lags.load(Relaxed))
    }
}

impl Machine {
    fn new(ledger: Mutex<Ledger>, memory: Arc<Memory>) -> Arc<Machine> {
        let (streams, lags) = (AtomicU64::new(0), AtomicBool::new(false));
        Arc::new(Machine { ledger, streams, lags, memory, host: OnceLock::new() })
    }

    fn host(&self) -> &Arc<Machine> {
        self.host.get_or_init(|| {
            let mut ledger = Ledger::new(usize::MAX);
            ledger.is_shared = true;
            Machine::new(Mutex::new(ledger), Arc::default())
        })
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call, and fails if a fault says so.
    fn call(&self, call: Call, operation: &'static str, bytes: usize) -> Result<()> {
        match self.ledger().call(call) {
            None => Ok(()),
            Some(Failure::Device) => Err(Error::device_failure("faulty", operation, "as the test asked")),
            Some(Failure::OutOfMemory) => Err(Error::out_of_memory("faulty", bytes, "as the test asked")),
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let ledger = self.ledger();
        let (live, violations) = (ledger.live(), ledger.violations());
        if !std::thread::panicking() && (!live.is_empty() || !violations.is_empty()) {
            panic!("a device is gone with {live:?} bytes allocated and rules broken: {violations:?}");
        }
    }
}

impl FaultyMemory {
    fn new(machine: Arc<Machine>) -> FaultyMemory {
        let stream = machine.streams.fetch_add(1, Relaxed);
        FaultyMemory { machine, stream }
    }

    /// Whether memory belongs to the host's side of the device, which the device's copy queues can access.
    fn is_beside(&self, place: Place) -> bool {
        self.machine.host.get().is_some_and(|host| host.ledger().holds(place))
    }

    fn call(&self, call: Call, operation: &'static str, bytes: usize) -> Result<()> {
        self.machine.call(call, operation, bytes)
    }

    /// Counts a call on memory that must lie within live blocks. If it does not, the call touches nothing.
    fn call_on(&self, call: Call, operation: &'static str, ranges: &[(u64, usize)]) -> Result<()> {
        self.call(call, operation, ranges[0].1)?;
        let mut ledger = self.machine.ledger();
        let mut places = ranges.iter().map(|&(address, bytes)| Place { address, bytes });
        let is_beside = |place| call == Call::Copy && self.is_beside(place);
        match places.all(|place| is_beside(place) || ledger.expect_live(call, place, self.stream)) {
            true => Ok(()),
            false => Err(Error::device_failure("faulty", operation, "memory that is not allocated")),
        }
    }
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, ALIGNMENT).expect("the engine asks for bytes that fit an isize")
}

fn pointer(address: u64) -> *mut u8 {
    with_exposed_provenance_mut(address as usize)
}

// SAFETY: memory comes from the global allocator, which hands no memory out twice, and only `free` returns it.
unsafe impl Backend for FaultyMemory {
    fn allocate(&self, bytes: usize) -> Result<u64> {
        self.call(Call::Allocate, "an allocation", bytes)?;
        let mut ledger = self.machine.ledger();
        if !ledger.has_room_for(bytes) {
            return Err(Error::out_of_memory("faulty", bytes, "the limit of the test"));
        }
        // SAFETY: the engine never asks for zero bytes, and the ledger notes it if it does.
        let memory = unsafe { alloc(layout(bytes.max(1))) };
        assert!(!memory.is_null(), "the host has no {bytes} bytes");
        // SAFETY: `bytes` bytes were just allocated.
        unsafe { memory.write_bytes(GARBAGE, bytes) };
        let address = memory.expose_provenance() as u64;
        ledger.allocated(Place { address, bytes }, self.stream);
        Ok(address)
    }

    unsafe fn free(&self, address: u64, bytes: usize) -> Result<()> {
        let answer = self.call(Call::Free, "a free", bytes);
        if self.machine.ledger().freed(Place { address, bytes }, self.stream) {
            // SAFETY: the ledger says that this block was live with these bytes, and is live no more.
            unsafe {
                pointer(address).write_bytes(WIPED, bytes);
                dealloc(pointer(address), layout(bytes));
            }
        }
        answer
    }

    unsafe fn fill(&self, address: u64, bytes: usize, pattern: &[u8]) -> Result<()> {
        self.call_on(Call::Fill, "a fill", &[(address, bytes)])?;
        if pattern.is_empty() || !bytes.is_multiple_of(pattern.len()) {
            self.machine.ledger().violation(format_args!("{bytes} bytes filled by a pattern of {}", pattern.len()));
        }
        if let [byte] = *pattern {
            // SAFETY: the ledger says that `bytes` bytes at `address` are live.
            unsafe { pointer(address).write_bytes(byte, bytes) };
            return Ok(());
        }
        for (place, &byte) in (0..bytes).zip(pattern.iter().cycle()) {
            // SAFETY: the ledger says that `bytes` bytes at `address` are live, and `place` lies within them.
            unsafe { pointer(address).add(place).write(byte) };
        }
        Ok(())
    }

    unsafe fn write(&self, from: *const u8, to: u64, bytes: usize) -> Result<()> {
        self.call_on(Call::Write, "a copy to the device", &[(to, bytes)])?;
        // SAFETY: the caller gives `bytes` readable bytes at `from`. The ledger says that as many are live at `to`.
        unsafe { copy(from, pointer(to), bytes) };
        Ok(())
    }

    unsafe fn read(&self, from: u64, to: *mut u8, bytes: usize) -> Result<()> {
        self.call_on(Call::Read, "a copy from the device", &[(from, bytes)])?;
        // SAFETY: the ledger says that `bytes` bytes are live at `from`. The caller gives as many writable bytes at `to`.
        unsafe { copy(with_exposed_provenance(from as usize), to, bytes) };
        Ok(())
    }

    unsafe fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<()> {
        self.call_on(Call::Copy, "a copy on the device", &[(from, bytes), (to, bytes)])?;
        if from < to + bytes as u64 && to < from + bytes as u64 {
            self.machine.ledger().violation(format_args!("a copy onto itself: {bytes} bytes at {from:#x}, {to:#x}"));
        }
        // SAFETY: the ledger says that `bytes` bytes are live at both addresses.
        unsafe { copy(pointer(from).cast_const(), pointer(to), bytes) };
        Ok(())
    }

    fn copies(&self) -> Result<Option<Copies>> {
        self.call(Call::Copies, "making a queue for copies", 0)?;
        let device = Arc::new(FaultyMemory::new(self.machine.clone()));
        Ok(Some(Copies { device, host: Arc::new(FaultyMemory::new(self.machine.host().clone())) }))
    }

    fn synchronize(&self) -> Result<()> {
        self.call(Call::Synchronize, "waiting", 0)
    }

    fn new_event(&self) -> Result<Arc<dyn Event>> {
        self.call(Call::NewEvent, "making an event", 0)?;
        Ok(Arc::new(FaultyEvent { machine: self.machine.clone() }))
    }

    fn record(&self, _event: &dyn Event) -> Result<()> {
        self.call(Call::Record, "recording an event", 0)
    }

    fn wait(&self, _event: &dyn Event) -> Result<()> {
        self.call(Call::Wait, "waiting for an event", 0)
    }
}
