//! One operation of NCCL as plain numbers.
#![allow(unsafe_code)]

use std::ffi::c_int;

use super::library::{Code, Library, RawComm, RawStream};
use super::number::{BYTE, Number};
use crate::array::Element;

/// An operation on memory of the communicator's GPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) kind: Kind,
    /// The address of the elements that the operation reads.
    pub(super) from: u64,
    /// The address of the elements that it writes.
    pub(super) to: u64,
    /// The number of elements, as NCCL counts them for this kind.
    pub(super) count: usize,
    /// NCCL's number of their type.
    pub(super) dtype: c_int,
}

/// The kind of an operation, with NCCL's number of the reduction, and the root or the other rank.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    AllReduce { by: c_int },
    Reduce { by: c_int, root: c_int },
    ReduceScatter { by: c_int },
    AllGather,
    Broadcast { root: c_int },
    Send { to: c_int },
    Recv { from: c_int },
}

impl Operation {
    /// An operation on so many numbers of a type, whose arrays are still unknown.
    pub(super) fn numbers<T: Number>(kind: Kind, count: usize) -> Operation {
        Operation { kind, from: 0, to: 0, count, dtype: T::TYPE }
    }

    /// The same for an operation that moves elements of any type as bytes.
    pub(super) fn bytes<T: Element>(kind: Kind, count: usize) -> Operation {
        Operation { kind, from: 0, to: 0, count: count * size_of::<T>(), dtype: BYTE }
    }

    /// Its name in messages.
    pub(super) fn name(&self) -> &'static str {
        match self.kind {
            Kind::AllReduce { .. } => "all_reduce",
            Kind::Reduce { .. } => "reduce",
            Kind::ReduceScatter { .. } => "reduce_scatter",
            Kind::AllGather => "all_gather",
            Kind::Broadcast { .. } => "broadcast",
            Kind::Send { .. } => "send",
            Kind::Recv { .. } => "recv",
        }
    }

    /// Gives the operation to NCCL.
    ///
    /// # Safety
    /// The communicator and the stream are alive, and of one GPU. The memory has as many elements as the kind needs, and stays allocated
    /// until the stream has done the operation. The stream is ordered with all other uses of the memory.
    pub(super) unsafe fn queue(&self, library: &Library, comm: RawComm, stream: RawStream) -> Code {
        let &Operation { kind, count, dtype, .. } = self;
        let (from, to) = (self.from as *const _, self.to as *mut _);
        // SAFETY: the caller promises what each function of NCCL requires: valid handles, and memory for `count` elements of `dtype` on
        // each side that the kind uses, or that many for each rank.
        let code = unsafe {
            match kind {
                Kind::AllReduce { by } => (library.all_reduce)(from, to, count, dtype, by, comm, stream),
                Kind::Reduce { by, root } => (library.reduce)(from, to, count, dtype, by, root, comm, stream),
                Kind::ReduceScatter { by } => (library.reduce_scatter)(from, to, count, dtype, by, comm, stream),
                Kind::AllGather => (library.all_gather)(from, to, count, dtype, comm, stream),
                Kind::Broadcast { root } => (library.broadcast)(from, to, count, dtype, root, comm, stream),
                Kind::Send { to } => (library.send)(from, count, dtype, to, comm, stream),
                Kind::Recv { from } => (library.recv)(to, count, dtype, from, comm, stream),
            }
        };
        Code(code)
    }
}
