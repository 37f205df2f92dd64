//! Pages of a GPU: CUDA's virtual memory management.
//!
//! The handle of each piece is released as soon as it is mapped: the driver keeps the memory until it is unmapped.
#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::sys::{self, CUdevice_attribute, CUmemAccessDesc, CUmemAllocationProp, CUmemLocation, CUresult};
use cudarc::driver::{CudaContext, DriverError};

use super::describe;
use crate::base::error::{Error, Result};
use crate::device::VirtualMemory;

#[derive(Debug)]
pub(super) struct CudaPages {
    context: Arc<CudaContext>,
    granularity: u64,
}

impl CudaPages {
    /// The pages of a context's GPU; `None` where the GPU or the driver has no virtual memory management.
    pub(super) fn of(context: &Arc<CudaContext>) -> Option<CudaPages> {
        let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
        context.bind_to_thread().ok()?;
        if context.attribute(attribute).ok()? == 0 {
            return None;
        }
        let mut granularity = 0;
        let option = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
        // SAFETY: the driver reads the properties and writes one `size_t`.
        unsafe { sys::cuMemGetAllocationGranularity(&mut granularity, &properties(context), option) }.result().ok()?;
        (granularity >= 256).then(|| CudaPages { context: context.clone(), granularity: granularity as u64 })
    }

    /// Makes `call` with the context current.
    fn call(&self, bytes: u64, operation: &'static str, call: impl FnOnce() -> Result<(), DriverError>) -> Result<()> {
        let name = format_args!("cuda:{}", self.context.ordinal()).to_string();
        self.context.bind_to_thread().and_then(|()| call()).map_err(|error| match error.0 {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => Error::out_of_memory(name, bytes as usize, describe(error)),
            _ => Error::device_failure(name, operation, describe(error)),
        })
    }
}

// SAFETY: the driver gives reserved addresses to nobody else, and they are never freed; `map` returns when the pages are
// mapped and accessible.
unsafe impl VirtualMemory for CudaPages {
    fn granularity(&self) -> u64 {
        self.granularity
    }

    fn reserve(&self) -> Result<(u64, u64)> {
        // Trimmed and fragmented ranges need more addresses than memory; addresses cost nothing.
        let total = self.context.total_mem().unwrap_or(1 << 36) as u64;
        let bytes = total.saturating_mul(4).next_multiple_of(self.granularity);
        let mut address = 0;
        self.call(bytes, "reserving addresses", || {
            // SAFETY: the driver writes one address.
            unsafe { sys::cuMemAddressReserve(&mut address, bytes as usize, 0, 0, 0) }.result()
        })?;
        Ok((address, bytes))
    }

    fn map(&self, address: u64, bytes: u64) -> Result<()> {
        let (properties, size) = (properties(&self.context), bytes as usize);
        self.call(bytes, "mapping pages", || {
            let mut handle = 0;
            // SAFETY: the driver reads the properties and writes the handle.
            unsafe { sys::cuMemCreate(&mut handle, size, &properties, 0) }.result()?;
            // SAFETY: the addresses are reserved and unmapped, as the trait has it, and the handle is of `size` bytes.
            let mapped = unsafe { sys::cuMemMap(address, size, 0, handle, 0) }.result();
            // SAFETY: the handle is not used again; what is mapped keeps the memory.
            let released = unsafe { sys::cuMemRelease(handle) }.result();
            mapped?;
            // SAFETY: the driver reads one description of the access, for addresses that were just mapped.
            let accessible = unsafe { sys::cuMemSetAccess(address, size, &access(&self.context), 1) }.result();
            released.and(accessible).inspect_err(|_| {
                // SAFETY: mapped just above, and used by nobody.
                let _ = unsafe { sys::cuMemUnmap(address, size) };
            })
        })
    }

    unsafe fn unmap(&self, address: u64, bytes: u64) -> Result<()> {
        self.call(bytes, "unmapping pages", || {
            // SAFETY: by the caller's contract one `map` put these pages here, and no work uses them.
            unsafe { sys::cuMemUnmap(address, bytes as usize) }.result()
        })
    }
}

/// Plain memory of the GPU.
fn properties(context: &CudaContext) -> CUmemAllocationProp {
    // SAFETY: a C structure of numbers and a pointer that may be null; zero means "nothing special" throughout.
    let mut properties: CUmemAllocationProp = unsafe { std::mem::zeroed() };
    properties.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = location(context);
    properties
}

fn access(context: &CudaContext) -> CUmemAccessDesc {
    CUmemAccessDesc { location: location(context), flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE }
}

fn location(context: &CudaContext) -> CUmemLocation {
    // SAFETY: a C structure of numbers, for which zero is a value.
    let mut location: CUmemLocation = unsafe { std::mem::zeroed() };
    location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    // SAFETY: in every version of CUDA the `int id` follows the 4-byte type; newer bindings have it inside a union,
    // which is why it is not written by name.
    unsafe { (&raw mut location).cast::<i32>().add(1).write(context.cu_device()) };
    location
}
