//! One operation of NCCL as plain numbers; the elements that NCCL reduces, and the ways to reduce them.
#![allow(unsafe_code)]

use std::ffi::c_int;

use super::library::{Code, Library, RawComm, RawStream};
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

/// A number that NCCL can reduce: `f32`, `f64`, `i8`, `u8`, `i32`, `u32`, `i64`, `u64`, and with the feature `half` also `f16` and `bf16`.
///
/// Calls that only move elements ([`all_gather`](super::Communicator::all_gather), [`broadcast`](super::Communicator::broadcast),
/// [`send`](super::Communicator::send), [`recv`](super::Communicator::recv)) take any [`Element`].
///
/// ```no_run
/// use gpucache::{nccl::{Communicator, Number, Reduction}, prelude::*};
///
/// fn averaged<T: Number>(ranks: &Communicator, gradient: &mut Array<T, Cuda>) -> gpucache::Result<()> {
///     ranks.all_reduce_in_place(gradient, Reduction::Mean)
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "NCCL cannot reduce elements of type `{Self}`",
    note = "it reduces f32, f64, i8, u8, i32, u32, i64 and u64, and f16 and bf16 with gpucache's feature `half`"
)]
pub trait Number: Element + private::Typed {}

mod private {
    /// NCCL's number of a type (`ncclDataType_t`).
    pub trait Typed {
        #[doc(hidden)]
        const TYPE: std::ffi::c_int;
    }
}

use private::Typed;

/// The type of bytes, for calls that only move elements.
const BYTE: c_int = u8::TYPE;

macro_rules! numbers {
    ($($number:ty = $type:literal)*) => { $(
        impl Typed for $number {
            const TYPE: c_int = $type;
        }
        #[diagnostic::do_not_recommend]
        impl Number for $number {}
    )* };
}

numbers! { i8 = 0 u8 = 1 i32 = 2 u32 = 3 i64 = 4 u64 = 5 f32 = 7 f64 = 8 }
#[cfg(feature = "half")]
numbers! { half::f16 = 6 half::bf16 = 9 }

/// How a collective combines the elements of all ranks.
///
/// ```
/// use gpucache::nccl::Reduction;
///
/// let gradients = Reduction::Mean; // of the batches of all ranks
/// assert_ne!(gradients, Reduction::Sum);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
// The values are those of NCCL (`ncclRedOp_t`).
pub enum Reduction {
    /// The sum.
    Sum = 0,
    /// The sum, divided by the number of ranks. Integers are rounded.
    Mean = 4,
    /// The least.
    Min = 3,
    /// The greatest.
    Max = 2,
    /// The product.
    Product = 1,
}
