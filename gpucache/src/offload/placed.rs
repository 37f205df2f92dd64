//! [`Placed`]: an array that may move to host memory, as a program has it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::{RwLockReadGuard, RwLockWriteGuard};

use super::guard::{Ending, Fetched, FetchedMut};
use super::host_pool::Rests;
use super::host_pools;
use super::placement::Placement;
use super::recorder::{self, Noted};
use super::slot::{Slot, gone};
use crate::array::{Array, Element, Shape};
use crate::device::Device;
use gpucache_engine::{Error, Result};
use gpucache_plan::offload::Access;

/// An array that may move to host memory while nobody uses it, so that a program can train a model that does not fit the device.
///
/// [`fetch`](Placed::fetch) and [`fetch_mut`](Placed::fetch_mut) return the array on the device. If it is on the host, they copy it back,
/// in the order of its stream. The array stays on the device while the guard lives. An array that was only read leaves again without a
/// copy.
///
/// Its [`Placement`] says where it rests. With `Auto` it stays on the device while it fits. When the device's
/// [limit](crate::device::Device::set_limit) is reached, or an allocation finds no memory, the least recently used arrays move to the host.
///
/// Its memory belongs to no scope. Copies run on streams of their own, beside the work of the program's streams.
///
/// ```
/// use gpucache::{device::Virtual, prelude::*, stats, offload::Placed};
///
/// let device = Virtual::new(1 << 30);
/// device.set_limit(12 << 20)?;
/// // Twice as much as may be on the device.
/// let layers: Vec<_> = (0..6).map(|_| Placed::zeros(&device, 1 << 20)).collect::<gpucache::Result<Vec<Placed<f32, _>>>>()?;
/// for layer in &layers {
///     let weights = layer.fetch()?;
///     assert_eq!(weights.shape(), [1 << 20]);
/// }
/// assert!(device.memory().bytes <= 12 << 20 && device.stats().offload.bytes_in >= 12 << 20);
/// # Ok::<(), gpucache::Error>(())
/// ```
pub struct Placed<T: Element, D: Device> {
    slot: Arc<Slot<T, D>>,
    dims: Vec<usize>,
}

impl<T: Element, D: Device> Placed<T, D> {
    /// Places an array. It gets the placement of the innermost scope that has one ([`Scope::placement`](crate::Scope::placement)), or
    /// else the default ([`set_default_placement`](crate::offload::set_default_placement)). With `Placement::Host` it leaves at once.
    /// Registered memory of NCCL gets `Placement::Device`, since it cannot move.
    ///
    /// # Errors
    /// As for [`set_placement`](Placed::set_placement); the array is dropped then.
    ///
    /// ```
    /// use gpucache::{prelude::*, offload::Placed};
    ///
    /// let placed = Placed::new(Array::from_slice(&Host::new(), 3, &[1, 2, 3])?)?;
    /// assert_eq!(placed.to_vec()?, [1, 2, 3]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn new(array: Array<T, D>) -> Result<Self> {
        let placed = Placed::with(array, recorder::placement());
        if placed.placement() == Placement::Host {
            placed.slot.evict()?;
        }
        Ok(placed)
    }

    pub(super) fn with(array: Array<T, D>, placement: Placement) -> Self {
        let pool = host_pools::of(array.device().stream_handle());
        let dims = array.shape().to_vec();
        let placement = if array.is_pinned() { Placement::Device } else { placement };
        Placed { slot: Slot::new(pool, array, placement), dims }
    }

    /// A new array of zeros. If there is no room for it, other placed arrays move to the host. Its memory belongs to no scope, so it
    /// causes no deviation from a plan. It gets the same placement as from [`new`](Placed::new). With `Placement::Host` it leaves after
    /// its next use.
    ///
    /// # Errors
    /// As for [`Array::zeros`].
    ///
    /// ```
    /// use gpucache::{prelude::*, offload::Placed};
    ///
    /// let moments = Placed::<f32, _>::zeros(&Host::new(), [2, 3])?;
    /// assert_eq!(moments.shape(), [2, 3]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn zeros(device: &D, shape: impl Shape) -> Result<Self> {
        let dims = shape.dims();
        let room = Placed::<T, D>::room_for(device, dims)?;
        Ok(Placed::with(Array::zeros_in(room)?, recorder::placement()))
    }

    /// The array on its device, to be read. It stays there while the guard lives. Several threads may read it at once.
    ///
    /// # Errors
    /// The array stays where it is if this fails:
    /// - [`is_out_of_memory`](crate::Error::is_out_of_memory) if no other array may leave for it.
    /// - [`is_unavailable`](crate::Error::is_unavailable) if the array is on the host while a graph is captured, or if a pressure handler
    ///   ([`on_pressure`](crate::device::Device::on_pressure)) fetches the array that is already being fetched.
    /// - A failure of the device.
    ///
    /// Threads that fetch the same array wait for the thread that copies it. If that thread calls a pressure handler meanwhile, they wait
    /// for a quarter of a second at most, and then return an out-of-memory error.
    ///
    /// ```
    /// use gpucache::{prelude::*, offload::Placed};
    ///
    /// let weights = Placed::new(Array::full(&Host::new(), 8, 2.0f32)?)?;
    /// assert_eq!(weights.fetch()?[7], 2.0);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    // Always, so that the guard stays in registers: through memory it is several nanoseconds more.
    #[inline(always)]
    pub fn fetch(&self) -> Result<Fetched<'_, T, D>> {
        let noted = self.note_use(Access::Read);
        if self.ends_plainly(noted)
            && let Some(state) = self.slot.try_read()
            && let Ok(array) = RwLockReadGuard::try_map(state, |state| state.settled())
        {
            return Ok(Fetched { array, _ending: None });
        }
        self.fetch_anyhow(noted)
    }

    /// For an array that may be on the host, and for guards that have work to do when they are dropped.
    #[inline(never)]
    fn fetch_anyhow(&self, noted: Option<Noted>) -> Result<Fetched<'_, T, D>> {
        loop {
            if let Ok(array) = RwLockReadGuard::try_map(self.slot.read(), |state| state.settled()) {
                return Ok(Fetched { array, _ending: self.ending(noted) });
            }
            self.slot.come()?;
        }
    }

    /// The array on its device, to be written and read. It stays there while the guard lives.
    ///
    /// # Errors
    /// As for [`fetch`](Placed::fetch).
    ///
    /// ```
    /// use gpucache::{prelude::*, offload::Placed};
    ///
    /// let mut weights = Placed::new(Host::new().zeros::<f32>(8)?)?;
    /// weights.fetch_mut()?.fill(3.0);
    /// assert_eq!(weights.fetch()?[0], 3.0);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    // Always, as `fetch` is.
    #[inline(always)]
    pub fn fetch_mut(&mut self) -> Result<FetchedMut<'_, T, D>> {
        let noted = self.note_use(Access::Write);
        if self.ends_plainly(noted)
            && let Ok(array) = RwLockWriteGuard::try_map(self.slot.write(), |state| state.written())
        {
            return Ok(FetchedMut { array, _ending: None });
        }
        self.fetch_mut_anyhow(noted)
    }

    /// As `fetch_anyhow`, for writing.
    #[inline(never)]
    fn fetch_mut_anyhow(&self, noted: Option<Noted>) -> Result<FetchedMut<'_, T, D>> {
        loop {
            if let Ok(array) = RwLockWriteGuard::try_map(self.slot.write(), |state| state.written()) {
                return Ok(FetchedMut { array, _ending: self.ending(noted) });
            }
            self.slot.come_to_be_written()?;
        }
    }

    #[inline(always)]
    fn note_use(&self, access: Access) -> Option<Noted> {
        let tag = &self.slot.tag;
        tag.used.store(self.slot.pool.now(), Relaxed);
        if recorder::is_known(tag, access) { None } else { recorder::note(&self.slot, access) }
    }

    /// Whether the guard has no work to do when it is dropped.
    #[inline(always)]
    fn ends_plainly(&self, noted: Option<Noted>) -> bool {
        noted.is_none() && self.placement() != Placement::Host
    }

    fn ending(&self, noted: Option<Noted>) -> Option<Box<Ending<'_>>> {
        (!self.ends_plainly(noted)).then(|| Box::new(Ending { slot: &*self.slot, noted }))
    }

    /// Where the array rests while nobody uses it.
    ///
    /// ```
    /// use gpucache::{prelude::*, offload::{Placed, Placement}};
    ///
    /// let placed = Placed::new(Host::new().zeros::<u8>(8)?)?;
    /// assert_eq!(placed.placement(), Placement::Auto);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    #[inline]
    pub fn placement(&self) -> Placement {
        self.slot.tag.placement.get()
    }

    /// Changes where the array rests, from its next use on. The array does not move now. Registered memory of NCCL stays on the device
    /// whatever its placement is.
    ///
    /// ```
    /// use gpucache::{prelude::*, stats, offload::{Placed, Placement}};
    ///
    /// let device = Host::new_stream()?;
    /// let mut placed = Placed::<u8, _>::zeros(&device, 1000)?;
    /// placed.choose_placement(Placement::Host);
    /// assert_eq!(device.stats().offload.resident_bytes, 1000);
    /// placed.fetch_mut()?.fill(1); // the array leaves when the guard is dropped
    /// assert_eq!(device.stats().offload.resident_bytes, 0);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn choose_placement(&self, placement: Placement) {
        self.slot.tag.placement.set(placement);
    }

    /// Changes where the array rests, and moves it there at once if nobody uses it.
    ///
    /// # Errors
    /// As for [`fetch`](Placed::fetch). With `Placement::Host`, [`is_unavailable`](crate::Error::is_unavailable) for registered memory of
    /// NCCL, which cannot move. Its placement stays as it was.
    ///
    /// ```
    /// use gpucache::{prelude::*, stats, offload::{Placed, Placement}};
    ///
    /// let device = Host::new_stream()?;
    /// let placed = Placed::new(device.zeros::<u8>(1000)?)?;
    /// placed.set_placement(Placement::Host)?;
    /// assert_eq!(device.stats().offload.resident_bytes, 0);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn set_placement(&self, placement: Placement) -> Result<()> {
        if placement == Placement::Host && self.slot.is_pinned() {
            let detail = "its memory is registered with NCCL, which uses it at its address";
            let remedy = "leave it on the device, or place an array of `Array::zeros` instead";
            return Err(Error::unavailable("the host as a place for this array", detail, remedy));
        }
        self.choose_placement(placement);
        match placement {
            Placement::Device => self.slot.bring(None).map(|_| ()),
            Placement::Host => self.slot.evict().map(|_| ()),
            Placement::Auto => Ok(()),
        }
    }

    /// The shape with which the array was placed, slowest dimension first. If [`fetch_mut`](Placed::fetch_mut) put an array of another shape in its
    /// place, the shape of that one is `fetch()?.shape()`.
    ///
    /// ```
    /// use gpucache::{prelude::*, offload::Placed};
    ///
    /// assert_eq!(Placed::new(Host::new().zeros::<u8>([2, 4])?)?.shape(), [2, 4]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn shape(&self) -> &[usize] {
        &self.dims
    }

    /// The bytes of its elements, in the [`shape`](Placed::shape) with which it was placed.
    ///
    /// ```
    /// use gpucache::{prelude::*, offload::Placed};
    ///
    /// assert_eq!(Placed::new(Host::new().zeros::<f32>([2, 4])?)?.byte_len(), 32);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn byte_len(&self) -> usize {
        self.slot.tag.bytes as usize
    }

    /// The device to which it is fetched.
    ///
    /// ```
    /// use gpucache::{prelude::*, offload::Placed};
    ///
    /// let placed = Placed::new(Host::new().zeros::<f32>(4)?)?;
    /// placed.device().synchronize()?;
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn device(&self) -> &D {
        &self.slot.device
    }

    /// The elements, in row-major order.
    ///
    /// # Errors
    /// As for [`fetch`](Placed::fetch) and [`Array::to_vec`].
    ///
    /// ```
    /// use gpucache::{prelude::*, offload::Placed};
    ///
    /// assert_eq!(Placed::new(Array::full(&Host::new(), 2, 7u8)?)?.to_vec()?, [7, 7]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.fetch()?.to_vec()
    }

    /// The array itself, on its device. It does not move any more.
    ///
    /// # Errors
    /// As for [`fetch`](Placed::fetch); the array is dropped then.
    ///
    /// ```
    /// use gpucache::{prelude::*, offload::Placed};
    ///
    /// let array = Placed::new(Array::full(&Host::new(), 2, 7u8)?)?.into_array()?;
    /// assert_eq!(*array, [7, 7]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn into_array(self) -> Result<Array<T, D>> {
        self.slot.take()?.ok_or_else(gone)
    }

    /// A copy with the same placement.
    ///
    /// # Errors
    /// As for [`fetch`](Placed::fetch) and [`Array::try_clone`].
    ///
    /// ```
    /// use gpucache::{prelude::*, offload::Placed};
    ///
    /// let placed = Placed::new(Array::full(&Host::new(), 2, 7u8)?)?;
    /// assert_eq!(placed.try_clone()?.to_vec()?, [7, 7]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn try_clone(&self) -> Result<Self> {
        let copy = Placed::with(self.fetch()?.try_clone()?, self.placement());
        copy.set_placement(self.placement())?;
        Ok(copy)
    }
}

impl<T: Element, D: Device> fmt::Debug for Placed<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Placed")
            .field("shape", &self.dims)
            .field("placement", &self.placement())
            .finish_non_exhaustive()
    }
}
