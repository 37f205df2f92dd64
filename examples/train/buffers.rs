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
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Alloc {
    /// Each step allocates its arrays, and the cache of its scope serves them.
    Scoped,
    /// Each step allocates its arrays from the device, without the cache.
    Plain,
    /// All arrays are allocated before the training, and each step uses them again.
    Hand,
}

/// The source of arrays for one kind of step: full batch, last batch, or evaluation.
pub(crate) enum Storage<D: Device> {
    Scoped(D),
    Plain(D),
    Hand(Vec<Matrix<D>>),
}

/// The storage during one step, which requests one output after the other.
pub(crate) enum Buffers<'a, D: Device> {
    Scoped(&'a D),
    Plain(&'a D),
    Hand(slice::IterMut<'a, Matrix<D>>),
}

/// An array that lives until the end of a step, or until a later step replaces it. If it is owned, its drop returns the memory at
/// once, for the next array of the step.
pub(crate) enum Buffer<'a, D: Device> {
    Owned(Matrix<D>),
    Hand(&'a mut Matrix<D>),
}

impl<D: Device> Storage<D> {
    /// `shapes` lists the arrays of a step, in their order. Only `hand` needs the list. It must be updated by hand with each change of the
    /// step. `hand` also keeps all these arrays at once, even those that a step never needs together.
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
    /// The next array of the step. Its contents are arbitrary, because an operation writes all of it.
    pub(crate) fn output(&mut self, shape: [usize; 2]) -> Result<Buffer<'a, D>> {
        match self {
            // The current scope serves this. From the second step on, it uses memory of earlier arrays.
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

/// An array that is not cleared, because every operation of `Compute` writes its whole output.
#[allow(unsafe_code)]
fn unwritten<D: Device>(device: &D, shape: [usize; 2]) -> gpucache::Result<Matrix<D>> {
    // SAFETY: the only way to an output is through `Compute`, whose operations write every element of the output they are
    // given before anything reads it (its documented contract); f32 has no invalid bit pattern.
    unsafe { Matrix::uninit(device, shape) }
}

impl<D: Device> Buffer<'_, D> {
    /// Replaces `old` by this array, and drops `old`. A preallocated array is swapped with `old` instead, so that the next step writes its
    /// output where this step had its input.
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
