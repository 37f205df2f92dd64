//! A second, plain implementation of the network's loss in f64, for the gradient check.

use crate::gpt::sizes::Sizes;

/// Rows of equal length.
type Table = Vec<Vec<f64>>;

/// Iterates over the parameters in the order of `Model::parameters`.
struct Parameters<'a> {
    left: std::slice::Iter<'a, Vec<f64>>,
}

impl Parameters<'_> {
    fn next(&mut self) -> &[f64] {
        self.left.next().unwrap()
    }

    fn linear(&mut self, x: &Table) -> Table {
        let product = times(x, self.next());
        let bias = self.next();
        product.iter().map(|row| row.iter().zip(bias).map(|(x, bias)| x + bias).collect()).collect()
    }

    fn norm(&mut self, x: &Table) -> Table {
        let (gain, bias) = (self.next().to_vec(), self.next());
        let norm = |row: &Vec<f64>| {
            let mean = row.iter().sum::<f64>() / row.len() as f64;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / row.len() as f64;
            let scaled = row.iter().map(|x| (x - mean) / (variance + 1e-5).sqrt());
            scaled.zip(&gain).zip(bias).map(|((x, gain), bias)| x * gain + bias).collect()
        };
        x.iter().map(norm).collect()
    }

    /// Attention of one sequence.
    fn attention(&mut self, x: &Table, heads: usize) -> Table {
        let (query, key, value) = (self.linear(x), self.linear(x), self.linear(x));
        let width = x[0].len() / heads;
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut seen = vec![vec![0.0; x[0].len()]; x.len()];
        for head in 0..heads {
            let part = head * width..(head + 1) * width;
            for i in 0..x.len() {
                let score = |j: usize| dot(&query[i][part.clone()], &key[j][part.clone()]) / (width as f64).sqrt();
                let weights: Vec<f64> = (0..=i).map(|j| score(j).exp()).collect();
                let sum: f64 = weights.iter().sum();
                for column in part.clone() {
                    seen[i][column] = weights.iter().zip(&value).map(|(weight, row)| weight / sum * row[column]).sum();
                }
            }
        }
        self.linear(&seen)
    }

    fn mlp(&mut self, x: &Table) -> Table {
        let gelu = |x: f64| 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh());
        let hidden = self.linear(x).iter().map(|row| row.iter().map(|&x| gelu(x)).collect()).collect();
        self.linear(&hidden)
    }
}

/// The product with a table that is stored row by row.
fn times(x: &Table, weight: &[f64]) -> Table {
    let columns = weight.len() / x[0].len();
    let number = |row: &[f64], column: usize| row.iter().zip(weight.chunks(columns)).map(|(x, w)| x * w[column]).sum();
    x.iter().map(|row| (0..columns).map(|column| number(row, column)).collect()).collect()
}

fn plus(x: &Table, y: &Table) -> Table {
    x.iter().zip(y).map(|(x, y)| x.iter().zip(y).map(|(x, y)| x + y).collect()).collect()
}

/// The mean cross-entropy over the targets.
pub(crate) fn loss(parameters: &[Vec<f64>], sizes: &Sizes, inputs: &[u32], targets: &[u32]) -> f64 {
    let mut sum = 0.0;
    for (inputs, targets) in inputs.chunks(sizes.context).zip(targets.chunks(sizes.context)) {
        let mut parameters = Parameters { left: parameters.iter() };
        let (tokens, places) = (parameters.next().to_vec(), parameters.next());
        let row = |i: usize, column: usize| {
            tokens[inputs[i] as usize * sizes.width + column] + places[i * sizes.width + column]
        };
        let mut x: Table = (0..inputs.len()).map(|i| (0..sizes.width).map(|column| row(i, column)).collect()).collect();
        for _ in 0..sizes.layers {
            let normalized = parameters.norm(&x);
            x = plus(&x, &parameters.attention(&normalized, sizes.heads));
            let normalized = parameters.norm(&x);
            x = plus(&x, &parameters.mlp(&normalized));
        }
        let normalized = parameters.norm(&x);
        for (logits, &target) in times(&normalized, parameters.next()).iter().zip(targets) {
            sum += logits.iter().map(|logit| logit.exp()).sum::<f64>().ln() - logits[target as usize];
        }
    }
    sum / targets.len() as f64
}
