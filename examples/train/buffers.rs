//! Three ways to allocate the arrays of a step. The step itself is the same.
//!
//! `scoped` and `plain` differ by one word in the code, and compute the same. `hand` preallocates all arrays, as fast programs do today.
//! `scoped` has to be as fast as that.

use std::ops::{Deref, DerefMut};
use std::{mem, slice};

use gpucache::prelude::*;

use crate::common::Result;
use crate::compute::Matrix;

/// The argument of `--alloc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Alloc {
    /// Each step allocates its arrays, and the cache of its scope serves them.
    Scoped,
    /// Each step allocates its arrays from the device, without the cache.
    Plain,
    /// All arrays are allocated before the training, and each step uses them again.
    Hand,
}

/// What one kind of step (full batch, last batch, evaluation) draws its arrays from.
pub(crate) enum Storage<D: Device> {
    Scoped(D),
    Plain(D),
    Hand(Vec<Matrix<D>>),
}

/// The storage as one step sees it: asked for one output after the other.
pub(crate) enum Buffers<'a, D: Device> {
    Scoped(&'a D),
    Plain(&'a D),
    Hand(slice::IterMut<'a, Matrix<D>>),
}

/// An array for the length of a step, or until a later step replaces it. Dropping an owned one gives its memory back at once,
/// for the next array of the step.
pub(crate) enum Buffer<'a, D: Device> {
    Owned(Matrix<D>),
    Hand(&'a mut Matrix<D>),
}

impl<D: Device> Storage<D> {
    /// `shapes` lists what a step asks for, in its order. Only `hand` needs it: it has to be kept in line with the step by
    /// whoever changes the step, and all these arrays are held at once, also those that a step never needs together.
    pub(crate) fn new(alloc: Alloc, device: &D, shapes: &[[usize; 2]]) -> Result<Self> {
        Ok(match alloc {
            Alloc::Scoped => Self::Scoped(device.clone()),
            Alloc::Plain => Self::Plain(device.clone()),
            Alloc::Hand => {
                Self::Hand(shapes.iter().map(|&shape| Matrix::zeros(device, shape)).collect::<Result<_, _>>()?)
            }
        })
    }

    pub(crate) fn buffers(&mut self) -> Buffers<'_, D> {
        match self {
            Self::Scoped(device) => Buffers::Scoped(device),
            Self::Plain(device) => Buffers::Plain(device),
            Self::Hand(arrays) => Buffers::Hand(arrays.iter_mut()),
        }
    }
}

impl<'a, D: Device> Buffers<'a, D> {
    /// The next array of the step, for an operation to write: its contents are whatever stood there before.
    pub(crate) fn output(&mut self, shape: [usize; 2]) -> Result<Buffer<'a, D>> {
        match self {
            // The scope we are in serves this: from the second step on with memory that an earlier array gave back.
            Self::Scoped(device) => Ok(Buffer::Owned(unwritten(*device, shape)?)),
            Self::Plain(device) => gpucache::uncached!({ Ok(Buffer::Owned(unwritten(*device, shape)?)) }),
            Self::Hand(arrays) => match arrays.next() {
                Some(array) if *array.shape() == shape => Ok(Buffer::Hand(array)),
                other => Err(format!(
                    "the step asks for {shape:?} where its hand-made list has {:?}: bring the list in line with the step",
                    other.map(|array| array.shape())
                )
                .into()),
            },
        }
    }
}

/// An array that is not cleared, because every operation of `Compute` writes its output in full.
#[allow(unsafe_code)]
fn unwritten<D: Device>(device: &D, shape: [usize; 2]) -> gpucache::Result<Matrix<D>> {
    // SAFETY: the only way to an output is through `Compute`, whose operations write every element of the output they are
    // given before anything reads it (its documented contract); f32 has no invalid bit pattern.
    unsafe { Matrix::uninit(device, shape) }
}

impl<D: Device> Buffer<'_, D> {
    /// Puts this array in the place of `old`, which is dropped. One that was made by hand changes places with `old` instead:
    /// the next step's output is what this step had as its input.
    pub(crate) fn replace(self, old: &mut Matrix<D>) {
        match self {
            Self::Owned(new) => *old = new,
            Self::Hand(new) => mem::swap(old, new),
        }
    }
}

impl<D: Device> Deref for Buffer<'_, D> {
    type Target = Matrix<D>;

    fn deref(&self) -> &Matrix<D> {
        match self {
            Self::Owned(array) => array,
            Self::Hand(array) => array,
        }
    }
}

impl<D: Device> DerefMut for Buffer<'_, D> {
    fn deref_mut(&mut self) -> &mut Matrix<D> {
        match self {
            Self::Owned(array) => array,
            Self::Hand(array) => array,
        }
    }
}
