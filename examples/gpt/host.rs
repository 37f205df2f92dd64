//! The operations in host memory. Threads share the work by rows.
//!
//! Only the shapes decide which thread computes what, and one thread computes each sum. So the number of threads changes no bit.

use gpucache::prelude::*;
use rayon::prelude::*;

use crate::common::Result;
use crate::gpt::compute::{AdamW, COUNTED_IN, Compute, Factor, Matrix, Part, mixed};
use crate::gpt::product::multiply;
use crate::gpt::rows::{self, Moments};
use crate::gpt::shapes;

/// The least work of one thread at a time: numbers of an elementwise operation, or rows or columns of another one.
const NUMBERS: usize = 4096;
const ROWS: usize = 64;

/// The processor and its memory.
#[derive(Debug)]
pub(crate) struct HostCompute {
    device: Host,
}

impl HostCompute {
    pub(crate) fn new() -> Self {
        Self { device: Host::new() }
    }

    /// On a stream, whose memory is counted and limited separately.
    #[cfg(test)]
    pub(crate) fn on(device: Host) -> Self {
        Self { device }
    }
}

impl Compute for HostCompute {
    type Device = Host;

    fn device(&self) -> &Host {
        &self.device
    }

    fn name(&self) -> String {
        "host".to_owned()
    }

    fn uniform(&self, key: u64, limit: f32, out: &mut Matrix<Host>) -> Result<()> {
        out.par_iter_mut().enumerate().with_min_len(NUMBERS).for_each(|(place, out)| {
            let bits = mixed(key.wrapping_add((place as u64 + 1).wrapping_mul(COUNTED_IN)));
            // 24 bits around zero: exact in a float, and so is the product with a power of two.
            *out = limit * ((bits >> 40) as i32 - (1 << 23)) as f32 * (-23_f32).exp2();
        });
        Ok(())
    }

    fn clear(&self, out: &mut Matrix<Host>) -> Result<()> {
        out.fill(0.0);
        Ok(())
    }

    fn matmul(&self, a: Factor<'_, Host>, b: Factor<'_, Host>, beta: f32, out: &mut Matrix<Host>) -> Result<()> {
        multiply(shapes::product(1, &a, &b, out)?, (&a, &b), (1.0, beta), out);
        Ok(())
    }

    fn batched_matmul(
        &self,
        batch: usize,
        a: Factor<'_, Host>,
        b: Factor<'_, Host>,
        scale: f32,
        out: &mut Matrix<Host>,
    ) -> Result<()> {
        multiply(shapes::product(batch, &a, &b, out)?, (&a, &b), (scale, 0.0), out);
        Ok(())
    }

    fn add(&self, x: &Matrix<Host>, sum: &mut Matrix<Host>) -> Result<()> {
        shapes::same(x, &[sum])?;
        sum.par_iter_mut().zip(&x[..]).with_min_len(NUMBERS).for_each(|(sum, x)| *sum += x);
        Ok(())
    }

    fn add_bias(&self, bias: &Matrix<Host>, x: &mut Matrix<Host>) -> Result<()> {
        let (_, columns) = shapes::columns(x, &[bias])?;
        let add = |x: &mut [f32]| x.iter_mut().zip(bias.iter()).for_each(|(x, bias)| *x += bias);
        x.par_chunks_exact_mut(columns).with_min_len(ROWS).for_each(add);
        Ok(())
    }

    fn sum_rows(&self, x: &Matrix<Host>, out: &mut Matrix<Host>) -> Result<()> {
        let (_, columns) = shapes::folded(x, out)?;
        out.par_chunks_mut(ROWS).enumerate().for_each(|(part, sums)| {
            sums.fill(0.0);
            for row in x.chunks_exact(columns) {
                sums.iter_mut().zip(&row[part * ROWS..]).for_each(|(sum, x)| *sum += x);
            }
        });
        Ok(())
    }

    fn gelu(&self, x: &Matrix<Host>, out: &mut Matrix<Host>) -> Result<()> {
        shapes::same(x, &[out])?;
        out.par_iter_mut().zip(&x[..]).with_min_len(NUMBERS).for_each(|(out, x)| *out = rows::gelu(*x));
        Ok(())
    }

    fn gelu_gradient(&self, x: &Matrix<Host>, gradient: &mut Matrix<Host>) -> Result<()> {
        shapes::same(x, &[gradient])?;
        let both = gradient.par_iter_mut().zip(&x[..]).with_min_len(NUMBERS);
        both.for_each(|(gradient, x)| *gradient *= rows::gelu_slope(*x));
        Ok(())
    }

    fn layer_norm(
        &self,
        x: &Matrix<Host>,
        gain: &Matrix<Host>,
        bias: &Matrix<Host>,
        out: &mut Matrix<Host>,
    ) -> Result<()> {
        shapes::same(x, &[out])?;
        let (_, columns) = shapes::columns(x, &[gain, bias])?;
        out.par_chunks_exact_mut(columns).zip(x.par_chunks_exact(columns)).for_each(|(out, x)| {
            let moments = Moments::of(x);
            for (((out, x), gain), bias) in out.iter_mut().zip(x).zip(gain.iter()).zip(bias.iter()) {
                *out = moments.normalized(*x) * gain + bias;
            }
        });
        Ok(())
    }

    fn layer_norm_gradient(
        &self,
        x: &Matrix<Host>,
        gain: &Matrix<Host>,
        gradient: &Matrix<Host>,
        sum: &mut Matrix<Host>,
    ) -> Result<()> {
        shapes::same(x, &[gradient, sum])?;
        let (_, columns) = shapes::columns(x, &[gain])?;
        let inputs = x.par_chunks_exact(columns).zip(gradient.par_chunks_exact(columns));
        let each = |(sum, (x, gradient)): (&mut [f32], (&[f32], &[f32]))| rows::norm_gradient(x, gain, gradient, sum);
        sum.par_chunks_exact_mut(columns).zip(inputs).for_each(each);
        Ok(())
    }

    fn normalized_product(&self, x: &Matrix<Host>, gradient: &Matrix<Host>, out: &mut Matrix<Host>) -> Result<()> {
        let (_, columns) = shapes::same(x, &[gradient, out])?;
        let inputs = x.par_chunks_exact(columns).zip(gradient.par_chunks_exact(columns));
        out.par_chunks_exact_mut(columns).zip(inputs).for_each(|(out, (x, gradient))| {
            let moments = Moments::of(x);
            for ((out, x), gradient) in out.iter_mut().zip(x).zip(gradient) {
                *out = moments.normalized(*x) * gradient;
            }
        });
        Ok(())
    }

    fn split_heads(&self, context: usize, x: &Matrix<Host>, out: &mut Matrix<Host>) -> Result<()> {
        let heads = shapes::heads(context, x, out)?;
        out.par_chunks_exact_mut(heads.width).with_min_len(ROWS).enumerate().for_each(|(row, out)| {
            let first = heads.merged_row(row) * heads.width;
            out.copy_from_slice(&x[first..first + heads.width]);
        });
        Ok(())
    }

    fn merge_heads(&self, context: usize, x: &Matrix<Host>, out: &mut Matrix<Host>) -> Result<()> {
        let heads = shapes::heads(context, out, x)?;
        out.par_chunks_exact_mut(heads.width).with_min_len(ROWS).enumerate().for_each(|(row, out)| {
            let first = heads.split_row(row) * heads.width;
            out.copy_from_slice(&x[first..first + heads.width]);
        });
        Ok(())
    }

    fn causal_softmax(&self, scores: &mut Matrix<Host>) -> Result<()> {
        let (_, columns) = shapes::squares(scores)?;
        let each = |(row, scores): (usize, &mut [f32])| rows::softmax(scores, row % columns + 1);
        scores.par_chunks_exact_mut(columns).enumerate().for_each(each);
        Ok(())
    }

    fn softmax_gradient(&self, probabilities: &Matrix<Host>, gradient: &mut Matrix<Host>) -> Result<()> {
        let (_, columns) = shapes::same(probabilities, &[gradient])?;
        let inputs = probabilities.par_chunks_exact(columns);
        let each = |(gradient, probabilities): (&mut [f32], &[f32])| rows::softmax_gradient(probabilities, gradient);
        gradient.par_chunks_exact_mut(columns).zip(inputs).for_each(each);
        Ok(())
    }

    fn embed(
        &self,
        tokens: &Array<u32, Host>,
        table: &Matrix<Host>,
        positions: &Matrix<Host>,
        out: &mut Matrix<Host>,
    ) -> Result<()> {
        let (_, columns, context) = shapes::embedding(tokens, positions, table, out)?;
        for (row, (out, &token)) in out.chunks_exact_mut(columns).zip(tokens.iter()).enumerate() {
            let token =
                table.chunks_exact(columns).nth(token as usize).ok_or("there is a token that the table lacks")?;
            let place = &positions[row % context * columns..];
            out.iter_mut().zip(token).zip(place).for_each(|((out, token), place)| *out = token + place);
        }
        Ok(())
    }

    fn embed_gradient(&self, tokens: &Array<u32, Host>, gradient: &Matrix<Host>, out: &mut Matrix<Host>) -> Result<()> {
        let (_, columns) = shapes::tokens_of(tokens, out, gradient)?;
        out.fill(0.0);
        for (gradient, &token) in gradient.chunks_exact(columns).zip(tokens.iter()) {
            let mut table = out.chunks_exact_mut(columns);
            let sums = table.nth(token as usize).ok_or("there is a token that the table lacks")?;
            sums.iter_mut().zip(gradient).for_each(|(sum, gradient)| *sum += gradient);
        }
        Ok(())
    }

    fn cross_entropy(
        &self,
        logits: &Matrix<Host>,
        targets: &Array<u32, Host>,
        losses_out: &mut Matrix<Host>,
        gradient_out: &mut Matrix<Host>,
    ) -> Result<()> {
        let (rows, columns) = shapes::losses(logits, targets, losses_out, gradient_out)?;
        let inputs = logits.par_chunks_exact(columns).zip(&targets[..]);
        let outputs = gradient_out.par_chunks_exact_mut(columns).zip(&mut losses_out[..]);
        outputs.zip(inputs).for_each(|((gradient, loss), (logits, &target))| {
            *loss = rows::cross_entropy(logits, target as usize, 1.0 / rows as f32, gradient);
        });
        Ok(())
    }

    fn adamw_part(
        &self,
        numbers: AdamW,
        gradient: &Matrix<Host>,
        moved: [&mut Matrix<Host>; 3],
        part: Part,
    ) -> Result<()> {
        let [value, mean, square] = moved;
        shapes::update(part, gradient, [value, mean, square])?;
        let Part { gradient: at_gradient, value: at_value, moments, count } = part;
        let (value, gradient) = (&mut value[at_value..][..count], &gradient[at_gradient..][..count]);
        let (mean, square) = (&mut mean[moments..][..count], &mut square[moments..][..count]);
        let moved = value.par_iter_mut().zip(mean).zip(square).zip(gradient);
        moved.with_min_len(NUMBERS).for_each(|(((value, mean), square), gradient)| {
            numbers.moved(*gradient, value, mean, square);
        });
        Ok(())
    }

    fn copy_part(
        &self,
        (from, at): (&Matrix<Host>, usize),
        (to, to_at): (&mut Matrix<Host>, usize),
        count: usize,
    ) -> Result<()> {
        shapes::within(from, at, count)?;
        shapes::within(to, to_at, count)?;
        to[to_at..][..count].copy_from_slice(&from[at..][..count]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(shape: [usize; 2], values: impl Fn(usize) -> f32) -> Matrix<Host> {
        let values: Vec<f32> = (0..shape[0] * shape[1]).map(values).collect();
        Matrix::from_slice(&Host::new(), shape, &values).unwrap()
    }

    /// Stale contents, as a cache provides them. They reveal an operation that does not write all of its output.
    fn stale(shape: [usize; 2]) -> Matrix<Host> {
        matrix(shape, |_| f32::NAN)
    }

    #[test]
    fn heads_are_split_and_merged() {
        let host = HostCompute::new();
        // Two sequences of three tokens, two heads of two numbers: hundreds are tokens, tens are heads.
        let merged = matrix([6, 4], |i| (100 * (i / 4) + 10 * (i % 4 / 2) + i % 2) as f32);
        let mut split = stale([12, 2]);
        host.split_heads(3, &merged, &mut split).unwrap();
        assert_eq!(split[..8], [0.0, 1.0, 100.0, 101.0, 200.0, 201.0, 10.0, 11.0]);
        assert_eq!(split[12..16], [300.0, 301.0, 400.0, 401.0]);
        let mut back = stale([6, 4]);
        host.merge_heads(3, &split, &mut back).unwrap();
        assert_eq!(back[..], merged[..]);
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        let host = HostCompute::new();
        let (a, b) = (stale([2, 3]), stale([2, 3]));
        assert!(host.matmul(Factor::AsIs(&a), Factor::AsIs(&b), 0.0, &mut stale([2, 3])).is_err());
        assert!(host.batched_matmul(3, Factor::AsIs(&a), Factor::AsIs(&b), 1.0, &mut stale([2, 3])).is_err());
        assert!(host.add_bias(&stale([1, 2]), &mut stale([2, 3])).is_err());
        assert!(host.gelu(&a, &mut stale([3, 2])).is_err());
        assert!(host.split_heads(2, &stale([3, 4]), &mut stale([6, 2])).is_err());
        assert!(host.causal_softmax(&mut stale([4, 3])).is_err());
        let tokens = Array::from_slice(&Host::new(), 2, &[0u32, 7]).unwrap();
        assert!(host.embed(&tokens, &a, &stale([1, 6]), &mut stale([3, 3])).is_err(), "three rows of two tokens");
        assert!(host.embed(&tokens, &a, &stale([1, 6]), &mut stale([2, 3])).is_err(), "there is no token 7");
    }

    #[test]
    fn random_numbers_fill_their_interval_evenly() {
        let (host, mut numbers) = (HostCompute::new(), stale([100, 100]));
        host.uniform(3, 0.5, &mut numbers).unwrap();
        assert!(numbers.iter().all(|x| (-0.5..0.5).contains(x)));
        // The kernel computes the same numbers.
        assert_eq!(numbers[..3], [-0.386_549_7, 0.200_293_48, 0.112_974_64]);
        let mean = numbers.iter().sum::<f32>() / 1e4;
        let square = numbers.iter().map(|x| x * x).sum::<f32>() / 1e4;
        assert!(mean.abs() < 0.01 && (square - 0.25 / 3.0).abs() < 0.002, "{mean}, {square}");
    }
}
