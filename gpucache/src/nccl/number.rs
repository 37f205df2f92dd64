//! The elements that NCCL reduces, and the ways to reduce them.

use std::ffi::c_int;

use crate::array::Element;

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

pub(super) use private::Typed;

/// The type of bytes, for calls that only move elements.
pub(super) const BYTE: c_int = u8::TYPE;

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
