//! The arithmetic on plain host memory.
//!
//! One thread does it all: the matrices of this network are so small that sharing a product between threads made the step
//! slower.

use gpucache::launch::Arguments;
use gpucache::{Element, prelude::*};

use crate::common::Result;
use crate::compute::{Adam, Compute, Factor, Matrix, Number, Parameter};
use crate::shapes;

/// The processor and its memory.
#[derive(Debug)]
pub(crate) struct HostCompute {
    device: Host,
    /// Whether each operation is done when its call returns, on any stream.
    waits: bool,
}

impl HostCompute {
    /// On the default stream, which does each operation at once.
    pub(crate) fn new() -> Self {
        Self::on(Host::new())
    }

    /// On a stream. Work of `Host::new_stream` can be captured.
    pub(crate) fn on(device: Host) -> Self {
        Self { device, waits: false }
    }

    /// The same, but each operation is done at once: no memory is still in use when it is dropped.
    #[cfg(test)]
    pub(crate) fn at_once_on(device: Host) -> Self {
        Self { device, waits: true }
    }

    /// Queues work that a graph can repeat.
    fn launch<A: Arguments>(
        &self,
        arguments: A,
        kernel: impl for<'a> Fn(A::Slices<'a>) + Send + Sync + 'static,
    ) -> Result<()> {
        self.device.launch_kernel(arguments, kernel)?;
        if self.waits {
            self.device.synchronize()?;
        }
        Ok(())
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

    fn matmul(&self, a: Factor<'_, Host>, b: Factor<'_, Host>, out: &mut Matrix<Host>) -> Result<()> {
        let (_, n, k) = shapes::product(&a, &b, out)?;
        let (a_strides, b_strides) = (strides(&a)?, strides(&b)?);
        self.launch((a.array(), b.array(), out), move |(a, b, out)| {
            for (i, out) in out.chunks_exact_mut(n).enumerate() {
                out.fill(0.0);
                for l in 0..k {
                    let scale = a[i * a_strides.row + l * a_strides.column];
                    add_scaled(scale, &b[l * b_strides.row..], b_strides.column, out);
                }
            }
        })
    }

    fn gather(
        &self,
        table: &Matrix<Host>,
        order: &Array<u32, Host>,
        start: Number<'_, u32, Host>,
        out: &mut Matrix<Host>,
    ) -> Result<()> {
        let (_, columns) = shapes::gather(table, order, start.value, out)?;
        let (at, start) = (start.argument(), start.value);
        self.launch((table, order, at, out), move |(table, order, at, out)| {
            let start = number(&at, start) as usize;
            for (i, out) in out.chunks_exact_mut(columns).enumerate() {
                let row = order.get(start + i).and_then(|&row| table.chunks_exact(columns).nth(row as usize));
                match row {
                    Some(row) => out.copy_from_slice(row),
                    None => out.fill(0.0),
                }
            }
        })
    }

    fn add_bias(&self, bias: &Matrix<Host>, x: &mut Matrix<Host>) -> Result<()> {
        let (_, columns) = shapes::columns(x, bias)?;
        self.launch((bias, x), move |(bias, x)| {
            for row in x.chunks_exact_mut(columns) {
                row.iter_mut().zip(bias).for_each(|(x, bias)| *x += bias);
            }
        })
    }

    fn relu(&self, x: &Matrix<Host>, out: &mut Matrix<Host>) -> Result<()> {
        shapes::same(x, out)?;
        self.launch((x, out), |(x, out)| {
            out.iter_mut().zip(x).for_each(|(out, x)| *out = x.max(0.0));
        })
    }

    fn relu_gradient(&self, output: &Matrix<Host>, gradient: &Matrix<Host>, out: &mut Matrix<Host>) -> Result<()> {
        shapes::same(output, gradient)?;
        shapes::same(output, out)?;
        self.launch((output, gradient, out), |(output, gradient, out)| {
            for ((out, y), gradient) in out.iter_mut().zip(output).zip(gradient) {
                *out = if *y > 0.0 { *gradient } else { 0.0 };
            }
        })
    }

    fn softmax_cross_entropy(
        &self,
        logits: &Matrix<Host>,
        targets: &Matrix<Host>,
        start: Number<'_, u32, Host>,
        losses: &mut Matrix<Host>,
        gradient: &mut Matrix<Host>,
    ) -> Result<()> {
        let (rows, columns) = shapes::losses(logits, targets, start.value, losses, gradient)?;
        let (at, start) = (start.argument(), start.value);
        let arguments = (logits, targets, at, losses, gradient);
        self.launch(arguments, move |(logits, targets, at, losses, gradient)| {
            let inputs = logits.chunks_exact(columns).zip(targets.chunks_exact(columns));
            let places = losses.iter_mut().skip(number(&at, start) as usize);
            for ((logits, targets), (gradient, loss)) in inputs.zip(gradient.chunks_exact_mut(columns).zip(places)) {
                *loss = softmax_row(logits, targets, 1.0 / rows as f32, gradient);
            }
        })
    }

    fn sum_rows(&self, x: &Matrix<Host>, out: &mut Matrix<Host>) -> Result<()> {
        let (_, columns) = shapes::columns(x, out)?;
        self.launch((x, out), move |(x, out)| {
            out.fill(0.0);
            for row in x.chunks_exact(columns) {
                out.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
            }
        })
    }

    fn adam(
        &self,
        adam: Adam,
        rate: Number<'_, f32, Host>,
        gradient: &Matrix<Host>,
        parameter: &mut Parameter<Host>,
    ) -> Result<()> {
        shapes::parameter(gradient, parameter)?;
        let (at, rate) = (rate.argument(), rate.value);
        let Parameter { value, mean, square } = parameter;
        let arguments = (at, gradient, value, mean, square);
        self.launch(arguments, move |(at, gradient, value, mean, square)| {
            let adam = Adam { rate: number(&at, rate), ..adam };
            let moments = mean.iter_mut().zip(square);
            for ((value, gradient), (mean, square)) in value.iter_mut().zip(gradient).zip(moments) {
                *mean = adam.moved_mean(*mean, *gradient);
                *square = adam.moved_square(*square, *gradient);
                *value = adam.moved_value(*value, *mean, *square);
            }
        })
    }

    /// One array after the other: the compiler uses vectors only where it can tell few arrays apart.
    fn moved_by_adam(
        &self,
        adam: Adam,
        rate: Number<'_, f32, Host>,
        gradient: &Matrix<Host>,
        old: &Parameter<Host>,
        new: [&mut Matrix<Host>; 3],
    ) -> Result<()> {
        shapes::parameter(gradient, old)?;
        let [value, mean, square] = new;
        for new in [&*value, &*mean, &*square] {
            shapes::same(gradient, new)?;
        }
        let (at, rate) = (rate.argument(), rate.value);
        let arguments = ((at, gradient), (&old.value, &old.mean, &old.square), (value, mean, square));
        self.launch(arguments, move |((at, gradient), old, new)| {
            let adam = Adam { rate: number(&at, rate), ..adam };
            let ((old_value, old_mean, old_square), (value, mean, square)) = (old, new);
            for ((new, old), gradient) in mean.iter_mut().zip(old_mean).zip(gradient) {
                *new = adam.moved_mean(*old, *gradient);
            }
            for ((new, old), gradient) in square.iter_mut().zip(old_square).zip(gradient) {
                *new = adam.moved_square(*old, *gradient);
            }
            for (((new, old), mean), square) in value.iter_mut().zip(old_value).zip(mean).zip(square) {
                *new = adam.moved_value(*old, *mean, *square);
            }
        })
    }
}

impl<'a, T: Element> Number<'a, T, Host> {
    /// The array with the number, if it is on the device: an argument of a kernel.
    fn argument(self) -> Vec<&'a Array<T, Host>> {
        self.at.into_iter().collect()
    }
}

/// The number on the device, if a kernel got it, otherwise the host's.
fn number<T: Copy>(at: &[&[T]], value: T) -> T {
    at.iter().flat_map(|at| at.first()).next().copied().unwrap_or(value)
}

/// The step of one number.
impl Adam {
    fn moved_mean(self, mean: f32, gradient: f32) -> f32 {
        mean + (1.0 - self.mean_decay) * (gradient - mean)
    }

    fn moved_square(self, square: f32, gradient: f32) -> f32 {
        square + (1.0 - self.square_decay) * (gradient * gradient - square)
    }

    /// From the means after the step.
    fn moved_value(self, value: f32, mean: f32, square: f32) -> f32 {
        value - self.rate * mean / (square.sqrt() + self.epsilon)
    }
}

/// Distance in memory from one column, and one row, to the next.
struct Strides {
    column: usize,
    row: usize,
}

/// Adds `scale` times the elements of `row` that stand `stride` apart.
fn add_scaled(scale: f32, row: &[f32], stride: usize, sums: &mut [f32]) {
    if stride == 1 {
        // By itself, as the compiler uses vectors only where it knows the stride.
        sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += scale * x);
    } else {
        sums.iter_mut().zip(row.iter().step_by(stride)).for_each(|(sum, x)| *sum += scale * x);
    }
}

fn strides(factor: &Factor<'_, Host>) -> Result<Strides> {
    let (_, columns) = shapes::dims(factor.array())?;
    Ok(match factor {
        Factor::AsIs(_) => Strides { column: 1, row: columns },
        Factor::Transposed(_) => Strides { column: columns, row: 1 },
    })
}

/// Writes `scale * (softmax(logits) - targets)` and returns the cross-entropy.
fn softmax_row(logits: &[f32], targets: &[f32], scale: f32, gradient: &mut [f32]) -> f32 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = logits.iter().map(|logit| (logit - largest).exp()).sum();
    let mut loss = 0.0;
    for ((gradient, logit), target) in gradient.iter_mut().zip(logits).zip(targets) {
        let shifted = logit - largest;
        *gradient = scale * (shifted.exp() / sum - target);
        loss -= target * (shifted - sum.ln());
    }
    loss
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_check::turn;

    fn matrix(shape: [usize; 2], values: impl Fn(usize) -> f32) -> Matrix<Host> {
        let values: Vec<f32> = (0..shape[0] * shape[1]).map(values).collect();
        Matrix::from_slice(&Host::new(), shape, &values).unwrap()
    }

    /// Stale contents, as a cache hands them out: an operation that fails to write them is seen.
    fn stale(shape: [usize; 2]) -> Matrix<Host> {
        matrix(shape, |_| f32::NAN)
    }

    fn known<T: Element>(value: T) -> Number<'static, T, Host> {
        Number { value, at: None }
    }

    fn wave(i: usize) -> f32 {
        (i as f32 * 0.7).sin()
    }

    #[test]
    fn products_agree_with_the_plain_loop() {
        let _turn = turn();
        let host = HostCompute::new();
        for (m, n, k) in [(1, 1, 1), (3, 5, 4), (30, 10, 128), (128, 256, 64)] {
            let (a, b) = (matrix([m, k], wave), matrix([k, n], |i| wave(3 * i + 1)));
            let turned_a = matrix([k, m], |i| a[(i % m) * k + i / m]);
            let turned_b = matrix([n, k], |i| b[(i % k) * n + i / k]);
            let expected: Vec<f32> =
                (0..m * n).map(|i| (0..k).map(|l| a[i / n * k + l] * b[l * n + i % n]).sum()).collect();
            let factors = [
                (Factor::AsIs(&a), Factor::AsIs(&b)),
                (Factor::Transposed(&turned_a), Factor::AsIs(&b)),
                (Factor::AsIs(&a), Factor::Transposed(&turned_b)),
                (Factor::Transposed(&turned_a), Factor::Transposed(&turned_b)),
            ];
            for (left, right) in factors {
                let mut out = stale([m, n]);
                host.matmul(left, right, &mut out).unwrap();
                assert!(out.iter().zip(&expected).all(|(x, y)| (x - y).abs() < 1e-4), "{m}x{n}x{k}");
            }
        }
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        let _turn = turn();
        let host = HostCompute::new();
        let (a, b) = (stale([2, 3]), stale([2, 3]));
        assert!(host.matmul(Factor::AsIs(&a), Factor::AsIs(&b), &mut stale([2, 3])).is_err());
        assert!(host.add_bias(&stale([1, 2]), &mut stale([2, 3])).is_err());
        assert!(host.relu(&a, &mut stale([3, 2])).is_err());
        let order = Array::from_slice(&Host::new(), 2, &[0u32, 7]).unwrap();
        assert!(host.gather(&a, &order, known(1), &mut stale([2, 3])).is_err(), "the order is too short");
    }

    #[test]
    fn rows_are_gathered_biased_and_summed() {
        let _turn = turn();
        let host = HostCompute::new();
        let order = Array::from_slice(&Host::new(), 4, &[3u32, 0, 2, 1]).unwrap();
        let mut rows = stale([2, 2]);
        let table = matrix([4, 2], |i| i as f32);
        host.gather(&table, &order, known(1), &mut rows).unwrap();
        assert_eq!(rows[..], [0.0, 1.0, 4.0, 5.0]);
        for (start, expected) in [(2, [4.0, 5.0, 2.0, 3.0]), (3, [2.0, 3.0, 0.0, 0.0])] {
            let at = Array::full(&Host::new(), 1, start).unwrap();
            let mut rows = stale([2, 2]);
            host.gather(&table, &order, Number { value: 0, at: Some(&at) }, &mut rows).unwrap();
            assert_eq!(rows[..], expected, "from the place on the device");
        }
        host.add_bias(&matrix([1, 2], |i| 10.0 * i as f32), &mut rows).unwrap();
        assert_eq!(rows[..], [0.0, 11.0, 4.0, 15.0]);
        let mut sums = stale([1, 2]);
        host.sum_rows(&rows, &mut sums).unwrap();
        assert_eq!(sums[..], [4.0, 26.0]);
    }

    #[test]
    fn relu_and_its_gradient() {
        let _turn = turn();
        let host = HostCompute::new();
        let (mut y, mut gradient) = (stale([1, 3]), stale([1, 3]));
        host.relu(&matrix([1, 3], |i| i as f32 - 1.0), &mut y).unwrap();
        assert_eq!(y[..], [0.0, 0.0, 1.0]);
        host.relu_gradient(&y, &matrix([1, 3], |_| 5.0), &mut gradient).unwrap();
        assert_eq!(gradient[..], [0.0, 0.0, 5.0]);
    }

    #[test]
    fn large_logits_do_not_overflow() {
        let _turn = turn();
        let mut gradient = [f32::NAN; 2];
        let loss = softmax_row(&[1000.0, 0.0], &[0.0, 1.0], 0.5, &mut gradient);
        assert_eq!((loss, gradient), (1000.0, [0.5, -0.5]));
    }

    #[test]
    fn adam_moves_each_parameter_by_the_rate_at_first() {
        let _turn = turn();
        let device = Host::new();
        let zeros = || Matrix::zeros(&device, [1, 2]).unwrap();
        let mut parameter = Parameter { value: zeros(), mean: zeros(), square: zeros() };
        let decay = (0.9_f32, 0.99_f32);
        let rate = 0.1 * (1.0 - decay.1).sqrt() / (1.0 - decay.0);
        let adam = Adam { rate, mean_decay: decay.0, square_decay: decay.1, epsilon: 0.0 };
        let gradient = matrix([1, 2], |i| [3.0, -0.01][i]);
        HostCompute::new().adam(adam, known(rate), &gradient, &mut parameter).unwrap();
        assert!((parameter.value[0] + 0.1).abs() < 1e-5 && (parameter.value[1] - 0.1).abs() < 1e-5);
    }
}
