//! Arrays in memory that is registered with a communicator.
//!
//! NCCL registers memory that lies in one physical piece, can be exported to other processes, and is accessible to other GPUs. Pages of a
//! range are not like that, and they move. So a registered array has memory of its own, which NCCL allocates. It lies outside the range:
//! nothing moves it, gives it back or evicts it while the array lives. It counts for the device and its limits like any other memory.
#![allow(unsafe_code)]

use std::ptr::null_mut;
use std::sync::Arc;

use super::communicator::Communicator;
use super::library::{Code, Library};
use super::link::Link;
use crate::array::{Array, Element, Shape};
use crate::device::{Cuda, Device};
use gpucache_engine::{Error, Result};

/// NCCL allocates in pages of the driver's recommended granularity, which is this many bytes on all GPUs so far.
const PAGE_BYTES: u64 = 2 << 20;

/// Memory of NCCL and its registration. The drop ends both.
///
/// Invariants: the memory was allocated by `ncclMemAlloc`, and only the drop frees it. The handle is the registration of this memory. The code that
/// drops this has waited for all work that uses the memory.
struct Piece {
    link: Arc<Link>,
    /// The stream whose device counts the memory.
    home: Cuda,
    address: u64,
    bytes: u64,
    registration: Option<usize>,
}

impl Communicator {
    /// An array of zeros in memory that is registered with this communicator, for gradient buckets. NCCL then reads and writes the array
    /// itself instead of buffers of its own, if the connection between the GPUs allows that.
    ///
    /// The array lies on `stream`, usually that of the computation, and is used like any other one. It belongs to no scope: allocate it
    /// once. It has one piece of physical memory of its own, in pages of 2 MiB, which stays where it is and never leaves for host memory.
    /// Its drop waits for the work that uses it, and aborts the communicator if that takes longer than its timeout. Drop it before the
    /// communicator. Either all ranks pass registered arrays to a collective, or none does.
    ///
    /// # Errors
    /// [`is_unavailable`](Error::is_unavailable) if NCCL refuses the registration, or `stream` is one of another GPU;
    /// [`is_out_of_memory`](Error::is_out_of_memory); [`is_invalid_shape`](Error::is_invalid_shape) if the size in bytes overflows. An
    /// array of [`Array::zeros`] always works instead.
    ///
    /// ```no_run
    /// use gpucache::{nccl::Communicator, prelude::*};
    ///
    /// fn bucket(ranks: &Communicator, gpu: &Cuda, len: usize) -> gpucache::Result<Array<f32, Cuda>> {
    ///     match ranks.registered_zeros(gpu, len) {
    ///         Err(error) if error.is_unavailable() => gpu.zeros(len),
    ///         array => array,
    ///     }
    /// }
    /// ```
    pub fn registered_zeros<T: Element>(&self, stream: &Cuda, shape: impl Shape) -> Result<Array<T, Cuda>> {
        let dims = shape.dims();
        let bytes = Array::<T, Cuda>::bytes_of_shape(dims)?;
        if bytes == 0 {
            return Array::zeros(stream, dims);
        }
        let context = stream.stream().context();
        self.check_gpu("a stream for registered memory", context, "pass a stream of the communicator's GPU")?;
        let piece = self.registered_piece(stream, bytes as u64, dims)?;
        let address = piece.address;
        let owner = Box::new(|home: &Cuda| piece.free_after_uses(home));
        // SAFETY: NCCL's memory has `bytes` bytes at `address` or more, in pages, and nobody else knows it. The owner has the piece, which frees
        // the memory in its drop only. The fill writes every element.
        let mut array = unsafe { Array::owned_by(stream, dims, address, owner)? };
        array.block.fill(&[0])?;
        Ok(array)
    }

    /// Memory on the GPU of `stream`, registered.
    fn registered_piece(&self, stream: &Cuda, bytes: u64, dims: &[usize]) -> Result<Piece> {
        let (library, bytes) = (Library::get()?, bytes.next_multiple_of(PAGE_BYTES));
        // Not under the lock of `turn`: if memory is short, handlers of the program run.
        let address = stream.stream_handle().count_call(bytes, dims, || allocated(library, stream, bytes))?;
        let mut piece = Piece { link: self.link.clone(), home: stream.clone(), address, bytes, registration: None };
        let turn = self.turn();
        // SAFETY: the memory is allocated until the piece is dropped, which deregisters it first.
        let registered = unsafe { self.link.register(address, bytes as usize) };
        drop(turn);
        piece.registration = Some(registered.map_err(|error| {
            if let Some(lost) = self.failure() {
                return lost;
            }
            let remedy = "use an array of `Array::zeros` on all ranks: NCCL then copies by way of buffers of its own";
            Error::unavailable("registered memory", error, remedy)
        })?);
        Ok(piece)
    }
}

/// The address of new memory on the GPU of a stream.
fn allocated(library: &Library, stream: &Cuda, bytes: u64) -> Result<u64> {
    stream.0.make_current();
    let mut memory = null_mut();
    // SAFETY: the function writes a pointer, for which there is room, if it succeeds.
    let code = Code(unsafe { (library.allocate)(&mut memory, bytes as usize) });
    if code == Code::SUCCESS {
        return Ok(memory as u64);
    }
    // NCCL does not say whether memory is short.
    let free = stream.stream().context().mem_get_info().map_or(u64::MAX, |(free, _)| free as u64);
    match free < bytes {
        true => Err(Error::out_of_memory(format_args!("{stream:?}"), bytes as usize, "NCCL found no memory")),
        false => Err(code.error("NCCL", "allocating memory")),
    }
}

impl Piece {
    /// Makes the calling thread wait for all work of `home`, and frees the memory. A collective whose other ranks ended would never end. After the
    /// communicator's timeout, an abort ends it. Work of another communicator is not ended by that: if it takes as long again, the memory
    /// is never freed.
    fn free_after_uses(self, home: &Cuda) -> Result<()> {
        if let Err(error) = self.link.wait_for(home, self.link.timeout) {
            self.link.abort(&format!("a registered array was dropped, and its work could not be waited for: {error}"));
        }
        if let Err(error) = self.link.wait_for_others(home) {
            std::mem::forget(self);
            return Err(error);
        }
        Ok(())
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.home.0.make_current();
        if let Some(registration) = self.registration {
            // SAFETY: it is the handle of this piece, which is dropped once, and no work uses the memory any more.
            unsafe { self.link.deregister(registration) };
        }
        let Ok(library) = Library::get() else { return };
        // SAFETY: `allocated` got the memory from NCCL, it is freed only here, and no work uses it any more.
        let code = Code(unsafe { (library.free)(self.address as *mut _) });
        match code.is_error() {
            true => self.home.stream_handle().keep(code.error("NCCL", "freeing memory")),
            false => self.home.stream_handle().uncount(self.bytes),
        }
    }
}
