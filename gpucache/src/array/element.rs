//! The types that arrays can contain.
#![allow(unsafe_code)]

use std::fmt::Debug;

/// A type that arrays can hold: plain data, the same on the host and on devices.
///
/// Numbers, `bool`, and arrays `[T; N]` of elements implement it. The features `half`, `float8` and `num-complex` add the numbers of the
/// crates with these names. Your own type needs one line, as below. A type that is `Pod` in `bytemuck` fulfils the contract, if its
/// layout is fixed and it is aligned to at most 256 bytes. It also needs that line, because a blanket rule for all `Pod` types would
/// conflict with the types above.
///
/// # Safety
/// The type has no padding bytes, and all bytes zero is a valid value of it. Its layout must be the same on devices
/// (`#[repr(C)]` or `#[repr(transparent)]`). An alignment above 256 bytes does not compile.
///
/// ```
/// use gpucache::{Element, prelude::*};
///
/// #[derive(Clone, Copy, Debug)]
/// #[repr(C)]
/// struct Point { x: f32, y: f32 }
/// // SAFETY: the struct is two floats without padding, and zero bytes are the point (0, 0).
/// unsafe impl Element for Point {}
///
/// let points = Array::full(&Host::new(), 8, Point { x: 1.0, y: 2.0 })?;
/// assert_eq!(points[7].y, 2.0);
/// # Ok::<(), gpucache::Error>(())
/// ```
///
/// ```compile_fail,E0080
/// # #![allow(unsafe_code)]
/// use gpucache::{Element, offload::Placed, prelude::*};
///
/// #[derive(Clone, Copy, Debug)]
/// #[repr(C, align(512))]
/// struct Row([f32; 128]);
/// // SAFETY: the struct is floats without padding, and zero bytes are a value of it.
/// unsafe impl Element for Row {}
///
/// let rows = Placed::<Row, _>::zeros(&Host::new(), 8)?; // aligned to more than 256 bytes
/// # Ok::<(), gpucache::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an element of an array: use a number, `bool`, or a `Copy` and `Debug` type with `unsafe impl Element`",
    note = "numbers of the crates `half`, `float8` and `num-complex` are elements by gpucache's features of these names"
)]
pub unsafe trait Element: Copy + Debug + Send + Sync + 'static {}

macro_rules! elements {
    ($($element:ty)*) => { $(
        // SAFETY: it is a number (or `bool`) without padding, and zero bytes are a value of it.
        #[diagnostic::do_not_recommend]
        unsafe impl Element for $element {}
    )* };
}

elements! { bool i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64 }
#[cfg(feature = "half")]
elements! { half::f16 half::bf16 }
#[cfg(feature = "float8")]
elements! { float8::F8E4M3 float8::F8E5M2 }

// SAFETY: elements of an array follow each other without padding, and zero bytes are a value of each.
#[diagnostic::do_not_recommend]
unsafe impl<T: Element, const N: usize> Element for [T; N] {}

// SAFETY: these are two elements of one type, in the order of a `#[repr(C)]` struct, without padding between them. Zero bytes are a
// value of each.
#[cfg(feature = "num-complex")]
#[diagnostic::do_not_recommend]
unsafe impl<T: Element> Element for num_complex::Complex<T> {}
