//! Checks which shapes fit together. Every machine calls this before it touches memory, so its `unsafe` parts can rely on it.

use gpucache::prelude::*;

use crate::common::Result;
use crate::gpt::compute::{Factor, Matrix, Part};

/// The sizes of a product of matrices: `m × k` by `k × n`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
}

/// Sequences of `context` tokens, with `heads` parts of `width` numbers for each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heads {
    pub(crate) context: usize,
    pub(crate) heads: usize,
    pub(crate) width: usize,
}

impl Heads {
    /// The place of row `row` of the split table in the merged table, in units of a head's width.
    pub(crate) fn merged_row(self, row: usize) -> usize {
        let (table, token) = (row / self.context, row % self.context);
        let (sequence, head) = (table / self.heads, table % self.heads);
        (sequence * self.context + token) * self.heads + head
    }

    /// The inverse of [`Heads::merged_row`].
    pub(crate) fn split_row(self, row: usize) -> usize {
        let (token, head) = (row / self.heads, row % self.heads);
        let (sequence, token) = (token / self.context, token % self.context);
        (sequence * self.heads + head) * self.context + token
    }
}

impl<D: Device> Factor<'_, D> {
    pub(crate) fn array(&self) -> &Matrix<D> {
        match self {
            Self::AsIs(array) | Self::Transposed(array) => array,
        }
    }

    /// Rows and columns of each of `batch` matrices, as the product sees them.
    fn dims(&self, batch: usize) -> Result<(usize, usize)> {
        let (rows, columns) = dims(self.array())?;
        ensure(batch > 0 && rows.is_multiple_of(batch), || format!("{rows} rows are not {batch} matrices"))?;
        let rows = rows / batch;
        Ok(match self {
            Self::AsIs(_) => (rows, columns),
            Self::Transposed(_) => (columns, rows),
        })
    }
}

/// Rows and columns of a matrix, neither of which is 0.
pub(crate) fn dims<D: Device>(matrix: &Matrix<D>) -> Result<(usize, usize)> {
    match *matrix.shape() {
        [rows, columns] if rows > 0 && columns > 0 => Ok((rows, columns)),
        ref shape => Err(format!("a matrix has rows and columns, not the shape {shape:?}").into()),
    }
}

/// The sizes of each of `batch` products `a · b`, which must fit `out`.
pub(crate) fn product<D: Device>(
    batch: usize,
    a: &Factor<'_, D>,
    b: &Factor<'_, D>,
    out: &Matrix<D>,
) -> Result<Product> {
    let ((m, k), (inner, n)) = (a.dims(batch)?, b.dims(batch)?);
    ensure(k == inner && Factor::AsIs(out).dims(batch)? == (m, n), || {
        format!("{batch} products of {m}x{k} and {inner}x{n} do not fit into {:?}", out.shape())
    })?;
    Ok(Product { m, n, k })
}

/// Rows and columns of `x`; each of the `vectors` must have one number per column.
pub(crate) fn columns<D: Device>(x: &Matrix<D>, vectors: &[&Matrix<D>]) -> Result<(usize, usize)> {
    let (rows, columns) = dims(x)?;
    for vector in vectors {
        ensure(dims(vector)? == (1, columns), || {
            format!("{:?} has no entry per column of {:?}", vector.shape(), x.shape())
        })?;
    }
    Ok((rows, columns))
}

/// The number and the length of the rows of `x`, if its numbers are taken as rows as long as `sum`.
pub(crate) fn folded<D: Device>(x: &Matrix<D>, sum: &Matrix<D>) -> Result<(usize, usize)> {
    let ((rows, columns), (one, length)) = (dims(x)?, dims(sum)?);
    let fits = one == 1 && length.is_multiple_of(columns) && rows.is_multiple_of(length / columns);
    ensure(fits, || format!("{:?} does not fall into rows as {:?}", x.shape(), sum.shape()))?;
    Ok((x.len() / length, length))
}

/// Rows and columns of all matrices, which must have the same shape.
pub(crate) fn same<D: Device>(a: &Matrix<D>, others: &[&Matrix<D>]) -> Result<(usize, usize)> {
    for b in others {
        ensure(a.shape() == b.shape(), || format!("{:?} and {:?} are not the same shape", a.shape(), b.shape()))?;
    }
    dims(a)
}

/// The sizes of the heads. `merged` must have one row per token, and `split` one row per token and head.
pub(crate) fn heads<D: Device>(context: usize, merged: &Matrix<D>, split: &Matrix<D>) -> Result<Heads> {
    let ((rows, columns), (split_rows, width)) = (dims(merged)?, dims(split)?);
    let heads = columns / width;
    ensure(
        context > 0 && rows.is_multiple_of(context) && heads * width == columns && split_rows == rows * heads,
        || format!("{:?} and {:?} are not the same heads of {context} tokens", merged.shape(), split.shape()),
    )?;
    Ok(Heads { context, heads, width })
}

/// Rows and columns of square tables that are stored one below the other.
pub(crate) fn squares<D: Device>(x: &Matrix<D>) -> Result<(usize, usize)> {
    let (rows, columns) = dims(x)?;
    ensure(rows.is_multiple_of(columns), || format!("{:?} is not made of square tables", x.shape()))?;
    Ok((rows, columns))
}

/// Rows and columns of the embedded tokens, which have one row each, and the length of a sequence.
pub(crate) fn embedding<D: Device>(
    tokens: &Array<u32, D>,
    positions: &Matrix<D>,
    table: &Matrix<D>,
    out: &Matrix<D>,
) -> Result<(usize, usize, usize)> {
    let (rows, columns) = tokens_of(tokens, table, out)?;
    let (one, places) = dims(positions)?;
    ensure(one == 1 && places.is_multiple_of(columns) && rows.is_multiple_of(places / columns), || {
        format!("{:?} are no places for {:?}", positions.shape(), out.shape())
    })?;
    Ok((rows, columns, places / columns))
}

/// Rows and columns of `x`, which must have one row per token and be as wide as `table`.
pub(crate) fn tokens_of<D: Device>(tokens: &Array<u32, D>, table: &Matrix<D>, x: &Matrix<D>) -> Result<(usize, usize)> {
    let (rows, columns) = dims(x)?;
    ensure(tokens.len() == rows && dims(table)?.1 == columns, || {
        format!("{} tokens do not give {:?} from {:?}", tokens.len(), x.shape(), table.shape())
    })?;
    Ok((rows, columns))
}

/// Rows and columns of the logits; each row must have a target, a loss and a gradient.
pub(crate) fn losses<D: Device>(
    logits: &Matrix<D>,
    targets: &Array<u32, D>,
    losses: &Matrix<D>,
    gradient: &Matrix<D>,
) -> Result<(usize, usize)> {
    let (rows, columns) = same(logits, &[gradient])?;
    ensure(targets.len() == rows && dims(losses)? == (1, rows), || {
        format!("{} targets and losses {:?} are not for {:?}", targets.len(), losses.shape(), logits.shape())
    })?;
    Ok((rows, columns))
}

/// Checks that an update stays within its arrays.
pub(crate) fn update<D: Device>(part: Part, gradient: &Matrix<D>, moved: [&Matrix<D>; 3]) -> Result<()> {
    let [value, mean, square] = moved;
    within(gradient, part.gradient, part.count)?;
    within(value, part.value, part.count)?;
    within(mean, part.moments, part.count)?;
    within(square, part.moments, part.count)
}

/// Checks that `x` has `count` numbers from place `start` on.
pub(crate) fn within<D: Device>(x: &Matrix<D>, start: usize, count: usize) -> Result<()> {
    let fits = start.checked_add(count).is_some_and(|end| end <= x.len());
    ensure(fits, || format!("{:?} has no {count} numbers from number {start} on", x.shape()))
}

fn ensure(holds: bool, message: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(message().into()) }
}
