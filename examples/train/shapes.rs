//! Checks that shapes match. Every machine calls these checks before it touches memory, so the `unsafe` parts can rely on them.

use gpucache::prelude::*;

use crate::common::Result;
use crate::compute::{Factor, Matrix, Parameter};

impl<D: Device> Factor<'_, D> {
    pub(crate) fn array(&self) -> &Matrix<D> {
        match self {
            Self::AsIs(array) | Self::Transposed(array) => array,
        }
    }

    /// Rows and columns of the factor in the product.
    pub(crate) fn dims(&self) -> Result<(usize, usize)> {
        let (rows, columns) = dims(self.array())?;
        Ok(match self {
            Self::AsIs(_) => (rows, columns),
            Self::Transposed(_) => (columns, rows),
        })
    }
}

/// Rows and columns of a matrix.
pub(crate) fn dims<D: Device>(matrix: &Matrix<D>) -> Result<(usize, usize)> {
    match *matrix.shape() {
        [rows, columns] => Ok((rows, columns)),
        ref shape => Err(format!("a matrix has rows and columns, not the shape {shape:?}").into()),
    }
}

/// Rows, columns and inner length of `a · b`, whose shape is that of `out`.
pub(crate) fn product<D: Device>(
    a: &Factor<'_, D>,
    b: &Factor<'_, D>,
    out: &Matrix<D>,
) -> Result<(usize, usize, usize)> {
    let ((m, k), (inner, n)) = (a.dims()?, b.dims()?);
    ensure(k == inner && dims(out)? == (m, n), || {
        format!("a product of {m}x{k} and {inner}x{n} does not fit into {:?}", out.shape())
    })?;
    Ok((m, n, k))
}

/// Rows and columns of `out`, which is filled with the rows `order[start..start + rows]` of `table`.
pub(crate) fn gather<D: Device>(
    table: &Matrix<D>,
    order: &Array<u32, D>,
    start: u32,
    out: &Matrix<D>,
) -> Result<(usize, usize)> {
    let (rows, columns) = dims(out)?;
    let fits = dims(table)?.1 == columns && has_rows(order.len(), start, rows);
    ensure(fits, || {
        format!("rows {start}.. of {} do not give {:?} from {:?}", order.len(), out.shape(), table.shape())
    })?;
    Ok((rows, columns))
}

/// Rows and columns of `x`, where `vector` has one number for each column.
pub(crate) fn columns<D: Device>(x: &Matrix<D>, vector: &Matrix<D>) -> Result<(usize, usize)> {
    let (rows, columns) = dims(x)?;
    ensure(dims(vector)? == (1, columns), || {
        format!("{:?} has no entry per column of {:?}", vector.shape(), x.shape())
    })?;
    Ok((rows, columns))
}

/// Rows and columns of `gradient`, `logits` and `targets`. The losses of the rows have places in the array of losses, from `start` on.
pub(crate) fn losses<D: Device>(
    logits: &Matrix<D>,
    targets: &Matrix<D>,
    start: u32,
    losses: &Matrix<D>,
    gradient: &Matrix<D>,
) -> Result<(usize, usize)> {
    same(logits, targets)?;
    same(logits, gradient)?;
    let (rows, columns) = dims(gradient)?;
    ensure(columns > 0 && has_rows(losses.len(), start, rows), || {
        format!("the losses of {:?} have no place from {start} on in {}", logits.shape(), losses.len())
    })?;
    Ok((rows, columns))
}

/// The number of elements of `gradient`, and of each array of `parameter`.
pub(crate) fn parameter<D: Device>(gradient: &Matrix<D>, parameter: &Parameter<D>) -> Result<usize> {
    let Parameter { value, mean, square } = parameter;
    same(gradient, value)?;
    same(gradient, mean)?;
    same(gradient, square)
}

/// The number of elements that both arrays have.
pub(crate) fn same<D: Device>(a: &Matrix<D>, b: &Matrix<D>) -> Result<usize> {
    ensure(a.shape() == b.shape(), || format!("{:?} and {:?} are not the same shape", a.shape(), b.shape()))?;
    Ok(a.len())
}

fn has_rows(len: usize, start: u32, rows: usize) -> bool {
    (start as usize).checked_add(rows).is_some_and(|end| end <= len)
}

fn ensure(holds: bool, message: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(message().into()) }
}
