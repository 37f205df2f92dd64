//! Work as a value: what a stream can do at once, and a graph at each of its launches.

use std::ffi::c_void;
use std::sync::Arc;

use crate::answer::Answer;
use crate::launch::Launch;
use crate::uses::Use;
use crate::{capture, pinned, raw, streams};

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

/// Bytes that are copied between memory of the device, or pinned memory.
#[derive(Clone, Copy)]
pub(crate) struct Copying {
    pub(crate) to: u64,
    pub(crate) from: u64,
    pub(crate) bytes: usize,
}

impl Copying {
    /// Whether an executable can do this instead: between the same kinds of memory.
    pub(crate) fn can_replace(&self, old: &Copying) -> bool {
        let kinds = |copy: &Copying| (pinned::holds(copy.from), pinned::holds(copy.to));
        kinds(self) == kinds(old)
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
    /// The work of another graph, in an order that its dependencies allow.
    Graph(Arc<[Work]>),
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
            Work::Graph(_) => 4,
            Work::Allocate => 10,
            Work::Free => 11,
        }
    }

    pub(crate) fn can_run(&self) -> bool {
        match self {
            Work::Graph(parts) => parts.iter().all(Work::can_run),
            Work::Allocate | Work::Free => false,
            _ => true,
        }
    }

    /// Notes the memory that the work uses.
    pub(crate) fn uses(&self) -> Vec<Use> {
        match self {
            Work::Kernel(launch) => launch.uses(),
            Work::Fill(fill) => Vec::from([Use::of(fill.address, fill.bytes())]),
            Work::Copy(copy) => Vec::from([Use::of(copy.from, copy.bytes), Use::of(copy.to, copy.bytes)]),
            Work::Graph(parts) => parts.iter().flat_map(Work::uses).collect(),
            Work::Call(_) | Work::Allocate | Work::Free => Vec::new(),
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
            // SAFETY: this function's contract covers each part.
            Work::Graph(parts) => parts.iter().for_each(|part| unsafe { part.run() }),
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
