//! The pool of the driver, from which it serves a device's allocations in stream order.
#![allow(unsafe_code)]

use cudarc::driver::{CudaContext, DriverError, result, sys};

/// What the pool of a device has.
#[derive(Clone, Copy)]
pub(crate) struct Pool {
    /// Bytes that it holds from the device.
    pub(crate) holds: u64,
    /// Those of them in allocations that were not freed.
    pub(crate) uses: u64,
}

impl Pool {
    /// The bytes of the pool that is current for a context's device.
    pub(crate) fn of(context: &CudaContext) -> Result<Pool, DriverError> {
        let bytes = |measure| {
            let mut bytes = 0u64;
            // SAFETY: the device's current pool lives as long as the device, so that its handle is good. Either measure
            // is a 64-bit number, for which there is room.
            unsafe {
                let pool = result::device::get_mem_pool(context.cu_device())?;
                sys::cuMemPoolGetAttribute(pool, measure, (&raw mut bytes).cast()).result()?;
            }
            Ok(bytes)
        };
        Ok(Pool {
            holds: bytes(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?,
            uses: bytes(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?,
        })
    }

    /// Bytes that it keeps for later allocations.
    pub(crate) fn idle(self) -> u64 {
        self.holds.saturating_sub(self.uses)
    }

    /// Gives what no allocation uses back to the device.
    pub(crate) fn trim(context: &CudaContext) -> Result<(), DriverError> {
        // SAFETY: the device's current pool lives as long as the device, so that its handle is good. What is in use stays in the
        // pool, and so does what work uses that the driver has not seen to be done.
        unsafe { sys::cuMemPoolTrimTo(result::device::get_mem_pool(context.cu_device())?, 0) }.result()
    }
}
