//! The store keeps every array that outlives an operation, and says where arrays rest between the operations that use them.
//!
//! Parameters, their gradients and moments, and values that the forward pass saves for the backward pass are [`Held`]. A guard is kept
//! for one operation only, so that an array that no operation uses at the moment can rest elsewhere.

use gpucache::{
    offload::{Fetched, FetchedMut, Placed},
    prelude::*,
    stats::OffloadStats,
};

use crate::common::Result;
use crate::gpt::compute::Matrix;

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
}

/// A row-major table of numbers that may rest on the host while nobody reads or writes it.
#[derive(Debug)]
pub(crate) struct Held<D: Device> {
    array: Placed<f32, D>,
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
        Self { device: device.clone(), placement }
    }

    pub(crate) fn device(&self) -> &D {
        &self.device
    }

    /// Keeps an array with contents.
    pub(crate) fn hold(&self, array: Matrix<D>) -> Result<Held<D>> {
        let array = Placed::new(array)?;
        array.set_placement(self.placement)?;
        Ok(Held { array })
    }

    /// An array for an operation to write. If it may leave the device, its memory belongs to no scope, so that the step's plan does not
    /// reserve memory for it while it is away.
    pub(crate) fn fill(&self, shape: [usize; 2]) -> Result<Held<D>> {
        match self.placement {
            gpucache::offload::Placement::Device => self.hold(unwritten(&self.device, shape)?),
            placement => {
                let array = unwritten_placed(&self.device, shape)?;
                // It leaves only after the operation that writes it.
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
    pub(crate) fn read(&self) -> Result<ReadGuard<'_, D>> {
        Ok(self.array.fetch()?)
    }

    pub(crate) fn write(&mut self) -> Result<WriteGuard<'_, D>> {
        Ok(self.array.fetch_mut()?)
    }

    /// Rows and columns, which are known wherever the array rests.
    pub(crate) fn shape(&self) -> [usize; 2] {
        match *self.array.shape() {
            [rows, columns] => [rows, columns],
            // All arrays are created with rows and columns.
            ref other => [1, other.iter().product()],
        }
    }
}

/// An array that is not cleared, because every operation of `Compute` writes all of its output.
#[allow(unsafe_code)]
pub(crate) fn unwritten<D: Device>(device: &D, shape: [usize; 2]) -> Result<Matrix<D>> {
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
