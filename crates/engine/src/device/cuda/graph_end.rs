//! The end of a graph that other code captures. The driver tells it by a user object, to which the graph, its copies, its executables and
//! their launches hold references: the object ends when no launch can use the graph's memory any more.
//!
//! An H100 (driver 580) confirms this for graphs and executables in either order, executables that are updated, launches that still run when
//! their executable is destroyed, and captures that fail.
#![allow(unsafe_code)]

use std::any::Any;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use cudarc::driver::sys;

use super::Handle;
use super::driver::driver_calls;
use crate::base::sync::{Mutex, lock};
use crate::device::stream::Stream;

// The driver has them since CUDA 11.3, which is older than allocations in captures.
driver_calls! {
    info: cuStreamGetCaptureInfo_v2(
        sys::CUstream, *mut u32, *mut u64, *mut sys::CUgraph, *mut *const sys::CUgraphNode, *mut usize
    );
    create: cuUserObjectCreate(*mut *mut c_void, *mut c_void, unsafe extern "C" fn(*mut c_void), u32, u32);
    retain: cuGraphRetainUserObject(sys::CUgraph, *mut c_void, u32, u32);
    release: cuUserObjectRelease(*mut c_void, u32);
}

/// `CU_STREAM_CAPTURE_STATUS_NONE`.
const NOT_CAPTURED: u32 = 0;
/// `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC`, the only flag that an object can have.
const NO_WAIT: u32 = 1;
/// `CU_GRAPH_USER_OBJECT_MOVE`: the graph takes the caller's reference over.
const MOVE: u32 = 1;

/// Values that are kept until the graph ends that may use them.
static KEPT: Mutex<Vec<(GraphEnd, Arc<dyn Any + Send + Sync>)>> = Mutex::new(Vec::new());

/// How many graphs have ended whose ends were watched, and up to which of these numbers values were dropped.
static ENDS: AtomicUsize = AtomicUsize::new(0);
static SEEN: AtomicUsize = AtomicUsize::new(0);

/// Tells whether a graph, everything made from it, and all launches have ended.
#[derive(Default)]
pub(crate) struct GraphEnd(Arc<AtomicBool>);

impl GraphEnd {
    /// Lets the driver tell the end of the graph that is captured on the stream of `handle` now. If it cannot, the end never comes.
    pub(crate) fn of_capture(handle: Handle) -> GraphEnd {
        let end = GraphEnd::default();
        if let Some((calls, (_, graph))) = calls().zip(handle.captured().filter(|(_, graph)| !graph.is_null())) {
            let value = Arc::into_raw(end.0.clone()).cast::<c_void>().cast_mut();
            let mut object = null_mut();
            // SAFETY: the driver writes one handle. It calls `ended` once, with this pointer, which stays valid until then.
            if unsafe { (calls.create)(&raw mut object, value, ended, 1, NO_WAIT) } != sys::CUresult::CUDA_SUCCESS {
                // The driver did not take the reference, which leaks a word: it cannot be known whether the driver kept the pointer.
                return end;
            }
            // SAFETY: the graph is alive while it is captured, and the object was made just now.
            if unsafe { (calls.retain)(graph, object, 1, MOVE) } != sys::CUresult::CUDA_SUCCESS {
                // The object would tell an end that is not the graph's.
                let without = GraphEnd::default();
                // SAFETY: the reference is this crate's own, and it is given up once.
                let _ = unsafe { (calls.release)(object, 1) };
                return without;
            }
        }
        end
    }

    /// Keeps a value until the end.
    pub(crate) fn keep(self, value: Arc<dyn Any + Send + Sync>) {
        lock(&KEPT).push((self, value));
    }

    /// Drops the values of graphs that have ended. While a graph is captured, they stay: the return of memory may call the driver.
    #[inline]
    pub(crate) fn free_ended() {
        if ENDS.load(Acquire) != SEEN.load(Relaxed) {
            GraphEnd::free();
        }
    }

    #[cold]
    fn free() {
        if Stream::is_any_in_capture() {
            return;
        }
        // Read first: an end that comes meanwhile is seen the next time.
        SEEN.store(ENDS.load(Acquire), Relaxed);
        let ended: Vec<_> = lock(&KEPT).extract_if(.., |(end, _)| end.0.load(Acquire)).collect();
        // The memory returns while no lock is held.
        drop(ended);
    }
}

/// Notes the end of a graph. The driver calls this on any thread, also within calls that this crate makes, and allows no call of its own
/// functions here. So this touches atomic numbers only.
unsafe extern "C" fn ended(value: *mut c_void) {
    // SAFETY: `watch` gave the driver this pointer of an `Arc` with a reference of its own, and the driver calls this once.
    let end = unsafe { Arc::from_raw(value.cast::<AtomicBool>().cast_const()) };
    end.store(true, Release);
    ENDS.fetch_add(1, Release);
}

impl Handle {
    /// The capture of the stream, if it is captured, by the driver's number. The question leaves the capture as it is.
    pub fn capture(self) -> Option<u64> {
        self.captured().map(|(number, _)| number)
    }

    fn captured(self) -> Option<(u64, sys::CUgraph)> {
        // The legacy default stream cannot be captured.
        let calls = calls().filter(|_| !self.is_default())?;
        let (mut status, mut number, mut graph) = (NOT_CAPTURED, 0, null_mut());
        // SAFETY: another library passes the handle to the driver now, so its stream is alive. The driver writes to the three places, and
        // leaves out the two that are null.
        let told = unsafe {
            (calls.info)(
                self.0 as sys::CUstream,
                &raw mut status,
                &raw mut number,
                &raw mut graph,
                null_mut(),
                null_mut(),
            )
        };
        (told == sys::CUresult::CUDA_SUCCESS && status != NOT_CAPTURED).then_some((number, graph))
    }
}
