//! What an array can be made of.
#![allow(unsafe_code)]

use std::fmt::Debug;

/// A type that arrays can hold: plain data, the same on the host and on devices.
///
/// Numbers, `bool`, and arrays `[T; N]` of elements are; by the features `half`, `float8` and `num-complex` those crates'
/// numbers too. A type of one's own becomes one by a line, as below. What is `Pod` in `bytemuck` keeps this contract, if its
/// layout is fixed and it is aligned to at most 256 bytes; it needs that line all the same, since a rule for all of them would
/// leave no room for the types that are elements here.
///
/// # Safety
/// The type has no padding bytes, and all bytes zero is a value of it. On devices its layout must be fixed
/// (`#[repr(C)]` or `#[repr(transparent)]`). It is aligned to at most 256 bytes, or it does not compile as an element.
///
/// ```
/// use gpucache::{Element, prelude::*};
///
/// #[derive(Clone, Copy, Debug)]
/// #[repr(C)]
/// struct Point { x: f32, y: f32 }
/// // SAFETY: two floats without padding, and zero bytes are the point (0, 0).
/// unsafe impl Element for Point {}
///
/// let points = Array::full(&Host::new(), 8, Point { x: 1.0, y: 2.0 })?;
/// assert_eq!(points[7].y, 2.0);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an element of an array: use a number, `bool`, or a `Copy` and `Debug` type with `unsafe impl Element`",
    note = "numbers of the crates `half`, `float8` and `num-complex` are elements by gpucache's features of these names"
)]
pub unsafe trait Element: Copy + Debug + Send + Sync + 'static {}

macro_rules! elements {
    ($($element:ty)*) => { $(
        // SAFETY: a number (or `bool`), without padding, for which zero bytes are a value.
        #[diagnostic::do_not_recommend]
        unsafe impl Element for $element {}
    )* };
}

elements! { bool i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64 }
#[cfg(feature = "half")]
elements! { half::f16 half::bf16 }
#[cfg(feature = "float8")]
elements! { float8::F8E4M3 float8::F8E5M2 }

// SAFETY: elements follow each other without padding, and each of them may be zero bytes.
#[diagnostic::do_not_recommend]
unsafe impl<T: Element, const N: usize> Element for [T; N] {}

// SAFETY: two elements of one type, in the order of a `#[repr(C)]` struct, between which there is no padding; each of them may be
// zero bytes.
#[cfg(feature = "num-complex")]
#[diagnostic::do_not_recommend]
unsafe impl<T: Element> Element for num_complex::Complex<T> {}
