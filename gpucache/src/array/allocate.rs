//! Constructors of arrays as methods of a device: `device.zeros::<f32>([2, 3])`.
#![allow(unsafe_code)]

use super::{Array, Element, Shape};
use crate::device::Device;
use gpucache_engine::Result;

/// Constructors of [`Array`] as methods of every [`Device`]. These are the constructors whose arguments do not determine the element
/// type, so only that type has to be named.
///
/// ```
/// use gpucache::prelude::*;
///
/// let host = Host::new();
/// let zeros = host.zeros::<f32>([2, 3])?;
/// assert_eq!((zeros.shape(), zeros[5]), (&[2, 3][..], 0.0));
/// # Ok::<(), gpucache::Error>(())
/// ```
pub trait Allocate: Device {
    /// As [`Array::zeros`].
    ///
    /// # Errors
    /// As for [`Array::zeros`].
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let mask = Host::new().zeros::<bool>([8, 8])?;
    /// assert!(!mask[63]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    #[track_caller]
    fn zeros<T: Element>(&self, shape: impl Shape) -> Result<Array<T, Self>> {
        Array::zeros(self, shape)
    }

    /// As [`Array::uninit`].
    ///
    /// # Errors
    /// As for [`Array::zeros`].
    ///
    /// # Safety
    /// Every element must be written, by the host or by work on the device's stream, before anything reads it.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// // SAFETY: `fill` writes every element.
    /// let mut array = unsafe { Host::new().uninit::<u32>(4)? };
    /// array.fill(7);
    /// assert_eq!(*array, [7; 4]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    #[inline]
    #[track_caller]
    unsafe fn uninit<T: Element>(&self, shape: impl Shape) -> Result<Array<T, Self>> {
        // SAFETY: the caller gives the same promise as for the constructor, about the array that this returns unchanged.
        unsafe { Array::uninit(self, shape) }
    }
}

impl<D: Device> Allocate for D {}
