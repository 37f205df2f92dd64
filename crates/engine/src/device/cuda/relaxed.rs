//! Calls of the driver while other code captures a graph.
#![allow(unsafe_code)]

use cudarc::driver::sys;

use super::{Handle, driver};
use crate::base::finally::finally;

impl Handle {
    /// Runs `act`. Within it, the driver allows calls that the capture of a graph would forbid to this thread, such as those for memory.
    /// They are safe, because they touch no captured stream.
    pub fn in_relaxed_capture<R>(act: impl FnOnce() -> R) -> R {
        if !driver::is_present() {
            return act();
        }
        let mut before = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the driver, which is present, reads the new mode of this thread and writes the old one, for which there is room.
        let is_relaxed = unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut before) } == sys::CUresult::CUDA_SUCCESS;
        let _restore = is_relaxed.then(|| {
            // SAFETY: the driver reads one value and writes one, for which there is room.
            finally(move || _ = unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut before) })
        });
        act()
    }
}
