//! Checks the backward pass against finite differences of the loss in `plain.rs`, and machines against each other.

use gpucache::prelude::*;

use crate::gpt::compute::{AdamW, Compute, Matrix};
use crate::gpt::host::HostCompute;
use crate::gpt::model::{Model, Tokens};
use crate::gpt::parameter::Init;
use crate::gpt::sizes::Sizes;
use crate::gpt::step::{Learn, Step};
use crate::gpt::store::{Placement, Store};
use crate::plain;

/// With these numbers the running mean of the gradient equals the gradient, and parameters do not change.
const STILL: AdamW = AdamW { rate: 0.0, decay: 0.0, mean_decay: 0.0, square_decay: 0.0, epsilon: 1.0 };
/// These numbers move parameters by much more than rounding errors, and smoothly in the gradient.
const LIVELY: AdamW = AdamW { rate: 0.5, decay: 0.01, mean_decay: 0.5, square_decay: 0.5, epsilon: 1.0 };
const SMALL: Sizes = Sizes { layers: 2, width: 12, heads: 3, context: 5, batch: 2, vocabulary: 7 };

struct Trained<D: Device> {
    model: Model<D>,
    inputs: Vec<u32>,
    targets: Vec<u32>,
    /// The losses of the last step.
    losses: Vec<f32>,
}

/// A fresh network, the same on every machine, after some steps on the same tokens.
fn trained<C: Compute>(compute: &C, sizes: &Sizes, steps: &[AdamW]) -> Trained<C::Device> {
    let (device, mut random) = (compute.device(), fastrand::Rng::with_seed(5));
    let store = Store::new(device, Placement::Device);
    let mut model = Model::new(&mut Init::new(compute, &store, 7), sizes).unwrap();
    let mut tokens = || (0..sizes.rows()).map(|_| random.u32(..sizes.vocabulary as u32)).collect::<Vec<_>>();
    let (inputs, targets) = (tokens(), tokens());
    let on_device = |tokens: &[u32]| Tokens::from_slice(device, tokens.len(), tokens).unwrap();
    let (inputs_there, targets_there) = (on_device(&inputs), on_device(&targets));
    let mut losses = Matrix::zeros(device, [1, sizes.rows()]).unwrap();
    for &adamw in steps {
        let step =
            Step { compute, store: &store, context: sizes.context, heads: sizes.heads, learn: Learn::AtOnce(adamw) };
        let saved = model.forward(&step, &inputs_there).unwrap();
        model.learn(&step, saved, (&inputs_there, &targets_there), &mut losses).unwrap();
    }
    Trained { model, inputs, targets, losses: losses.to_vec().unwrap() }
}

impl<D: Device> Trained<D> {
    fn values(&self) -> Vec<Vec<f32>> {
        self.model.parameters().iter().map(|parameter| parameter.value.read().unwrap().to_vec().unwrap()).collect()
    }
}

#[test]
fn the_backward_pass_is_the_gradient_of_the_loss() {
    // After some steps not all gains are 1, and not all biases are 0.
    let trained = trained(&HostCompute::new(), &SMALL, &[LIVELY, LIVELY, LIVELY, STILL]);
    let mut values: Vec<Vec<f64>> =
        trained.values().iter().map(|values| values.iter().map(|&x| x.into()).collect()).collect();
    let loss_of = |values: &[Vec<f64>]| plain::loss(values, &SMALL, &trained.inputs, &trained.targets);
    let loss = trained.losses.iter().sum::<f32>() / trained.losses.len() as f32;
    assert!((f64::from(loss) - loss_of(&values)).abs() < 1e-5);

    let mut random = fastrand::Rng::with_seed(4);
    for (which, parameter) in trained.model.parameters().into_iter().enumerate() {
        let gradient = parameter.moments.as_ref().unwrap().mean.read().unwrap().to_vec().unwrap();
        for _ in 0..6 {
            let i = random.usize(..gradient.len());
            let (value, reach) = (values[which][i], 1e-5);
            let mut loss_at = |x| {
                values[which][i] = x;
                loss_of(&values)
            };
            let difference = (loss_at(value + reach) - loss_at(value - reach)) / (2.0 * reach);
            loss_at(value);
            let gradient = f64::from(gradient[i]);
            let apart = (gradient - difference).abs();
            assert!(apart < 1e-6 + 1e-3 * difference.abs(), "parameter {which}: {gradient} for {difference}");
        }
    }
}

#[test]
fn as_many_numbers_are_trained_as_the_sizes_say() {
    let found: usize = trained(&HostCompute::new(), &SMALL, &[]).values().iter().map(Vec::len).sum();
    assert_eq!(found, SMALL.parameters());
}

/// Tests rows that are longer than a block of threads, and not a multiple of it.
#[cfg(feature = "cuda")]
#[test]
#[ignore = "needs a GPU with cuBLAS and NVRTC"]
fn the_gpu_trains_as_the_host_does() {
    let sizes = Sizes { layers: 2, width: 300, heads: 3, context: 270, batch: 2, vocabulary: 63 };
    let gpu = crate::gpt::cuda::CudaCompute::new(0).unwrap();
    let expected = trained(&HostCompute::new(), &sizes, &[LIVELY; 3]);
    let (found, again) = (trained(&gpu, &sizes, &[LIVELY; 3]), trained(&gpu, &sizes, &[LIVELY; 3]));
    assert!(found.values() == again.values() && found.losses == again.losses, "other bits the second time");
    let apart = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
    assert!(apart(&found.losses, &expected.losses) < 1e-3);
    for (which, (found, expected)) in found.values().iter().zip(&expected.values()).enumerate() {
        assert_eq!(found.len(), expected.len());
        assert!(apart(found, expected) < 1e-3, "parameter {which} is {} from the host's", apart(found, expected));
    }
}
