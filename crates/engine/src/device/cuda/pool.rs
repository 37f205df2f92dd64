//! The driver's pool, which serves the allocations of a device in stream order.
#![allow(unsafe_code)]

use cudarc::driver::{CudaContext, DriverError, result, sys};

/// The bytes that the current pool of a context's device reserves, and those of them in allocations that were not freed.
pub(super) fn bytes(context: &CudaContext) -> Result<[u64; 2], DriverError> {
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
    Ok([
        bytes(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?,
        bytes(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?,
    ])
}

/// Returns memory that no allocation uses to the device.
pub(super) fn trim(context: &CudaContext) -> Result<(), DriverError> {
    // SAFETY: the device's current pool lives as long as the device, so its handle is valid. Memory that is in use stays in the pool.
    // So does memory whose work may still run, as far as the driver knows.
    unsafe { sys::cuMemPoolTrimTo(result::device::get_mem_pool(context.cu_device())?, 0) }.result()
}
