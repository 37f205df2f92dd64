//! Pages of a GPU: CUDA's virtual memory management.
//!
//! The handle of each piece is released as soon as it is mapped: the driver keeps the memory until it is unmapped. Kept
//! until then it would cost the same call later, and a table. Access is granted, and pages are unmapped, by one call for
//! all pieces that lie side by side, as the driver allows for whole pieces: so a piece costs three calls, and a stretch
//! one more to map and one to unmap.
#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::sys::{self, CUdevice_attribute, CUmemAccessDesc, CUmemAllocationProp, CUmemLocation, CUresult};
use cudarc::driver::{CudaContext, DriverError};

use super::describe;
use crate::base::error::{Error, Result};
use crate::device::{Unfinished, VirtualMemory};

#[derive(Debug)]
pub(super) struct CudaPages {
    context: Arc<CudaContext>,
    granularity: u64,
    /// What the GPU has; 0 if it does not say.
    capacity: u64,
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
        let capacity = context.total_mem().unwrap_or(0) as u64;
        (granularity >= 256).then(|| CudaPages { context: context.clone(), granularity: granularity as u64, capacity })
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

// SAFETY: the driver gives reserved addresses to nobody else, and they are never freed; `map` and `map_pieces` return when
// the pages are mapped and accessible, and say of none in an error that they are.
unsafe impl VirtualMemory for CudaPages {
    fn granularity(&self) -> u64 {
        self.granularity
    }

    fn capacity(&self) -> Option<u64> {
        Some(self.capacity).filter(|&bytes| bytes > 0)
    }

    fn reserve(&self) -> Result<(u64, u64)> {
        // Trimmed and fragmented ranges need more addresses than memory; addresses cost nothing.
        let total = self.capacity().unwrap_or(1 << 36);
        let bytes = total.saturating_mul(4).next_multiple_of(self.granularity);
        let mut address = 0;
        self.call(bytes, "reserving addresses", || {
            // SAFETY: the driver writes one address.
            unsafe { sys::cuMemAddressReserve(&mut address, bytes as usize, 0, 0, 0) }.result()
        })?;
        Ok((address, bytes))
    }

    fn map(&self, address: u64, bytes: u64) -> Result<()> {
        self.map_pieces(address, &[bytes]).map_err(|unfinished| unfinished.error)
    }

    unsafe fn unmap(&self, address: u64, bytes: u64) -> Result<()> {
        // SAFETY: one piece, for which the caller promised the same.
        unsafe { self.unmap_pieces(address, &[bytes]) }.map_err(|unfinished| unfinished.error)
    }

    fn map_pieces(&self, address: u64, pieces: &[u64]) -> Result<(), Unfinished> {
        let (properties, access) = (properties(&self.context), access(&self.context));
        let mut end = address;
        let mapped = self.call(pieces.iter().sum(), "mapping pages", || {
            let mapped = pieces.iter().try_for_each(|&bytes| {
                map_piece(end, bytes as usize, &properties)?;
                end += bytes;
                Ok(())
            });
            let accessible = mapped.and_then(|()| {
                // SAFETY: the driver reads one description of the access, for addresses that were all just mapped.
                unsafe { sys::cuMemSetAccess(address, (end - address) as usize, &access, 1) }.result()
            });
            accessible.inspect_err(|_| {
                if end > address {
                    // SAFETY: whole pieces, mapped just above and used by nobody. What the driver refuses to unmap is
                    // not used: it is lost, and so are its addresses.
                    let _ = unsafe { sys::cuMemUnmap(address, (end - address) as usize) };
                }
            })
        });
        mapped.map_err(|error| Unfinished { mapped: 0, error })
    }

    unsafe fn unmap_pieces(&self, address: u64, pieces: &[u64]) -> Result<(), Unfinished> {
        let bytes = pieces.iter().sum();
        let unmapped = self.call(bytes, "unmapping pages", || {
            // SAFETY: by the caller's contract these pieces are mapped, and no work uses them; they lie side by side, so
            // that they are all that is mapped in this stretch.
            unsafe { sys::cuMemUnmap(address, bytes as usize) }.result()
        });
        unmapped.map_err(|error| Unfinished { mapped: pieces.len(), error })
    }
}

/// Puts memory behind addresses, not accessible yet; the context is current.
fn map_piece(address: u64, bytes: usize, properties: &CUmemAllocationProp) -> Result<(), DriverError> {
    let mut handle = 0;
    // SAFETY: the driver reads the properties and writes the handle.
    unsafe { sys::cuMemCreate(&mut handle, bytes, properties, 0) }.result()?;
    // SAFETY: the addresses are reserved and unmapped, as the trait has it, and the handle is of `bytes` bytes.
    let mapped = unsafe { sys::cuMemMap(address, bytes, 0, handle, 0) }.result();
    // SAFETY: the handle is not used again; what is mapped keeps the memory.
    let released = unsafe { sys::cuMemRelease(handle) }.result();
    mapped?;
    released.inspect_err(|_| {
        // SAFETY: mapped just above as a whole, and used by nobody.
        let _ = unsafe { sys::cuMemUnmap(address, bytes) };
    })
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
