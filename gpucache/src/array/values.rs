//! Traits that arrays implement like other values: copying, comparison, iteration, and unwind safety.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::slice::{Iter, IterMut};

use super::{Array, Element};
use crate::device::{Device, Host};

/// Copies on the device, as [`try_clone`](Array::try_clone) does.
///
/// # Panics
/// If the device has no memory left or failed: `Clone` cannot return an error. Use `try_clone` to handle it.
impl<T: Element, D: Device> Clone for Array<T, D> {
    #[allow(clippy::panic)]
    fn clone(&self) -> Self {
        self.try_clone().unwrap_or_else(|error| panic!("an array could not be cloned: {error}"))
    }
}

/// Compares the shapes, and then element by element. This waits, and panics, as `Deref` does.
///
/// ```
/// use gpucache::prelude::*;
///
/// let host = Host::new();
/// let array = Array::from_slice(&host, [2, 2], &[1, 2, 3, 4])?;
/// assert_eq!(array, array.try_clone()?);
/// assert_ne!(array, Array::from_slice(&host, 4, &[1, 2, 3, 4])?); // another shape
/// # Ok::<(), gpucache::Error>(())
/// ```
impl<T: Element + PartialEq> PartialEq for Array<T, Host> {
    fn eq(&self, other: &Self) -> bool {
        self.shape() == other.shape() && **self == **other
    }
}

impl<T: Element + Eq> Eq for Array<T, Host> {}

/// The elements in row-major order. This waits, and panics, as `Deref` does.
///
/// ```
/// use gpucache::prelude::*;
///
/// let array = Array::full(&Host::new(), [2, 3], 0.5f32)?;
/// let mut sum = 0.0;
/// for value in &array {
///     sum += value;
/// }
/// assert_eq!(sum, 3.0);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[diagnostic::do_not_recommend]
impl<'a, T: Element> IntoIterator for &'a Array<T, Host> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

/// The elements in row-major order, mutable. This waits, and panics, as `DerefMut` does.
///
/// ```
/// use gpucache::prelude::*;
///
/// let mut array = Array::full(&Host::new(), [2, 3], 1u8)?;
/// for value in &mut array {
///     *value += 1;
/// }
/// assert_eq!(*array, [2; 6]);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[diagnostic::do_not_recommend]
impl<'a, T: Element> IntoIterator for &'a mut Array<T, Host> {
    type Item = &'a mut T;
    type IntoIter = IterMut<'a, T>;

    fn into_iter(self) -> IterMut<'a, T> {
        self.iter_mut()
    }
}

// No panic leaves an array half changed. Only `reshape` changes its shape, and takes the array by value. The state that it shares
// with its cache and its stream is atomic or behind locks. Those are taken after a panic as before it, because this
// crate's code does not panic while it holds one. The elements are `Copy`, so they are written only through `&mut`, which is not
// `UnwindSafe` for any type.

/// ```
/// use gpucache::prelude::*;
///
/// let array = Array::full(&Host::new(), 4, 2u32)?;
/// let last = std::panic::catch_unwind(|| array[3]);
/// assert_eq!(last.ok(), Some(2));
/// # Ok::<(), gpucache::Error>(())
/// ```
impl<T, D> UnwindSafe for Array<T, D> {}

/// As for `UnwindSafe`: no element is written through a shared array.
impl<T, D> RefUnwindSafe for Array<T, D> {}
