//! The driver's default memory pool, which serves every allocation of cudarc.

use std::ffi::c_void;
use std::sync::Arc;

use anyhow::Result;
use cudarc::driver::sys::{CUmemPool_attribute, CUmemoryPool};
use cudarc::driver::{CudaContext, result};
use serde::Serialize;

pub(crate) struct Pool(CUmemoryPool);

/// Bytes that the pool reserves, and bytes in use: now, and at most.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct PoolBytes {
    reserved: u64,
    pub(crate) reserved_most: u64,
    used: u64,
    pub(crate) used_most: u64,
}

impl Pool {
    pub(crate) fn of(context: &Arc<CudaContext>) -> Result<Self> {
        // SAFETY: cudarc has created a context on this device, so the device is valid.
        Ok(Self(unsafe { result::device::get_default_mem_pool(context.cu_device()) }?))
    }

    /// Keeps the pool from freeing memory when the program waits for a stream, which is the pool's default.
    pub(crate) fn keep_everything(&self) -> Result<()> {
        let (attribute, mut threshold) = (CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, u64::MAX);
        // SAFETY: a device's default pool is never destroyed, and the value of this attribute is a `cuuint64_t`.
        Ok(unsafe { result::mem_pool::set_attribute(self.0, attribute, (&raw mut threshold).cast::<c_void>()) }?)
    }

    pub(crate) fn bytes(&self) -> Result<PoolBytes> {
        Ok(PoolBytes {
            reserved: self.get(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?,
            reserved_most: self.get(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)?,
            used: self.get(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?,
            used_most: self.get(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH)?,
        })
    }

    fn get(&self, attribute: CUmemPool_attribute) -> Result<u64> {
        let mut bytes = 0u64;
        // SAFETY: a device's default pool is never destroyed, and the values of all attributes used here are `cuuint64_t`.
        unsafe { result::mem_pool::get_attribute(self.0, attribute, (&raw mut bytes).cast::<c_void>()) }?;
        Ok(bytes)
    }
}
