//! A device with addresses and no memory, for dry runs and for tests that check every rule.
//!
//! Invariants: the pieces in `mapped` do not overlap, nor do those in `busy`; both are sorted by address. A call that breaks a rule returns
//! an error and changes nothing.
#![allow(unsafe_code)]

mod occupancy;

use std::fmt;
use std::sync::Arc;

use occupancy::{Occupancy, SPAN, overlaps};

use super::ALIGNMENT;
use super::backend::Backend;
use super::backend::copies::Copies;
use super::kind::DeviceKind;
use super::memory::Memory;
use super::stream::Stream;
use super::virtual_memory::{Unfinished, VirtualMemory};
use crate::base::amounts::{Bytes, total};
use crate::base::error::{Error, Result};
#[cfg(debug_assertions)]
use crate::base::held::assert_nothing_held;
use crate::base::sync::{Mutex, OnceLock, lock};

/// The unit of mapping. It is that of CUDA devices, so a dry run reserves as much as a GPU would.
const VIRTUAL_GRANULARITY: u64 = 2 << 20;
/// A device of a given capacity that has addresses and no memory behind them.
///
/// Run a scope on it to learn how much memory the scope will need on a GPU, without that GPU. Allocations, drops and statistics are those
/// of a real device. Writes have no effect, and reads return zeros.
///
/// The device checks every call: blocks in use must not overlap, must be aligned to 256 bytes, must have pages behind them, and must come
/// back once. The next fallible call, or `synchronize`, returns the error.
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

struct Addresses {
    capacity: u64,
    page_bytes: u64,
    watches: bool,
    occupancy: Mutex<Occupancy>,
    /// The host's side, made with the first queue for copies. Its capacity is unlimited.
    host: OnceLock<Arc<Addresses>>,
}

/// Leaves out the contents of the lock, since the program may format this value anywhere, also where the lock is held.
impl fmt::Debug for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of addresses", self.capacity)
    }
}

impl Virtual {
    /// A new device with `bytes` of capacity.
    ///
    /// ```
    /// use gpucache::{device::Virtual, prelude::*};
    ///
    /// let device = Virtual::new(1 << 20); // bytes
    /// assert!(device.zeros::<u8>(2 << 20).unwrap_err().is_out_of_memory());
    /// ```
    pub fn new(bytes: usize) -> Virtual {
        Virtual::over(bytes, VIRTUAL_GRANULARITY, true)
    }

    /// Like [`new`](Virtual::new), without the checks of each block. Use it to measure times: the checks take longer than the operations
    /// that they check.
    ///
    /// ```
    /// use gpucache::{device::Virtual, prelude::*};
    ///
    /// let device = Virtual::unchecked(1 << 30);
    /// let array = device.zeros::<f32>([1024, 1024])?;
    /// assert_eq!(device.memory().bytes, 4 << 20);
    /// # drop(array);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn unchecked(bytes: usize) -> Virtual {
        Virtual::over(bytes, VIRTUAL_GRANULARITY, false)
    }

    /// The stream behind this handle.
    ///
    /// ```
    /// use gpucache::device::Virtual;
    ///
    /// println!("{:?}", Virtual::new(1 << 30).stream_handle());
    /// ```
    #[inline]
    pub fn stream_handle(&self) -> &Stream {
        &self.0
    }

    /// As [`new`](Virtual::new) or [`unchecked`](Virtual::unchecked), with pages of another size than 2 MiB: a multiple of 256 bytes, or
    /// the next one.
    #[doc(hidden)]
    pub fn with_pages(bytes: usize, page_bytes: u64, is_checked: bool) -> Virtual {
        let page_bytes = page_bytes.clamp(ALIGNMENT, 1 << 40).next_multiple_of(ALIGNMENT);
        Virtual::over(bytes, page_bytes, is_checked)
    }

    fn over(bytes: usize, page_bytes: u64, watches: bool) -> Virtual {
        let addresses = Addresses::new(bytes as u64, page_bytes, watches);
        let memory = Memory::with_pages(Unbacked(addresses.clone())).of_kind(DeviceKind::Virtual);
        // SAFETY: the pages and the backend return numbers that nobody dereferences. So there is no memory that one of them could use and
        // the other could not.
        Virtual(unsafe { Stream::new(memory.into(), Unbacked(addresses)) })
    }
}

impl std::fmt::Debug for Virtual {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("virtual")
    }
}

impl Addresses {
    fn new(capacity: u64, page_bytes: u64, watches: bool) -> Arc<Addresses> {
        Arc::new(Addresses { capacity, page_bytes, watches, occupancy: Mutex::default(), host: OnceLock::new() })
    }

    /// Checks that `bytes` more fit the capacity.
    fn take(&self, occupancy: &mut Occupancy, bytes: u64) -> Result<()> {
        let used = occupancy.taken();
        match self.capacity.checked_sub(used).is_some_and(|rest| rest >= bytes) {
            true => Ok(()),
            false => {
                let detail = format!("{} of {} are taken", Bytes(used), Bytes(self.capacity));
                let error = Error::out_of_memory("the virtual device", bytes as usize, detail);
                Err(error.of_capacity(self.capacity))
            }
        }
    }
}

/// The error if the capacity suffices, but no free stretch of addresses is long enough.
fn none_left(bytes: u64) -> Error {
    Error::out_of_memory("the virtual device", bytes as usize, "no addresses are left side by side")
}

fn broken(rule: &'static str, address: u64, bytes: u64) -> Error {
    let detail = format!("{bytes} bytes at {address:#x}");
    Error::refused("the virtual device", rule, detail, "report this, with the program that shows it")
}

// SAFETY: nobody dereferences the addresses, so they need no memory behind them.
unsafe impl VirtualMemory for Unbacked {
    fn granularity(&self) -> u64 {
        self.0.page_bytes
    }

    fn capacity(&self) -> Option<u64> {
        Some(self.0.capacity)
    }

    fn available(&self) -> Option<u64> {
        Some(self.0.capacity.saturating_sub(lock(&self.0.occupancy).taken()))
    }

    fn reserve(&self) -> Result<(u64, u64)> {
        Ok((SPAN.start, SPAN.end - SPAN.start))
    }

    fn map_pieces(&self, address: u64, pieces: &[u64]) -> Result<(), Unfinished> {
        let occupancy = &mut *lock(&self.0.occupancy);
        let bytes = total(pieces.iter().copied());
        let in_pages =
            placed(address, pieces).all(|(at, bytes)| (at | bytes).is_multiple_of(self.0.page_bytes) && bytes > 0);
        let taken = match in_pages && !overlaps(&occupancy.mapped, address, bytes) {
            true if occupancy.is_plain(address, bytes) => Err(none_left(bytes)),
            true => self.0.take(occupancy, bytes),
            false => Err(broken("mapping pages that are mapped, or parts of pages,", address, bytes)),
        };
        taken.map_err(|error| Unfinished { mapped: 0, error })?;
        occupancy.mapped.extend(placed(address, pieces));
        occupancy.mapped_bytes += bytes;
        Ok(())
    }

    unsafe fn unmap_pieces(&self, address: u64, pieces: &[u64]) -> Result<(), Unfinished> {
        let occupancy = &mut *lock(&self.0.occupancy);
        let bytes = total(pieces.iter().copied());
        let whole = placed(address, pieces).all(|(at, bytes)| occupancy.mapped.get(&at) == Some(&bytes));
        if !whole || overlaps(&occupancy.busy, address, bytes) {
            let error = broken("unmapping pages that are in use or not mapped", address, bytes);
            return Err(Unfinished { mapped: pieces.len(), error });
        }
        for (at, _) in placed(address, pieces) {
            occupancy.mapped.remove(&at);
        }
        occupancy.mapped_bytes -= bytes;
        Ok(())
    }
}

/// The address and the bytes of each piece. The pieces lie one behind the other.
fn placed(address: u64, pieces: &[u64]) -> impl Iterator<Item = (u64, u64)> {
    pieces.iter().scan(address, |end, &bytes| {
        let begin = std::mem::replace(end, end.saturating_add(bytes));
        Some((begin, bytes))
    })
}

#[derive(Debug)]
struct Unbacked(Arc<Addresses>);

/// The destructor of a backend may be code of the program, so this one checks the same rule.
#[cfg(debug_assertions)]
impl Drop for Unbacked {
    fn drop(&mut self) {
        assert_nothing_held();
    }
}

// SAFETY: nothing dereferences the addresses. Every operation of this backend that would do so is empty.
unsafe impl Backend for Unbacked {
    fn allocate(&self, bytes: usize) -> Result<u64> {
        let (occupancy, bytes) = (&mut *lock(&self.0.occupancy), bytes as u64);
        self.0.take(occupancy, bytes)?;
        occupancy.allocate(bytes).ok_or_else(|| none_left(bytes))
    }

    unsafe fn free(&self, address: u64, bytes: usize) -> Result<()> {
        match lock(&self.0.occupancy).free(address, bytes as u64) {
            true => Ok(()),
            false => Err(broken("freeing memory that is not allocated", address, bytes as u64)),
        }
    }

    unsafe fn fill(&self, _address: u64, _bytes: usize, _pattern: &[u8]) -> Result<()> {
        Ok(())
    }

    unsafe fn write(&self, _from: *const u8, _to: u64, _bytes: usize) -> Result<()> {
        Ok(())
    }

    unsafe fn read(&self, _from: u64, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller provides `bytes` writable bytes at `to`, in memory of its own. No memory of a device is touched.
        unsafe { to.write_bytes(0, bytes) };
        Ok(())
    }

    unsafe fn copy(&self, _from: u64, _to: u64, _bytes: usize) -> Result<()> {
        Ok(())
    }

    fn copies(&self) -> Result<Option<Copies>> {
        let host = self.0.host.get_or_init(|| Addresses::new(u64::MAX, self.0.page_bytes, self.0.watches));
        Ok(Some(Copies { device: Arc::new(Unbacked(self.0.clone())), host: Arc::new(Unbacked(host.clone())) }))
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn watches(&self) -> bool {
        self.0.watches
    }

    fn handed_out(&self, address: u64, bytes: usize) -> Result<()> {
        let (occupancy, bytes) = (&mut *lock(&self.0.occupancy), bytes as u64);
        if bytes == 0 {
            return Ok(());
        }
        if overlaps(&occupancy.busy, address, bytes) {
            return Err(broken("handing out memory that is in use", address, bytes));
        }
        occupancy.busy.insert(address, bytes);
        match occupancy.is_backed(address, bytes) && address.is_multiple_of(ALIGNMENT) {
            true => Ok(()),
            false => Err(broken("handing out memory without pages, or not aligned to 256 bytes,", address, bytes)),
        }
    }

    fn taken_back(&self, address: u64, bytes: usize) -> Result<()> {
        match lock(&self.0.occupancy).busy.remove(&address) {
            Some(length) if length == bytes as u64 => Ok(()),
            None if bytes == 0 => Ok(()),
            _ => Err(broken("taking back memory that is not in use", address, bytes as u64)),
        }
    }
}
