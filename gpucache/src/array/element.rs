//! What an array can be made of.
#![allow(unsafe_code)]

use half::{bf16, f16};

/// A type that arrays can hold: plain data, the same on the host and on devices.
///
/// # Safety
/// The type has no padding bytes, and all bytes zero is a value of it. On devices its layout must be fixed
/// (`#[repr(C)]` or `#[repr(transparent)]`). It is aligned to at most 256 bytes, or it does not compile as an element.
///
/// ```
/// use gpucache::{Element, prelude::*};
///
/// #[derive(Clone, Copy)]
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
    message = "`{Self}` cannot be an element of an array: use a number, `bool`, or a `Copy` type with `unsafe impl Element`"
)]
pub unsafe trait Element: Copy + Send + Sync + 'static {}

macro_rules! elements {
    ($($element:ty)*) => { $(
        // SAFETY: a number (or `bool`), without padding, for which zero bytes are a value.
        #[diagnostic::do_not_recommend]
        unsafe impl Element for $element {}
    )* };
}

elements! { bool i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64 f16 bf16 }

// SAFETY: elements follow each other without padding, and each of them may be zero bytes.
#[diagnostic::do_not_recommend]
unsafe impl<T: Element, const N: usize> Element for [T; N] {}
