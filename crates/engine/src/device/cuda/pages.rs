//! Pages of a GPU: CUDA's virtual memory management.
//!
//! The handle of a piece is released as soon as the piece is mapped; the driver keeps the memory until it is unmapped. A later release
//! would cost the same call, and a table of handles. The driver can grant access, and unmap, with one call for all pieces that lie side by
//! side. So each piece costs three calls. Each stretch of pieces costs one more call to map and one to unmap.
#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::sys::{self, CUdevice_attribute, CUmemAccessDesc, CUmemAllocationProp, CUresult};
use cudarc::driver::{CudaContext, DriverError, result};

use super::driver;
use super::errors::{describe, failure};
use super::own_calls::own_call;
use crate::base::error::{Error, Result};
use crate::base::sync::{Mutex, lock};
use crate::device::{ALIGNMENT, Unfinished, VirtualMemory};

#[derive(Debug)]
pub(super) struct CudaPages {
    context: Arc<CudaContext>,
    granularity: u64,
    /// The memory of the GPU in bytes; 0 if the driver does not report it.
    capacity: u64,
}

impl CudaPages {
    /// The pages of a context's GPU; `None` if the GPU or the driver has no virtual memory management.
    pub(super) fn of(context: &Arc<CudaContext>) -> Option<CudaPages> {
        let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
        context.bind_to_thread().ok()?;
        if context.attribute(attribute).ok()? == 0 {
            return None;
        }
        let mut granularity = 0;
        let option = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
        // SAFETY: the driver reads the properties, a temporary of this call, and writes one `size_t`, for which there is room.
        unsafe { sys::cuMemGetAllocationGranularity(&mut granularity, &plain_memory(context.cu_device()), option) }
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
        driver::bind(&self.context).and_then(|()| call()).map_err(|error| match error.0 {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                let short = Error::out_of_memory(
                    format_args!("cuda:{}", self.context.ordinal()),
                    bytes as usize,
                    describe(error),
                );
                if self.capacity > 0 { short.of_capacity(self.capacity) } else { short }
            }
            _ => failure(&self.context, operation, error),
        })
    }
}

// SAFETY: the driver gives reserved addresses to nobody else, and they are never freed. `map_pieces` returns when the pages are mapped and
// accessible, and its errors report no piece as mapped.
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
        // Trimmed and fragmented ranges need more addresses than memory. Addresses cost nothing.
        let total = self.capacity().unwrap_or(1 << 36);
        let bytes = total.saturating_mul(4).next_multiple_of(self.granularity);
        let mut address = 0;
        self.call(bytes, "reserving addresses", || {
            // SAFETY: the driver writes one address, for which there is room. It chooses addresses that are not in use.
            unsafe { sys::cuMemAddressReserve(&mut address, bytes as usize, 0, 0, 0) }.result()
        })?;
        Ok((address, bytes))
    }

    fn map_pieces(&self, address: u64, pieces: &[u64]) -> Result<(), Unfinished> {
        let memory = plain_memory(self.context.cu_device());
        let mapped = self.call(pieces.iter().sum(), "mapping pages", || {
            let mut mapping = Mapping { address, bytes: 0 };
            let mapped = pieces.iter().try_for_each(|&bytes| mapping.extend(bytes as usize, &memory));
            mapped.and_then(|()| mapping.make_accessible(self.context.cu_device())).inspect_err(|_| {
                // Pieces that the driver refuses to unmap are lost, with their addresses; nobody uses them.
                let _ = mapping.unmap();
            })
        });
        mapped.map_err(|error| Unfinished { mapped: 0, error })
    }

    fn share(&self) -> bool {
        let (mut sharing, own) = (lock(&SHARING), self.context.cu_device());
        let is_new = !sharing.contains(&own);
        if is_new {
            sharing.push(own);
        }
        is_new && sharing.len() > 1
    }

    fn renew_access(&self, address: u64, bytes: u64) -> Result<()> {
        let mapping = Mapping { address, bytes: bytes as usize };
        self.call(bytes, "sharing pages", || mapping.make_accessible(self.context.cu_device()))
    }

    unsafe fn unmap_pieces(&self, address: u64, pieces: &[u64]) -> Result<(), Unfinished> {
        let bytes = pieces.iter().sum();
        // The caller promises that these pieces are mapped side by side, and that no work uses them.
        let mapping = Mapping { address, bytes: bytes as usize };
        let unmapped = self.call(bytes, "unmapping pages", || mapping.unmap());
        unmapped.map_err(|error| Unfinished { mapped: pieces.len(), error })
    }
}

/// Pieces that are mapped side by side at reserved addresses and that nobody uses. No drop unmaps them.
///
/// Invariants: `[address, address + bytes)` consists of whole pieces, within the addresses that `reserve` returned. The addresses behind it
/// also lie there and have no memory, as far as pieces are still to be mapped: the caller of `map_pieces` promises this.
struct Mapping {
    address: u64,
    bytes: usize,
}

impl Mapping {
    /// Maps a piece of memory behind the next addresses, without access yet. The context is current.
    fn extend(&mut self, bytes: usize, memory: &CUmemAllocationProp) -> Result<(), DriverError> {
        let end = self.address + self.bytes as u64;
        let mut handle = 0;
        // SAFETY: the driver reads the properties and writes the handle of an allocation of `bytes` bytes. The allocation is mapped as a
        // whole at the end of the mapping, where addresses are reserved and have no memory; the driver refuses other addresses. The handle
        // is released once, whether the mapping succeeded or not, and is not used again: a mapping keeps its memory.
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

    /// Allows the GPU of the memory to read and write it, and all others that share memory with it.
    fn make_accessible(&self, own: sys::CUdevice) -> Result<(), DriverError> {
        self.allow(own)?;
        let others: Vec<_> = lock(&SHARING).iter().copied().filter(|&gpu| gpu != own).collect();
        // A GPU that cannot reach the memory does without it.
        others.into_iter().for_each(|gpu| _ = self.allow(gpu));
        Ok(())
    }

    fn allow(&self, gpu: sys::CUdevice) -> Result<(), DriverError> {
        let flags = sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        let access = CUmemAccessDesc { location: plain_memory(gpu).location, flags };
        // SAFETY: the driver reads one description of the access. All addresses of the mapping have memory.
        unsafe { sys::cuMemSetAccess(self.address, self.bytes, &access, 1) }.result()
    }

    /// Unmaps all pieces. If that fails, all of them are still mapped.
    fn unmap(&self) -> Result<(), DriverError> {
        if self.bytes == 0 {
            return Ok(());
        }
        // SAFETY: the mapping consists of whole pieces, mapped at addresses that stay reserved forever, and nobody uses them.
        unsafe { sys::cuMemUnmap(self.address, self.bytes) }.result()
    }
}

/// The GPUs whose work uses memory of each other. PyTorch and CuPy copy between GPUs by plain copies, and by kernels that read the memory of
/// another GPU.
static SHARING: Mutex<Vec<sys::CUdevice>> = Mutex::new(Vec::new());

/// The properties of plain memory on a GPU.
fn plain_memory(gpu: sys::CUdevice) -> CUmemAllocationProp {
    // SAFETY: this is a C structure of numbers, enumerations that have a zero variant, and a pointer that may be null. So zero bytes are a
    // valid value of it, and zero means "nothing special" in each field. In every version of CUDA, the `int id` of a location follows its
    // 4-byte type, so the second `i32` of a location lies within it. Newer bindings have the id inside a union, so it cannot be written by
    // name.
    unsafe {
        let mut memory: CUmemAllocationProp = std::mem::zeroed();
        memory.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        memory.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        (&raw mut memory.location).cast::<i32>().add(1).write(gpu);
        memory
    }
}
