//! Arrays as inputs and outputs of captured scopes.

use std::any::Any;
use std::slice::from_ref;
use std::sync::Arc;

use super::extent::bytes_of;
use super::{Array, Element};
use crate::device::{Device, Host};
use gpucache_engine::Result;
use gpucache_engine::device::host_vec;
use gpucache_engine::record::Outcome;

impl<T: Element, D: Device> Array<T, D> {
    /// The bytes of an array of this shape.
    ///
    /// # Errors
    /// [`is_invalid_shape`](gpucache_engine::Error::is_invalid_shape) if they overflow.
    #[cfg(feature = "nccl")]
    pub(crate) fn bytes_of_shape(dims: &[usize]) -> Result<usize> {
        super::extent::request::<T>(dims).map(|request| request.bytes)
    }

    /// The bytes of all elements.
    pub(crate) fn contents(&self) -> Result<Vec<u8>> {
        let values = self.to_vec()?;
        let mut bytes = host_vec(self.byte_len())?;
        bytes.extend_from_slice(bytes_of(&values));
        Ok(bytes)
    }
}

/// Whether two values have the same bytes.
pub(crate) fn is_same<T: Element>(one: &T, other: &T) -> bool {
    bytes_of(from_ref(one)) == bytes_of(from_ref(other))
}

/// Lets the launch of a graph with this outcome fail if earlier work failed to write an input. The launch's work on the host looks at the outcome
/// alone, and copies in a graph at neither.
pub(crate) fn check_inputs<D: Device>(before: &[Arc<Outcome>], outcome: &Arc<Outcome>, device: &D) {
    let device: &dyn Any = device;
    if !before.is_empty()
        && let Some(host) = device.downcast_ref::<Host>()
    {
        let (before, outcome) = (before.to_vec(), outcome.clone());
        host.0.push(move |_| outcome.settle(|| before.iter().try_for_each(|before| before.check())));
    }
}
