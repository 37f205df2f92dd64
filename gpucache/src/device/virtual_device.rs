//! A device with addresses and no memory: for dry runs, and for tests that want every rule checked.
//!
//! Invariants: `mapped` and `busy` hold disjoint pieces each, by address; what breaks a rule is reported as an error and
//! changes nothing.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ptr::from_ref;
use std::sync::{Arc, PoisonError};

use super::Device;
use super::backend::Backend;
use super::memory::{Memory, Unfinished, VirtualMemory};
use super::stream::Stream;
use crate::base::error::{Error, Result};
use crate::base::sync::{Mutex, MutexGuard};

/// The unit of mapping, as on CUDA devices.
const GRANULARITY: u64 = 2 << 20;
/// Where addresses begin; any number but 0 would do.
const BASE: u64 = 1 << 48;

/// A device of a given capacity that has addresses and no memory behind them.
///
/// Run a scope on it to learn how much memory it will need, without the GPU that has it: allocations, drops and
/// statistics are those of a real device. Writes go nowhere, and reads give zeros.
///
/// It checks all that is done with it: that blocks in use do not overlap, are aligned to 256 bytes, have pages behind
/// them and come back once. What is wrong is the error of the next fallible call, or of
/// [`synchronize`](Device::synchronize).
///
/// ```
/// use gpucache::{cache_scope, device::Virtual, prelude::*};
///
/// let device = Virtual::new(80 << 30); // bytes
/// for _ in 0..3 {
///     cache_scope!(step, {
///         let activations = Array::<f32, _>::zeros(&device, [8192, 65536])?;
///         let gradients = activations.try_clone()?;
///     });
/// }
/// assert_eq!(device.memory().peak_bytes, 4 << 30);
/// device.synchronize()?;
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone)]
#[repr(transparent)]
pub struct Virtual(Stream);

#[derive(Debug)]
struct Addresses {
    capacity: u64,
    watches: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Pages that are mapped: address to bytes.
    mapped: BTreeMap<u64, u64>,
    mapped_bytes: u64,
    /// Blocks in use: address to bytes.
    busy: BTreeMap<u64, u64>,
    /// Plain allocations, and where the next one lies.
    plain: BTreeMap<u64, u64>,
    plain_bytes: u64,
    next_plain: u64,
}

impl Virtual {
    /// A new device with `bytes` of capacity.
    pub fn new(bytes: usize) -> Virtual {
        Virtual::over(bytes, true)
    }

    /// As [`new`](Virtual::new), without looking at each block: the checks take longer than what they check, and to time
    /// that they must be out of the way.
    pub fn unchecked(bytes: usize) -> Virtual {
        Virtual::over(bytes, false)
    }

    fn over(bytes: usize, watches: bool) -> Virtual {
        let addresses = Arc::new(Addresses { capacity: bytes as u64, watches, state: Mutex::default() });
        let memory = Memory::with_pages(Pages(addresses.clone()));
        // SAFETY: pages and backend give numbers that nobody follows, so that there is no memory to confuse.
        Virtual(unsafe { Stream::new(memory.into(), Unbacked(addresses)) })
    }
}

// SAFETY: a transparent struct around a `Stream`, which both methods pass on as it is.
unsafe impl Device for Virtual {
    fn stream_handle(&self) -> &Stream {
        &self.0
    }

    unsafe fn from_stream_handle(stream: &Stream) -> &Virtual {
        // SAFETY: `Virtual` is a transparent struct around a `Stream`, with no invariant beyond it.
        unsafe { &*from_ref(stream).cast() }
    }
}

impl std::fmt::Debug for Virtual {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("virtual")
    }
}

impl Addresses {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `bytes` of the capacity.
    fn take(&self, state: &mut State, bytes: u64) -> Result<()> {
        let used = state.mapped_bytes + state.plain_bytes;
        match self.capacity.checked_sub(used).is_some_and(|rest| rest >= bytes) {
            true => Ok(()),
            false => Err(Error::out_of_memory(
                "the virtual device",
                bytes as usize,
                format_args!("{used} of {} bytes are taken", self.capacity),
            )),
        }
    }
}

/// Whether a piece of `pieces` lies in `[address, address + bytes)`, in part or whole.
fn overlaps(pieces: &BTreeMap<u64, u64>, address: u64, bytes: u64) -> bool {
    pieces.range(..address + bytes).next_back().is_some_and(|(start, length)| start + length > address)
}

/// Whether all of `[address, address + bytes)` lies in `pieces`, which may touch each other.
fn covers(pieces: &BTreeMap<u64, u64>, address: u64, bytes: u64) -> bool {
    let mut at = address;
    while at < address + bytes {
        match pieces.range(..=at).next_back().map(|(start, length)| start + length) {
            Some(end) if end > at => at = end,
            _ => return false,
        }
    }
    true
}

fn broken(rule: &'static str, address: u64, bytes: u64) -> Error {
    Error::device_failure("the virtual device", rule, format_args!("{bytes} bytes at {address:#x}"))
}

#[derive(Debug)]
struct Pages(Arc<Addresses>);

// SAFETY: the addresses are numbers that nobody follows.
unsafe impl VirtualMemory for Pages {
    fn granularity(&self) -> u64 {
        GRANULARITY
    }

    fn capacity(&self) -> Option<u64> {
        Some(self.0.capacity)
    }

    fn reserve(&self) -> Result<(u64, u64)> {
        Ok((BASE, 1 << 48))
    }

    fn map(&self, address: u64, bytes: u64) -> Result<()> {
        self.map_pieces(address, &[bytes]).map_err(|unfinished| unfinished.error)
    }

    unsafe fn unmap(&self, address: u64, bytes: u64) -> Result<()> {
        // SAFETY: one piece, for which the caller promised the same.
        unsafe { self.unmap_pieces(address, &[bytes]) }.map_err(|unfinished| unfinished.error)
    }

    fn map_pieces(&self, address: u64, pieces: &[u64]) -> Result<(), Unfinished> {
        let state = &mut *self.0.state();
        let bytes = pieces.iter().sum();
        let in_pages = placed(address, pieces).all(|(at, bytes)| (at | bytes).is_multiple_of(GRANULARITY) && bytes > 0);
        let taken = match in_pages && !overlaps(&state.mapped, address, bytes) {
            true => self.0.take(state, bytes),
            false => Err(broken("mapping pages that are mapped, or parts of pages,", address, bytes)),
        };
        taken.map_err(|error| Unfinished { mapped: 0, error })?;
        state.mapped.extend(placed(address, pieces));
        state.mapped_bytes += bytes;
        Ok(())
    }

    unsafe fn unmap_pieces(&self, address: u64, pieces: &[u64]) -> Result<(), Unfinished> {
        let state = &mut *self.0.state();
        let bytes = pieces.iter().sum();
        let whole = placed(address, pieces).all(|(at, bytes)| state.mapped.get(&at) == Some(&bytes));
        if !whole || overlaps(&state.busy, address, bytes) {
            let error = broken("unmapping pages that are in use or not mapped", address, bytes);
            return Err(Unfinished { mapped: pieces.len(), error });
        }
        for (at, _) in placed(address, pieces) {
            state.mapped.remove(&at);
        }
        state.mapped_bytes -= bytes;
        Ok(())
    }
}

/// The address and the bytes of each of some pieces, one behind the other.
fn placed(address: u64, pieces: &[u64]) -> impl Iterator<Item = (u64, u64)> {
    pieces.iter().scan(address, |end, &bytes| {
        *end += bytes;
        Some((*end - bytes, bytes))
    })
}

#[derive(Debug)]
struct Unbacked(Arc<Addresses>);

// SAFETY: nothing follows the addresses: every operation of this backend that would is empty.
unsafe impl Backend for Unbacked {
    fn allocate(&self, bytes: usize) -> Result<u64> {
        let (state, bytes) = (&mut *self.0.state(), bytes as u64);
        self.0.take(state, bytes)?;
        // Below the range's addresses, and never the same twice.
        let address = 256 + state.next_plain;
        state.next_plain = (state.next_plain + bytes).next_multiple_of(256);
        state.plain.insert(address, bytes);
        state.plain_bytes += bytes;
        Ok(address)
    }

    unsafe fn free(&self, address: u64, bytes: usize) -> Result<()> {
        let state = &mut *self.0.state();
        match state.plain.remove(&address) {
            Some(length) if length == bytes as u64 => {
                state.plain_bytes -= length;
                Ok(())
            }
            _ => Err(broken("freeing what is not allocated", address, bytes as u64)),
        }
    }

    unsafe fn fill(&self, _address: u64, _bytes: usize, _pattern: &[u8]) -> Result<()> {
        Ok(())
    }

    unsafe fn write(&self, _from: *const u8, _to: u64, _bytes: usize) -> Result<()> {
        Ok(())
    }

    unsafe fn read(&self, _from: u64, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller gives `bytes` writable bytes at `to`.
        unsafe { to.write_bytes(0, bytes) };
        Ok(())
    }

    unsafe fn copy(&self, _from: u64, _to: u64, _bytes: usize) -> Result<()> {
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn watches(&self) -> bool {
        self.0.watches
    }

    fn handed_out(&self, address: u64, bytes: usize) -> Result<()> {
        let (state, bytes) = (&mut *self.0.state(), bytes as u64);
        if bytes == 0 {
            return Ok(());
        }
        if overlaps(&state.busy, address, bytes) {
            return Err(broken("handing out memory that is in use", address, bytes));
        }
        state.busy.insert(address, bytes);
        let backed = covers(&state.mapped, address, bytes) || covers(&state.plain, address, bytes);
        match backed && address.is_multiple_of(256) {
            true => Ok(()),
            false => Err(broken("handing out memory without pages, or not aligned to 256 bytes,", address, bytes)),
        }
    }

    fn taken_back(&self, address: u64, bytes: usize) -> Result<()> {
        match self.0.state().busy.remove(&address) {
            Some(length) if length == bytes as u64 => Ok(()),
            None if bytes == 0 => Ok(()),
            _ => Err(broken("taking back memory that is not in use", address, bytes as u64)),
        }
    }
}
