//! The store keeps every array that outlives an operation, and says where arrays rest between the operations that use them.
//!
//! Parameters, their gradients and moments, and values that the forward pass saves for the backward pass are [`Held`]. A guard is kept
//! for one operation only, so that an array that no operation uses at the moment can rest elsewhere.

use std::rc::Rc;

use gpucache::{
    offload::{Fetched, FetchedMut, Placed},
    prelude::*,
    stats::OffloadStats,
};

use crate::common::Result;
use crate::gpt::compute::{Compute, Matrix};
use crate::gpt::slots::Slots;

/// The argument of `--placement`: where arrays rest while no operation uses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Placement {
    /// On the device.
    Device,
    /// On the host.
    Host,
    /// On the device as long as they fit.
    Auto,
}

/// Creates arrays that are held.
#[derive(Debug)]
pub(crate) struct Store<D: Device> {
    device: D,
    placement: gpucache::offload::Placement,
    /// Arrays of steps, if they are allocated once.
    slots: Option<Rc<StepSlots<D>>>,
}

/// Arrays that are allocated once.
#[derive(Debug)]
struct StepSlots<D: Device> {
    held: Slots<Placed<f32, D>>,
    lent: Slots<Matrix<D>>,
}

/// A row-major table of numbers that may rest on the host while nobody reads or writes it.
#[derive(Debug)]
pub(crate) struct Held<D: Device> {
    /// `None` only during the drop.
    array: Option<Placed<f32, D>>,
    shape: [usize; 2],
    /// Where it goes when it is dropped, if it was allocated once.
    home: Option<(Rc<StepSlots<D>>, usize)>,
}

/// An array that is not held: it stays on the device. [`Store::give_back`] ends its use.
#[derive(Debug)]
pub(crate) struct Lent<D: Device> {
    pub(crate) array: Matrix<D>,
    slot: Option<usize>,
}

/// The array on the device, for reading.
pub(crate) type ReadGuard<'a, D> = Fetched<'a, f32, D>;

/// The array on the device, for reading and writing.
pub(crate) type WriteGuard<'a, D> = FetchedMut<'a, f32, D>;

/// The cost so far of moving arrays between the device and the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub(crate) struct Traffic {
    /// Bytes copied, in both directions.
    pub(crate) moved_bytes: u64,
    /// Bytes that were copied in only when an operation requested them.
    pub(crate) demanded_bytes: u64,
    /// Seconds in which streams only waited for copies: [`gpucache::stats::OffloadStats::waited`].
    pub(crate) waited_seconds: f64,
    /// The fraction of the time of all copies, from 0 to 1, in which nothing waited for them. It covers the second half of the steps, since
    /// gpucache learns in the first half. `None` if nothing was copied.
    pub(crate) hidden_share: Option<f64>,
    /// How often an array was moved away from the device.
    pub(crate) evictions: u64,
    /// Uses that deviated from the learned order.
    pub(crate) mispredictions: u64,
    /// Seconds of computing which arrays move when.
    pub(crate) layout_seconds: f64,
}

impl<D: Device> Store<D> {
    pub(crate) fn new(device: &D, placement: Placement) -> Self {
        let placement = match placement {
            Placement::Device => gpucache::offload::Placement::Device,
            Placement::Host => gpucache::offload::Placement::Host,
            Placement::Auto => gpucache::offload::Placement::Auto,
        };
        Self { device: device.clone(), placement, slots: None }
    }

    /// From here on, [`fill`](Self::fill), [`cleared`](Self::cleared) and [`lend`](Self::lend) allocate in the first step only.
    pub(crate) fn allocate_once(&mut self) {
        self.slots = Some(Rc::new(StepSlots { held: Slots::default(), lent: Slots::default() }));
    }

    /// Called before each step.
    pub(crate) fn begin_step(&self) {
        if let Some(slots) = &self.slots {
            slots.held.rewind();
            slots.lent.rewind();
        }
    }

    pub(crate) fn device(&self) -> &D {
        &self.device
    }

    /// Keeps an array with contents.
    pub(crate) fn hold(&self, array: Matrix<D>) -> Result<Held<D>> {
        let array = Placed::new(array)?;
        array.set_placement(self.placement)?;
        Ok(Held::of(array))
    }

    /// An array for an operation to write. If it may leave the device, its memory belongs to no scope, so that the step's plan does not
    /// reserve memory for it while it is away.
    pub(crate) fn fill(&self, shape: [usize; 2]) -> Result<Held<D>> {
        let Some(slots) = &self.slots else { return Ok(Held::of(self.placed(shape)?)) };
        let (array, slot) = slots.held.take(|array| *array.shape() == shape, || self.placed(shape))?;
        let mut held = Held::of(array);
        held.home = Some((slots.clone(), slot));
        Ok(held)
    }

    fn placed(&self, shape: [usize; 2]) -> Result<Placed<f32, D>> {
        match self.placement {
            gpucache::offload::Placement::Device => {
                let array = Placed::new(unwritten(&self.device, shape)?)?;
                array.set_placement(self.placement)?;
                Ok(array)
            }
            placement => {
                let array = unwritten_placed(&self.device, shape)?;
                // It leaves only after the operation that writes it.
                array.choose_placement(placement);
                Ok(array)
            }
        }
    }

    /// An array of zeros.
    pub(crate) fn zeros(&self, shape: [usize; 2]) -> Result<Held<D>> {
        match self.placement {
            gpucache::offload::Placement::Device => self.hold(Matrix::zeros(&self.device, shape)?),
            placement => {
                let array = Placed::zeros(&self.device, shape)?;
                array.choose_placement(placement);
                Ok(Held::of(array))
            }
        }
    }

    /// An array of zeros for a step.
    pub(crate) fn cleared<C: Compute<Device = D>>(&self, compute: &C, shape: [usize; 2]) -> Result<Held<D>> {
        if self.slots.is_none() {
            return self.zeros(shape);
        }
        let mut array = self.fill(shape)?;
        compute.clear(&mut *array.write()?)?;
        Ok(array)
    }

    /// An array for a step that stays on the device, for an operation to write.
    pub(crate) fn lend(&self, shape: [usize; 2]) -> Result<Lent<D>> {
        self.lent(shape, || unwritten(&self.device, shape))
    }

    /// The same with zeros. If arrays are allocated once, it has its old contents in later steps.
    pub(crate) fn lend_zeros(&self, shape: [usize; 2]) -> Result<Lent<D>> {
        self.lent(shape, || Ok(Matrix::zeros(&self.device, shape)?))
    }

    fn lent(&self, shape: [usize; 2], make: impl FnOnce() -> Result<Matrix<D>>) -> Result<Lent<D>> {
        let Some(slots) = &self.slots else { return Ok(Lent { array: make()?, slot: None }) };
        let (array, slot) = slots.lent.take(|array| *array.shape() == shape, make)?;
        Ok(Lent { array, slot: Some(slot) })
    }

    pub(crate) fn give_back(&self, lent: Lent<D>) {
        if let (Some(slots), Some(slot)) = (&self.slots, lent.slot) {
            slots.lent.put(slot, lent.array);
        }
    }

    /// Statistics of all moves so far.
    pub(crate) fn moved(&self) -> OffloadStats {
        self.device.stats().offload
    }

    /// The same as a report; the hidden share covers the steps since `earlier`.
    pub(crate) fn traffic(&self, earlier: &OffloadStats) -> Traffic {
        let stats = self.moved();
        Traffic {
            moved_bytes: stats.bytes_in + stats.bytes_out,
            demanded_bytes: stats.bytes_demanded,
            waited_seconds: stats.waited.as_secs_f64(),
            hidden_share: stats.since(earlier).hidden_share(),
            evictions: stats.evictions,
            mispredictions: stats.mispredictions,
            layout_seconds: stats.layout_time.as_secs_f64(),
        }
    }
}

impl<D: Device> Held<D> {
    fn of(array: Placed<f32, D>) -> Self {
        let shape = match *array.shape() {
            [rows, columns] => [rows, columns],
            // All arrays are created with rows and columns.
            ref other => [1, other.iter().product()],
        };
        Self { array: Some(array), shape, home: None }
    }

    pub(crate) fn read(&self) -> Result<ReadGuard<'_, D>> {
        Ok(self.array.as_ref().ok_or("this array was dropped")?.fetch()?)
    }

    pub(crate) fn write(&mut self) -> Result<WriteGuard<'_, D>> {
        Ok(self.array.as_mut().ok_or("this array was dropped")?.fetch_mut()?)
    }

    /// Rows and columns, which are known wherever the array rests.
    pub(crate) fn shape(&self) -> [usize; 2] {
        self.shape
    }
}

impl<D: Device> Drop for Held<D> {
    fn drop(&mut self) {
        if let (Some((slots, slot)), Some(array)) = (self.home.take(), self.array.take()) {
            slots.held.put(slot, array);
        }
    }
}

/// An array that is not cleared, because every operation of `Compute` writes all of its output.
#[allow(unsafe_code)]
fn unwritten<D: Device>(device: &D, shape: [usize; 2]) -> Result<Matrix<D>> {
    // SAFETY: arrays created here are first of all passed to an operation of `Compute` as its output. These operations
    // write every element of an output before anything reads it (their documented contract). f32 has no invalid bit pattern.
    Ok(unsafe { Matrix::uninit(device, shape) }?)
}

/// The same for a placed array.
#[allow(unsafe_code)]
fn unwritten_placed<D: Device>(device: &D, shape: [usize; 2]) -> Result<Placed<f32, D>> {
    // SAFETY: as for `unwritten`. If the array leaves and comes back before it is written, that operation still writes all of it.
    Ok(unsafe { Placed::uninit(device, shape) }?)
}
