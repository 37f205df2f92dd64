//! A decoder's step: from the last token of each row to the next one. Every array between the tokens is allocated where it is needed, and
//! dropped where it is no longer needed.

use gpucache::prelude::*;
use std::cell::RefMut;

use crate::common::Result;

/// Rows of numbers.
pub(crate) type Matrix<D> = Array<f32, D>;
pub(crate) type Tokens<D> = Array<u32, D>;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// The largest number of sequences.
    pub(crate) batches: usize,
    /// Rows of a sequence.
    pub(crate) rows: usize,
    pub(crate) width: usize,
    pub(crate) blocks: usize,
}

/// A device, and the operations of the step. Each writes all of its last argument. Shapes that do not match are an error.
pub(crate) trait Machine {
    type Device: Device;

    fn device(&self) -> &Self::Device;

    /// The device's name on the command line.
    fn name(&self) -> String;

    /// Memory that `multiply` uses beside its arguments.
    fn workspace(&self) -> Option<RefMut<'_, Array<u8, Self::Device>>> {
        None
    }

    /// Memory of the device that no program uses, if the device can tell.
    fn free_bytes(&self) -> Option<u64> {
        None
    }

    /// Row `i` of `out` = row `tokens[i]` of `table`.
    fn embed(
        &self,
        tokens: &Tokens<Self::Device>,
        table: &Matrix<Self::Device>,
        out: &mut Matrix<Self::Device>,
    ) -> Result<()>;

    /// `out` = each row of `x`, divided by the root of the mean of its squares.
    fn normalize(&self, x: &Matrix<Self::Device>, out: &mut Matrix<Self::Device>) -> Result<()>;

    /// `out = x · weights`.
    fn multiply(
        &self,
        x: &Matrix<Self::Device>,
        weights: &Matrix<Self::Device>,
        out: &mut Matrix<Self::Device>,
    ) -> Result<()>;

    /// The first rows of `state` become half of themselves plus GELU(`product`), and `out` = `x` + these rows.
    fn activate(
        &self,
        product: &Matrix<Self::Device>,
        x: &Matrix<Self::Device>,
        state: &mut Matrix<Self::Device>,
        out: &mut Matrix<Self::Device>,
    ) -> Result<()>;

    /// The column of the largest number of each row.
    fn pick(&self, x: &Matrix<Self::Device>, out: &mut Tokens<Self::Device>) -> Result<()>;
}

/// The arrays of the decoder.
pub(crate) struct Model<D: Device> {
    /// A row for each token.
    pub(crate) table: Matrix<D>,
    /// The weights of each block.
    pub(crate) weights: Vec<Matrix<D>>,
    /// The values that each block remembers for the rows of the largest batch.
    pub(crate) states: Vec<Matrix<D>>,
}

impl<D: Device> Model<D> {
    pub(crate) fn new(device: &D, sizes: Sizes, random: &mut fastrand::Rng) -> Result<Self> {
        let Sizes { batches, rows, width, blocks } = sizes;
        let scale = 1.0 / (width as f32).sqrt();
        let mut square = |scale: f32| {
            let numbers: Vec<f32> = (0..width * width).map(|_| scale * (2.0 * random.f32() - 1.0)).collect();
            Matrix::from_slice(device, [width, width], &numbers)
        };
        let table = square(1.0)?;
        let weights = (0..blocks).map(|_| square(scale)).collect::<Result<_, _>>()?;
        let states = (0..blocks).map(|_| Matrix::zeros(device, [batches * rows, width])).collect::<Result<_, _>>()?;
        Ok(Self { table, weights, states })
    }
}

/// The next token of each row.
pub(crate) fn step<M: Machine>(
    machine: &M,
    tokens: &Tokens<M::Device>,
    table: &Matrix<M::Device>,
    weights: &[Matrix<M::Device>],
    states: &mut [Matrix<M::Device>],
) -> Result<Tokens<M::Device>> {
    let device = machine.device();
    let new = || unwritten(device, [tokens.len(), dims(table)?.1]);
    let mut x = new()?;
    machine.embed(tokens, table, &mut x)?;
    for (weights, state) in weights.iter().zip(states) {
        let mut normal = new()?;
        machine.normalize(&x, &mut normal)?;
        let mut product = new()?;
        machine.multiply(&normal, weights, &mut product)?;
        drop(normal);
        let mut next = new()?;
        machine.activate(&product, &x, state, &mut next)?;
        x = next;
    }
    let mut next = device.zeros(tokens.len())?;
    machine.pick(&x, &mut next)?;
    Ok(next)
}

/// An array that is not cleared, because an operation writes all of it.
#[allow(unsafe_code)]
fn unwritten<D: Device>(device: &D, shape: [usize; 2]) -> Result<Matrix<D>> {
    // SAFETY: `step` first passes the array to an operation of `Machine` as its last argument, and the operation writes every element
    // (its documented contract). f32 has no invalid bit pattern.
    Ok(unsafe { Matrix::uninit(device, shape)? })
}

/// Rows and columns of a matrix.
pub(crate) fn dims<D: Device>(matrix: &Matrix<D>) -> Result<(usize, usize)> {
    match *matrix.shape() {
        [rows, columns] => Ok((rows, columns)),
        ref shape => Err(format!("a matrix has rows and columns, not the shape {shape:?}").into()),
    }
}

/// Rows and columns of all these matrices.
pub(crate) fn same<D: Device>(one: &Matrix<D>, other: &Matrix<D>) -> Result<(usize, usize)> {
    ensure(one.shape() == other.shape(), "two matrices differ in shape")?;
    dims(one)
}

pub(crate) fn ensure(holds: bool, message: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(message.into()) }
}
