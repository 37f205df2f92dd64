//! The driver's pool, which serves the allocations of a device in stream order.
#![allow(unsafe_code)]

use cudarc::driver::{CudaContext, DriverError, result, sys};

/// The memory of a device's pool.
#[derive(Clone, Copy)]
pub(crate) struct Pool {
    /// Bytes that it reserves from the device.
    pub(crate) holds: u64,
    /// Those of these bytes that are in allocations which were not freed.
    pub(crate) uses: u64,
}

impl Pool {
    /// The figures of the current pool of a context's device.
    pub(crate) fn of(context: &CudaContext) -> Result<Pool, DriverError> {
        let bytes = |measure| {
            let mut bytes = 0u64;
            // SAFETY: the device's current pool lives as long as the device, so its handle is valid. Each attribute is a 64-bit number, for
            // which there is room.
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

    /// Bytes that the pool keeps for later allocations.
    pub(crate) fn idle(self) -> u64 {
        self.holds.saturating_sub(self.uses)
    }

    /// Returns memory that no allocation uses to the device.
    pub(crate) fn trim(context: &CudaContext) -> Result<(), DriverError> {
        // SAFETY: the device's current pool lives as long as the device, so its handle is valid. Memory that is in use stays in the pool.
        // So does memory whose work may still run, as far as the driver knows.
        unsafe { sys::cuMemPoolTrimTo(result::device::get_mem_pool(context.cu_device())?, 0) }.result()
    }
}
