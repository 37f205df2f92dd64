//! Where what is trained rests between the operations that use it: the one way to every array that outlives an operation.
//!
//! Parameters, their gradients and moments, and what the forward pass leaves for the backward pass are [`Held`]. A guard is kept
//! for one operation and no longer, so that whatever no operation uses just now could rest elsewhere.

use std::ops::{Deref, DerefMut};

use gpucache::prelude::*;

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
}

/// A row-major table of numbers that rests somewhere while nobody reads or writes it.
#[derive(Debug)]
pub(crate) struct Held<D: Device> {
    array: Matrix<D>,
}

/// The array, on the device, to be read.
#[derive(Debug)]
pub(crate) struct ReadGuard<'a, D: Device> {
    array: &'a Matrix<D>,
}

/// The array, on the device, to be read and written.
#[derive(Debug)]
pub(crate) struct WriteGuard<'a, D: Device> {
    array: &'a mut Matrix<D>,
}

/// What moving arrays between the device and the host has cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub(crate) struct Traffic {
    /// Bytes copied, in both directions.
    pub(crate) moved_bytes: u64,
    /// Seconds for which operations waited for copies.
    pub(crate) waited_seconds: f64,
    /// The part of the copies' time that was no waiting, from 0 to 1.
    pub(crate) hidden_share: f64,
    /// How often an array was moved away from the device.
    pub(crate) evictions: u64,
}

impl<D: Device> Store<D> {
    /// # Errors
    /// For a placement other than on the device, which there is not yet.
    pub(crate) fn new(device: &D, placement: Placement) -> Result<Self> {
        match placement {
            Placement::Device => Ok(Self { device: device.clone() }),
            Placement::Host | Placement::Auto => {
                Err("arrays rest on the device and nowhere else as yet: use --placement device".into())
            }
        }
    }

    pub(crate) fn device(&self) -> &D {
        &self.device
    }

    /// Keeps an array that has contents.
    pub(crate) fn hold(&self, array: Matrix<D>) -> Held<D> {
        Held::new(array)
    }

    /// An array for an operation to write.
    pub(crate) fn fill(&self, shape: [usize; 2]) -> Result<Held<D>> {
        Held::fill(&self.device, shape)
    }

    /// An array of zeros.
    pub(crate) fn zeros(&self, shape: [usize; 2]) -> Result<Held<D>> {
        Ok(self.hold(Matrix::zeros(&self.device, shape)?))
    }

    pub(crate) fn traffic(&self) -> Traffic {
        Traffic::default()
    }
}

impl<D: Device> Held<D> {
    pub(crate) fn new(array: Matrix<D>) -> Self {
        Self { array }
    }

    /// An array whose contents are new: the first operation that uses it writes all of it.
    pub(crate) fn fill(device: &D, shape: [usize; 2]) -> Result<Self> {
        Ok(Self::new(unwritten(device, shape)?))
    }

    pub(crate) fn read(&self) -> Result<ReadGuard<'_, D>> {
        Ok(ReadGuard { array: &self.array })
    }

    pub(crate) fn write(&mut self) -> Result<WriteGuard<'_, D>> {
        Ok(WriteGuard { array: &mut self.array })
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

impl<D: Device> Deref for ReadGuard<'_, D> {
    type Target = Matrix<D>;

    fn deref(&self) -> &Matrix<D> {
        self.array
    }
}

impl<D: Device> Deref for WriteGuard<'_, D> {
    type Target = Matrix<D>;

    fn deref(&self) -> &Matrix<D> {
        self.array
    }
}

impl<D: Device> DerefMut for WriteGuard<'_, D> {
    fn deref_mut(&mut self) -> &mut Matrix<D> {
        self.array
    }
}
