//! Where what is trained rests between the operations that use it: the one way to every array that outlives an operation.
//!
//! Parameters, their gradients and moments, and what the forward pass leaves for the backward pass are [`Held`]. A guard is kept
//! for one operation and no longer, so that whatever no operation uses just now could rest elsewhere.

use gpucache::{
    offload::{Fetched, FetchedMut, Placed},
    prelude::*,
    stats::OffloadStats,
};

use crate::common::Result;
use crate::compute::Matrix;

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

/// What makes arrays that are held.
#[derive(Debug)]
pub(crate) struct Store<D: Device> {
    device: D,
    placement: gpucache::offload::Placement,
}

/// A row-major table of numbers that rests somewhere while nobody reads or writes it.
#[derive(Debug)]
pub(crate) struct Held<D: Device> {
    array: Placed<f32, D>,
}

/// The array, on the device, to be read.
pub(crate) type ReadGuard<'a, D> = Fetched<'a, f32, D>;

/// The array, on the device, to be read and written.
pub(crate) type WriteGuard<'a, D> = FetchedMut<'a, f32, D>;

/// What moving arrays between the device and the host has cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub(crate) struct Traffic {
    /// Bytes copied, in both directions.
    pub(crate) moved_bytes: u64,
    /// Bytes that came only when an operation asked for them.
    pub(crate) demanded_bytes: u64,
    /// Seconds for which streams had nothing to do but wait for copies, as [`gpucache::stats::OffloadStats::waited`] has it.
    pub(crate) waited_seconds: f64,
    /// The part of the time of all copies that nothing waited for, from 0 to 1, in the second half of the steps: the first ones learn. None
    /// where nothing was copied.
    pub(crate) hidden_share: Option<f64>,
    /// How often an array was moved away from the device.
    pub(crate) evictions: u64,
    /// Uses that did not come in the order that was learned.
    pub(crate) mispredictions: u64,
    /// Seconds spent on computing which arrays move when.
    pub(crate) layout_seconds: f64,
}

impl<D: Device> Store<D> {
    pub(crate) fn new(device: &D, placement: Placement) -> Self {
        let placement = match placement {
            Placement::Device => gpucache::offload::Placement::Device,
            Placement::Host => gpucache::offload::Placement::Host,
            Placement::Auto => gpucache::offload::Placement::Auto,
        };
        Self { device: device.clone(), placement }
    }

    pub(crate) fn device(&self) -> &D {
        &self.device
    }

    /// Keeps an array that has contents.
    pub(crate) fn hold(&self, array: Matrix<D>) -> Result<Held<D>> {
        let array = Placed::new(array)?;
        array.set_placement(self.placement)?;
        Ok(Held { array })
    }

    /// An array for an operation to write. Where it may leave, its memory is of no scope, so that the plan of the step does not
    /// keep room for it meanwhile.
    pub(crate) fn fill(&self, shape: [usize; 2]) -> Result<Held<D>> {
        match self.placement {
            gpucache::offload::Placement::Device => self.hold(unwritten(&self.device, shape)?),
            placement => {
                let array = unwritten_placed(&self.device, shape)?;
                // It leaves behind the operation that writes it.
                array.choose_placement(placement);
                Ok(Held { array })
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
                Ok(Held { array })
            }
        }
    }

    /// All that was moved so far.
    pub(crate) fn moved(&self) -> OffloadStats {
        self.device.stats().offload
    }

    /// The same, with what is told of the steps since an earlier look.
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
    pub(crate) fn read(&self) -> Result<ReadGuard<'_, D>> {
        Ok(self.array.fetch()?)
    }

    pub(crate) fn write(&mut self) -> Result<WriteGuard<'_, D>> {
        Ok(self.array.fetch_mut()?)
    }

    /// Rows and columns, wherever the array rests.
    pub(crate) fn shape(&self) -> [usize; 2] {
        match *self.array.shape() {
            [rows, columns] => [rows, columns],
            // Every array is made with rows and columns.
            ref other => [1, other.iter().product()],
        }
    }
}

/// An array that is not cleared, because every operation of `Compute` writes its output in full.
#[allow(unsafe_code)]
pub(crate) fn unwritten<D: Device>(device: &D, shape: [usize; 2]) -> Result<Matrix<D>> {
    // SAFETY: arrays made here are given to an operation of `Compute` as its output before anything else, and these operations
    // write every element of an output before anything reads it (their documented contract); f32 has no invalid bit pattern.
    Ok(unsafe { Matrix::uninit(device, shape) }?)
}

/// The same, placed.
#[allow(unsafe_code)]
fn unwritten_placed<D: Device>(device: &D, shape: [usize; 2]) -> Result<Placed<f32, D>> {
    // SAFETY: as for `unwritten`; what leaves and comes back before it is written is written by that operation all the same.
    Ok(unsafe { Placed::uninit(device, shape) }?)
}
