//! Matrix products on the host. Threads share the rows of the result, and one thread computes each part.

use gpucache::prelude::*;
use rayon::prelude::*;

use crate::gpt::compute::{Factor, Matrix};
use crate::gpt::shapes::Product;

/// Rows of a product that one thread takes at a time.
const ROWS: usize = 64;

/// `out = scale · a · b + beta · out` for matrices that are stored one below the other, in parts of [`ROWS`] rows.
pub(crate) fn multiply(
    sizes: Product,
    (a, b): (&Factor<'_, Host>, &Factor<'_, Host>),
    (scale, beta): (f32, f32),
    out: &mut Matrix<Host>,
) {
    let Product { m, n, k } = sizes;
    let (a_strides, b_strides) = (Strides::of(a, m, k), Strides::of(b, k, n));
    let (a, b) = (a.array(), b.array());
    out.par_chunks_exact_mut(m * n).enumerate().for_each(|(which, out)| {
        let (a, b) = (&a[which * m * k..][..m * k], &b[which * k * n..][..k * n]);
        out.par_chunks_mut(ROWS * n).enumerate().for_each(|(part, out)| {
            let a = &a[part * ROWS * a_strides.row as usize..];
            multiply_rows(Product { m: out.len() / n, n, k }, (a, a_strides), (b, b_strides), (scale, beta), out);
        });
    });
}

/// The product of `m` rows of the first factor, which begin at the beginning of `a`.
#[allow(unsafe_code)]
fn multiply_rows(
    Product { m, n, k }: Product,
    (a, a_strides): (&[f32], Strides),
    (b, b_strides): (&[f32], Strides),
    (scale, beta): (f32, f32),
    out: &mut [f32],
) {
    // SAFETY: `a` begins at the first of `m` rows of a dense matrix of `k` columns, or of its transpose, and extends to the end of
    // that matrix, so these strides stay inside. `b` is a whole matrix of k×n. `out` is m×n; it is borrowed mutably, so it is
    // none of the factors. With `beta` 0 `read_dst` is false, so no unwritten element is read.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            n as isize,
            beta != 0.0,
            a.as_ptr(),
            a_strides.column,
            a_strides.row,
            b.as_ptr(),
            b_strides.column,
            b_strides.row,
            beta,
            scale,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

/// Distances in memory from one column to the next, and from one row to the next.
#[derive(Clone, Copy)]
struct Strides {
    column: isize,
    row: isize,
}

impl Strides {
    /// The strides of a factor that the product sees as `rows × columns`.
    fn of(factor: &Factor<'_, Host>, rows: usize, columns: usize) -> Self {
        match factor {
            Factor::AsIs(_) => Self { column: 1, row: columns as isize },
            Factor::Transposed(_) => Self { column: rows as isize, row: 1 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpt::shapes;

    fn matrix(shape: [usize; 2], values: impl Fn(usize) -> f32) -> Matrix<Host> {
        let values: Vec<f32> = (0..shape[0] * shape[1]).map(values).collect();
        Matrix::from_slice(&Host::new(), shape, &values).unwrap()
    }

    /// Stale contents, as a cache provides them. They reveal an operation that does not write all of its output.
    fn stale(shape: [usize; 2]) -> Matrix<Host> {
        matrix(shape, |_| f32::NAN)
    }

    fn wave(i: usize) -> f32 {
        (i as f32 * 0.7).sin()
    }

    /// The transpose of each of `batch` tables of `rows × columns`.
    fn turned(x: &Matrix<Host>, batch: usize, rows: usize, columns: usize) -> Matrix<Host> {
        let place = |i: usize| (i / (rows * columns), i / rows % columns, i % rows);
        matrix([batch * columns, rows], |i| {
            let (which, column, row) = place(i);
            x[which * rows * columns + row * columns + column]
        })
    }

    #[test]
    fn products_agree_with_the_plain_loop() {
        for (batch, m, n, k) in [(1, 1, 1, 1), (1, 3, 5, 4), (4, 30, 10, 12), (2, 130, 7, 65)] {
            let (a, b) = (matrix([batch * m, k], wave), matrix([batch * k, n], |i| wave(3 * i + 1)));
            let (turned_a, turned_b) = (turned(&a, batch, m, k), turned(&b, batch, k, n));
            let expected: Vec<f32> = (0..batch * m * n)
                .map(|i| (i / (m * n), i / n, i % n))
                .map(|(which, row, column)| (0..k).map(|l| a[row * k + l] * b[(which * k + l) * n + column]).sum())
                .collect();
            let factors = [
                (Factor::AsIs(&a), Factor::AsIs(&b)),
                (Factor::Transposed(&turned_a), Factor::AsIs(&b)),
                (Factor::AsIs(&a), Factor::Transposed(&turned_b)),
                (Factor::Transposed(&turned_a), Factor::Transposed(&turned_b)),
            ];
            for (left, right) in factors {
                let mut out = stale([batch * m, n]);
                let sizes = shapes::product(batch, &left, &right, &out).unwrap();
                multiply(sizes, (&left, &right), (2.0, 0.0), &mut out);
                assert!(out.iter().zip(&expected).all(|(x, y)| (x - 2.0 * y).abs() < 1e-4), "{batch}x{m}x{n}x{k}");
            }
        }
    }

    #[test]
    fn a_product_is_added_where_that_is_asked_for() {
        let (a, b) = (matrix([1, 2], |i| i as f32 + 1.0), matrix([2, 1], |_| 10.0));
        let mut out = stale([1, 1]);
        for beta in [0.0, 1.0] {
            multiply(Product { m: 1, n: 1, k: 2 }, (&Factor::AsIs(&a), &Factor::AsIs(&b)), (1.0, beta), &mut out);
        }
        assert_eq!(out[..], [60.0]);
    }
}
