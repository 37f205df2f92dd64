//! A number that changes from run to run, in memory of the device.

use std::ops::Deref;

use crate::array::uses::is_same;
use crate::array::{Array, Element};
use crate::device::Device;
use gpucache_engine::Result;

/// One value in an array of one element, such as a learning rate or the number of a step. A graph reads it from memory at each launch, so
/// each launch sees the value of the last [`set`](Scalar::set).
///
/// A number that the block passes to a kernel by value keeps the value that it had at the capture.
///
/// ```
/// use gpucache::{graph::Scalar, prelude::*};
///
/// let host = Host::new_stream()?;
/// let mut rate = Scalar::new(&host, 0.1f32)?;
/// rate.set(0.05)?;
/// assert_eq!((rate.get(), rate.to_vec()?), (0.05, vec![0.05]));
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Debug)]
pub struct Scalar<T: Element, D: Device> {
    array: Array<T, D>,
    value: T,
}

impl<T: Element, D: Device> Scalar<T, D> {
    /// A value on the stream of `device`. Its memory belongs to no scope.
    ///
    /// # Errors
    /// As for [`Array::full`].
    ///
    /// ```
    /// use gpucache::{graph::Scalar, prelude::*};
    ///
    /// let position = Scalar::new(&Host::new_stream()?, 0u32)?;
    /// assert_eq!(position.len(), 1);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    #[track_caller]
    pub fn new(device: &D, value: T) -> Result<Scalar<T, D>> {
        let _outside = crate::scope::ScopeGuard::outside();
        Ok(Scalar { array: Array::full(device, 1, value)?, value })
    }

    /// Changes the value for all work that is put on the stream from now on. If it is the same value, nothing is copied.
    ///
    /// # Errors
    /// A failure of the device.
    ///
    /// ```
    /// use gpucache::{graph::{CapturedScope, Scalar}, prelude::*};
    ///
    /// let host = Host::new_stream()?;
    /// let mut value = Scalar::new(&host, 0u32)?;
    /// let mut steps = CapturedScope::new(&host, "set");
    /// for number in 0..10 {
    ///     value.set(number * number)?;
    ///     let copy = steps.run((), &*value, |value| value.try_clone())?;
    ///     assert_eq!(copy.to_vec()?, [number * number]);
    /// }
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn set(&mut self, value: T) -> Result<()> {
        // By bytes, since -0.0 equals 0.0.
        if !is_same(&value, &self.value) {
            self.array.copy_from_slice(&[value])?;
            self.value = value;
        }
        Ok(())
    }

    /// The value of the last [`set`](Scalar::set).
    ///
    /// ```
    /// use gpucache::{graph::Scalar, prelude::*};
    ///
    /// let rate = Scalar::new(&Host::new_stream()?, 0.1f32)?;
    /// assert_eq!(rate.get(), 0.1); // without asking the device
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn get(&self) -> T {
        self.value
    }
}

/// The array, as an input of a captured scope and as an argument of a kernel.
impl<T: Element, D: Device> Deref for Scalar<T, D> {
    type Target = Array<T, D>;

    fn deref(&self) -> &Array<T, D> {
        &self.array
    }
}
