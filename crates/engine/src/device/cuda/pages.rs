//! Pages of a GPU: CUDA's virtual memory management.
//!
//! The handle of each piece is released as soon as it is mapped: the driver keeps the memory until it is unmapped. Kept
//! until then it would cost the same call later, and a table. Access is granted, and pages are unmapped, by one call for
//! all pieces that lie side by side, as the driver allows for whole pieces: so a piece costs three calls, and a stretch
//! one more to map and one to unmap.
#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::sys::{self, CUdevice_attribute, CUmemAccessDesc, CUmemAllocationProp, CUmemLocation, CUresult};
use cudarc::driver::{CudaContext, DriverError, result};

use super::driver;
use super::errors::describe;
use super::own_calls::own_call;
use crate::base::error::{Error, Result};
use crate::device::{ALIGNMENT, Unfinished, VirtualMemory};

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
        // SAFETY: the driver reads the properties, a temporary of this call, and writes one `size_t`, for which there
        // is room.
        unsafe { sys::cuMemGetAllocationGranularity(&mut granularity, &plain_memory(context), option) }
            .result()
            .ok()?;
        let capacity = context.total_mem().unwrap_or(0) as u64;
        (granularity as u64 >= ALIGNMENT).then(|| CudaPages {
            context: context.clone(),
            granularity: granularity as u64,
            capacity,
        })
    }

    /// Makes `call` with the context current.
    fn call(&self, bytes: u64, operation: &'static str, call: impl FnOnce() -> Result<(), DriverError>) -> Result<()> {
        let name = format_args!("cuda:{}", self.context.ordinal()).to_string();
        driver::bind(&self.context).and_then(|()| call()).map_err(|error| match error.0 {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                let short = Error::out_of_memory(name, bytes as usize, describe(error));
                if self.capacity > 0 { short.of_capacity(self.capacity) } else { short }
            }
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

    fn available(&self) -> Option<u64> {
        driver::bind(&self.context).ok()?;
        own_call(result::mem_get_info).ok().map(|(free, _)| free as u64)
    }

    fn reserve(&self) -> Result<(u64, u64)> {
        // Trimmed and fragmented ranges need more addresses than memory; addresses cost nothing.
        let total = self.capacity().unwrap_or(1 << 36);
        let bytes = total.saturating_mul(4).next_multiple_of(self.granularity);
        let mut address = 0;
        self.call(bytes, "reserving addresses", || {
            // SAFETY: the driver writes one address, for which there is room. It chooses addresses that nothing has.
            unsafe { sys::cuMemAddressReserve(&mut address, bytes as usize, 0, 0, 0) }.result()
        })?;
        Ok((address, bytes))
    }

    fn map_pieces(&self, address: u64, pieces: &[u64]) -> Result<(), Unfinished> {
        let memory = plain_memory(&self.context);
        let mapped = self.call(pieces.iter().sum(), "mapping pages", || {
            let mut mapping = Mapping { address, bytes: 0 };
            let mapped = pieces.iter().try_for_each(|&bytes| mapping.extend(bytes as usize, &memory));
            mapped.and_then(|()| mapping.make_accessible(memory.location)).inspect_err(|_| {
                // What the driver refuses to unmap is not used: it is lost, and so are its addresses.
                let _ = mapping.unmap();
            })
        });
        mapped.map_err(|error| Unfinished { mapped: 0, error })
    }

    unsafe fn unmap_pieces(&self, address: u64, pieces: &[u64]) -> Result<(), Unfinished> {
        let bytes = pieces.iter().sum();
        // By the caller's contract these pieces are mapped and side by side, and no work uses them.
        let mapping = Mapping { address, bytes: bytes as usize };
        let unmapped = self.call(bytes, "unmapping pages", || mapping.unmap());
        unmapped.map_err(|error| Unfinished { mapped: pieces.len(), error })
    }
}

/// Pieces that are mapped side by side in addresses that were reserved, and that nobody uses. No drop unmaps them.
///
/// Invariants: `[address, address + bytes)` is whole pieces. It lies within what `reserve` gave, as does what follows
/// it, which has no memory: the caller of `map_pieces` says so of all that is to be mapped.
struct Mapping {
    address: u64,
    bytes: usize,
}

impl Mapping {
    /// Puts a piece of memory behind the next addresses, not accessible yet. The context is current.
    fn extend(&mut self, bytes: usize, memory: &CUmemAllocationProp) -> Result<(), DriverError> {
        let end = self.address + self.bytes as u64;
        let mut handle = 0;
        // SAFETY: the driver reads the properties and writes the handle of an allocation of `bytes` bytes. These are
        // mapped as a whole at the end of the mapping, where addresses are reserved and have no memory; the driver
        // refuses any others. The handle is released once, whatever became of that, and not used again: what is mapped
        // keeps the memory.
        let released = unsafe {
            sys::cuMemCreate(&mut handle, bytes, memory, 0).result()?;
            let mapped = sys::cuMemMap(end, bytes, 0, handle, 0).result();
            let released = sys::cuMemRelease(handle).result();
            mapped?;
            released
        };
        self.bytes += bytes;
        released
    }

    /// Lets the GPU that the memory lies on read and write it.
    fn make_accessible(&self, location: CUmemLocation) -> Result<(), DriverError> {
        let flags = sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        // SAFETY: the driver reads one description of the access, which is a temporary of this call; all addresses of
        // the mapping have memory.
        unsafe { sys::cuMemSetAccess(self.address, self.bytes, &CUmemAccessDesc { location, flags }, 1) }.result()
    }

    /// Takes the memory away again; if that fails, all of it is still there.
    fn unmap(&self) -> Result<(), DriverError> {
        if self.bytes == 0 {
            return Ok(());
        }
        // SAFETY: the mapping is whole pieces, mapped in addresses that are reserved for ever, and nobody uses them.
        unsafe { sys::cuMemUnmap(self.address, self.bytes) }.result()
    }
}

/// Plain memory of the context's GPU.
fn plain_memory(context: &CudaContext) -> CUmemAllocationProp {
    // SAFETY: it is a C structure of numbers, enumerations that have a zero each, and a pointer that may be null: zero
    // bytes are a value of it, which means "nothing special" throughout. In every version of CUDA the `int id` of a
    // location follows its 4-byte type, so that the second `i32` of a location lies within it; newer bindings have it
    // inside a union, which is why it is not written by name.
    unsafe {
        let mut memory: CUmemAllocationProp = std::mem::zeroed();
        memory.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        memory.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        (&raw mut memory.location).cast::<i32>().add(1).write(context.cu_device());
        memory
    }
}
