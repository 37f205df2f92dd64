//! Work as a value: what a stream can do at once, and a graph at each of its launches.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::answer::Answer;
use crate::launch::Launch;
use crate::uses::Use;
use crate::{capture, raw, streams};

/// Elements of one, two or four bytes that become `value`, in rows that are `pitch` bytes apart.
#[derive(Clone, Copy)]
pub(crate) struct Fill {
    pub(crate) address: u64,
    pub(crate) pitch: usize,
    pub(crate) value: u32,
    /// The bytes of an element.
    pub(crate) element: u32,
    /// The elements of a row.
    pub(crate) width: usize,
    pub(crate) rows: usize,
}

impl Fill {
    pub(crate) fn bytes(&self) -> usize {
        let row = self.width * self.element as usize;
        if row == 0 { 0 } else { self.rows.checked_sub(1).map_or(0, |more| more * self.pitch + row) }
    }

    /// Whether an executable can do this instead: only a fill of one row may change its extent.
    pub(crate) fn can_replace(&self, old: &Fill) -> bool {
        let is_same = (self.width, self.element, self.pitch) == (old.width, old.element, old.pitch);
        self.rows == old.rows && (self.rows == 1 || is_same)
    }
}

/// `CUmemorytype` of one side of a copy, as the program's call names it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    Host = 1,
    Device = 2,
    /// The address says which it is.
    Unified = 4,
}

/// Bytes that are copied.
#[derive(Clone, Copy)]
pub(crate) struct Copying {
    pub(crate) to: u64,
    pub(crate) from: u64,
    pub(crate) bytes: usize,
    /// The memory at `from`, and the memory at `to`.
    pub(crate) kinds: (Memory, Memory),
}

impl Copying {
    pub(crate) fn on_device(to: u64, from: u64, bytes: usize) -> Copying {
        Copying { to, from, bytes, kinds: (Memory::Device, Memory::Device) }
    }

    /// Whether an executable can do this instead: between the same kinds of memory.
    pub(crate) fn can_replace(&self, old: &Copying) -> bool {
        self.kinds == old.kinds
    }
}

/// A function of the program, with an address that only this function follows.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) function: unsafe extern "C" fn(*mut c_void),
    pub(crate) argument: *mut c_void,
}

// SAFETY: this type does not follow the address. The caller of `cuLaunchHostFunc` promises that its function may be called with it
// on a thread of the driver.
unsafe impl Send for Call {}

// SAFETY: a shared `Call` can only be copied.
unsafe impl Sync for Call {}

#[derive(Clone)]
pub(crate) enum Work {
    Kernel(Launch),
    Fill(Fill),
    Copy(Copying),
    Call(Call),
    /// A wait until a number in pinned memory is at least the value.
    Await(u64, u32),
    /// An allocation or a free that was captured. This driver does not run it.
    Allocate,
    Free,
}

impl Work {
    /// `CUgraphNodeType`.
    pub(crate) fn kind(&self) -> u32 {
        match self {
            Work::Kernel(_) => 0,
            Work::Copy(_) => 1,
            Work::Fill(_) => 2,
            Work::Call(_) => 3,
            Work::Allocate => 10,
            Work::Free => 11,
            Work::Await(..) => 12,
        }
    }

    pub(crate) fn can_run(&self) -> bool {
        !matches!(self, Work::Allocate | Work::Free)
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Work::Fill(fill) => fill.bytes() == 0,
            Work::Copy(copy) => copy.bytes == 0,
            _ => false,
        }
    }

    /// Notes the memory that the work uses.
    pub(crate) fn uses(&self) -> Vec<Use> {
        match self {
            Work::Kernel(launch) => launch.uses(),
            Work::Fill(fill) => Vec::from([Use::of(fill.address, fill.bytes())]),
            Work::Copy(copy) => Vec::from([Use::of(copy.from, copy.bytes), Use::of(copy.to, copy.bytes)]),
            Work::Call(_) | Work::Await(..) | Work::Allocate | Work::Free => Vec::new(),
        }
    }

    /// # Safety
    /// There is memory at the addresses of the work, and its function may be called.
    pub(crate) unsafe fn run(&self) {
        match self {
            // SAFETY: there is memory by this function's contract.
            Work::Kernel(launch) => unsafe { launch.run() },
            Work::Fill(fill) => {
                let pattern = &fill.value.to_le_bytes()[..fill.element as usize];
                // SAFETY: there is memory at each row by this function's contract.
                unsafe { raw::fill_rows(fill.address, fill.pitch, pattern, fill.width * pattern.len(), fill.rows) };
            }
            // SAFETY: there is memory at both addresses by this function's contract.
            Work::Copy(copy) => unsafe { raw::copy(copy.from, copy.to, copy.bytes) },
            // SAFETY: by this function's contract, the function may be called with its argument.
            Work::Call(call) => unsafe { (call.function)(call.argument) },
            Work::Await(address, value) => {
                // SAFETY: by this function's contract there is a number of 32 bits.
                let number = unsafe { AtomicU32::from_ptr(*address as *mut u32) };
                // Compares like CUDA: cyclically.
                while (number.load(Ordering::Acquire).wrapping_sub(*value) as i32) < 0 {
                    std::thread::sleep(Duration::from_micros(50));
                }
            }
            Work::Allocate | Work::Free => {}
        }
    }
}

/// Gives work to a stream, or to the graph that the stream is captured into.
///
/// # Safety
/// When the stream reaches the work, and at each launch of such a graph, there is memory at the addresses of the work, and its
/// function may be called.
pub(crate) unsafe fn give(work: Work, stream: usize) -> Answer {
    if capture::record(&*streams::find(stream)?, &work)? {
        return Ok(());
    }
    let used = work.uses();
    let task = move || {
        // SAFETY: the memory is there by this function's contract. It does not go while its use is noted.
        unsafe { work.run() };
        drop(used);
    };
    streams::submit(stream, task).map(drop)
}
