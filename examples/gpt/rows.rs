//! The host's operations on one row, or on one number: norm, softmax, GELU, AdamW.

use crate::gpt::compute::{AdamW, NORM_EPSILON};

/// √(2 / π), and the factor of the cube, in the approximation of GELU.
const ROOT: f32 = 0.797_884_6;
const CUBE: f32 = 0.044_715;

/// The mean of a row, and the factor that scales distances from the mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moments {
    mean: f32,
    scale: f32,
}

impl Moments {
    pub(crate) fn of(row: &[f32]) -> Self {
        let count = row.len() as f32;
        let mean = row.iter().sum::<f32>() / count;
        let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / count;
        Self { mean, scale: 1.0 / (variance + NORM_EPSILON).sqrt() }
    }

    pub(crate) fn normalized(self, x: f32) -> f32 {
        (x - self.mean) * self.scale
    }
}

/// Adds the gradient at `x` to `sum`, computed from that at the output of the norm.
pub(crate) fn norm_gradient(x: &[f32], gain: &[f32], gradient: &[f32], sum: &mut [f32]) {
    let (moments, count) = (Moments::of(x), x.len() as f32);
    let (mut mean, mut along) = (0.0, 0.0);
    for ((x, gain), gradient) in x.iter().zip(gain).zip(gradient) {
        mean += gain * gradient;
        along += gain * gradient * moments.normalized(*x);
    }
    (mean, along) = (mean / count, along / count);
    for (((sum, x), gain), gradient) in sum.iter_mut().zip(x).zip(gain).zip(gradient) {
        *sum += moments.scale * (gain * gradient - mean - moments.normalized(*x) * along);
    }
}

/// The softmax of the first `seen` numbers; the others become 0.
pub(crate) fn softmax(row: &mut [f32], seen: usize) {
    let (row, hidden) = row.split_at_mut(seen);
    let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for x in row.iter_mut() {
        *x = (*x - largest).exp();
        sum += *x;
    }
    row.iter_mut().for_each(|x| *x /= sum);
    hidden.fill(0.0);
}

pub(crate) fn softmax_gradient(probabilities: &[f32], gradient: &mut [f32]) {
    let mean: f32 = probabilities.iter().zip(&*gradient).map(|(p, gradient)| p * gradient).sum();
    gradient.iter_mut().zip(probabilities).for_each(|(gradient, p)| *gradient = p * (*gradient - mean));
}

/// Writes `share * (softmax(logits) - one-hot target)` and returns the cross-entropy.
pub(crate) fn cross_entropy(logits: &[f32], target: usize, share: f32, gradient: &mut [f32]) -> f32 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = logits.iter().map(|logit| (logit - largest).exp()).sum();
    let mut loss = sum.ln();
    for (column, (gradient, logit)) in gradient.iter_mut().zip(logits).enumerate() {
        let hit = column == target;
        *gradient = share * ((logit - largest).exp() / sum - f32::from(u8::from(hit)));
        if hit {
            loss -= logit - largest;
        }
    }
    loss
}

pub(crate) fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + (ROOT * (x + CUBE * x * x * x)).tanh())
}

pub(crate) fn gelu_slope(x: f32) -> f32 {
    let tanh = (ROOT * (x + CUBE * x * x * x)).tanh();
    0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * ROOT * (1.0 + 3.0 * CUBE * x * x)
}

impl AdamW {
    /// Updates one number and its two running means.
    pub(crate) fn moved(self, gradient: f32, value: &mut f32, mean: &mut f32, square: &mut f32) {
        *mean += (1.0 - self.mean_decay) * (gradient - *mean);
        *square += (1.0 - self.square_decay) * (gradient * gradient - *square);
        *value -= self.decay * *value + self.rate * *mean / (square.sqrt() + self.epsilon);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_normalized() {
        let row = [1.0, 2.0, 3.0, 6.0];
        let moments = Moments::of(&row);
        let normalized = row.map(|x| moments.normalized(x));
        let (sum, squares) = (normalized.iter().sum::<f32>(), normalized.iter().map(|x| x * x).sum::<f32>());
        assert!(sum.abs() < 1e-5 && (squares - 4.0).abs() < 1e-4, "{normalized:?}");
    }

    #[test]
    fn what_is_not_seen_has_no_part() {
        let mut row = [1000.0, 1000.0, 5000.0];
        softmax(&mut row, 2);
        assert_eq!(row, [0.5, 0.5, 0.0]);
    }

    #[test]
    fn large_logits_do_not_overflow() {
        let mut gradient = [f32::NAN; 2];
        let loss = cross_entropy(&[1000.0, 0.0], 1, 0.5, &mut gradient);
        assert_eq!((loss, gradient), (1000.0, [0.5, -0.5]));
    }

    #[test]
    fn gelu_is_zero_on_the_left_and_its_argument_on_the_right() {
        assert_eq!((gelu(-10.0), gelu(0.0), gelu(10.0)), (0.0, 0.0, 10.0));
        assert!((gelu(1.0) - 0.8412).abs() < 1e-4);
        for x in [-2.0, -0.3, 0.0, 0.9, 3.0] {
            let slope = (gelu(x + 1e-2) - gelu(x - 1e-2)) / 2e-2;
            assert!((gelu_slope(x) - slope).abs() < 1e-3, "at {x}");
        }
    }

    #[test]
    fn a_first_step_has_the_length_of_the_rate() {
        let decay = (0.9_f32, 0.99_f32);
        let rate = 0.1 * (1.0 - decay.1).sqrt() / (1.0 - decay.0);
        let adamw = AdamW { rate, decay: 0.5, mean_decay: decay.0, square_decay: decay.1, epsilon: 0.0 };
        let (mut value, mut mean, mut square) = (2.0, 0.0, 0.0);
        adamw.moved(-3.0, &mut value, &mut mean, &mut square);
        assert!((value - 1.1).abs() < 1e-5, "half of it goes, and the rate is added: {value}");
    }
}
