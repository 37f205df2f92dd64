//! The guards of fetched arrays, which keep the arrays on the device.

use std::fmt;
use std::ops::{Deref, DerefMut};

use parking_lot::{MappedRwLockReadGuard, MappedRwLockWriteGuard};

use super::host_pool::Rests;
use super::placement::Placement;
use super::recorder::{self, Noted};
use crate::array::Array;

/// An array on its device, to be read: from [`Placed::fetch`](super::Placed::fetch).
///
/// ```
/// use gpucache::{prelude::*, offload::Placed};
///
/// let weights = Placed::new(Array::full(&Host::new(), 4, 0.5f32)?)?;
/// let here = weights.fetch()?;
/// assert_eq!(here.iter().sum::<f32>(), 2.0); // works like any other array
/// # Ok::<(), gpucache::Error>(())
/// ```
#[must_use = "the array may leave the device when the guard is dropped"]
pub struct Fetched<'a, T, D> {
    pub(super) array: MappedRwLockReadGuard<'a, Array<T, D>>,
    /// Is dropped after the lock.
    pub(super) _ending: Option<Box<Ending<'a>>>,
}

/// An array on its device, to be written: from [`Placed::fetch_mut`](super::Placed::fetch_mut).
///
/// The guard can put another array in its place. Give that the same shape: [`Placed::shape`](super::Placed::shape) and
/// [`byte_len`](super::Placed::byte_len), the statistics and the room for moves have the sizes of the array that was placed first. For another
/// shape, drop the value and make another one by [`Placed::new`](super::Placed::new).
///
/// ```
/// use gpucache::{prelude::*, offload::Placed};
///
/// let mut sums = Placed::new(Host::new().zeros::<f32>(4)?)?;
/// sums.fetch_mut()?[0] += 1.0;
/// assert_eq!(sums.to_vec()?, [1.0, 0.0, 0.0, 0.0]);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[must_use = "the array may leave the device when the guard is dropped"]
pub struct FetchedMut<'a, T, D> {
    pub(super) array: MappedRwLockWriteGuard<'a, Array<T, D>>,
    /// Is dropped after the lock.
    pub(super) _ending: Option<Box<Ending<'a>>>,
}

/// The work of a guard when it is dropped. Most guards have none, so that it is in a box: a guard is three words then, which stay in
/// registers.
pub(super) struct Ending<'a> {
    pub(super) slot: &'a dyn Rests,
    /// The use, if it was recorded.
    pub(super) noted: Option<Noted>,
}

impl Drop for Ending<'_> {
    #[cold]
    fn drop(&mut self) {
        self.noted.into_iter().for_each(recorder::ended);
        // What fails leaves the array where it is.
        if self.slot.tag().placement.get() == Placement::Host
            && let Err(error) = self.slot.evict()
        {
            self.slot.keep(error);
        }
    }
}

impl<T, D> Deref for Fetched<'_, T, D> {
    type Target = Array<T, D>;

    #[inline]
    fn deref(&self) -> &Array<T, D> {
        &self.array
    }
}

impl<T, D> Deref for FetchedMut<'_, T, D> {
    type Target = Array<T, D>;

    #[inline]
    fn deref(&self) -> &Array<T, D> {
        &self.array
    }
}

impl<T, D> DerefMut for FetchedMut<'_, T, D> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Array<T, D> {
        &mut self.array
    }
}

impl<T, D> fmt::Debug for Fetched<'_, T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetched").finish_non_exhaustive()
    }
}

impl<T, D> fmt::Debug for FetchedMut<'_, T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchedMut").finish_non_exhaustive()
    }
}
