//! The training step against finite differences of a loss that is written out a second time, plainly and in f64.

use gpucache::prelude::*;

use crate::buffers::{Alloc, Storage};
use crate::compute::{Adam, Compute, Matrix};
use crate::data::{CLASSES, PIXELS};
use crate::host::HostCompute;
use crate::network::{HIDDEN, Network};
use crate::step::{Step, TrainingSet, forward_shapes, train_step, training_shapes};

const ROWS: usize = 7;
/// Weight and bias of each layer: inputs × outputs, then outputs.
const LAYERS: [(usize, usize); 3] = [(PIXELS, HIDDEN[0]), (HIDDEN[0], HIDDEN[1]), (HIDDEN[1], CLASSES)];
/// With it, Adam's running mean of the gradient is the gradient, and the parameters stay.
const STILL: Adam = Adam { rate: 0.0, mean_decay: 0.0, square_decay: 0.0, epsilon: 1.0 };

fn random_matrix(random: &mut fastrand::Rng, shape: [usize; 2]) -> Matrix<Host> {
    let values: Vec<f32> = (0..shape[0] * shape[1]).map(|_| random.f32()).collect();
    Matrix::from_slice(&Host::new(), shape, &values).unwrap()
}

fn training_set(random: &mut fastrand::Rng) -> TrainingSet<Host> {
    let device = Host::new();
    let order: Vec<u32> = (0..ROWS as u32).collect();
    let target = |i: usize| f32::from(i % CLASSES == i / CLASSES % 3);
    let targets: Vec<f32> = (0..ROWS * CLASSES).map(target).collect();
    TrainingSet {
        images: random_matrix(random, [ROWS, PIXELS]),
        targets: Matrix::from_slice(&device, [ROWS, CLASSES], &targets).unwrap(),
        order: Array::from_slice(&device, ROWS, &order).unwrap(),
        losses: Matrix::zeros(&device, [1, ROWS]).unwrap(),
    }
}

/// The mean cross-entropy of the network with these parameters.
fn plain_loss(parameters: &[Vec<f64>], set: &TrainingSet<Host>) -> f64 {
    let losses = set.images.chunks_exact(PIXELS).zip(set.targets.chunks_exact(CLASSES)).map(|(image, target)| {
        let mut x: Vec<f64> = image.iter().map(|&pixel| pixel.into()).collect();
        for (layer, (inputs, outputs)) in LAYERS.into_iter().enumerate() {
            let (weight, bias) = (&parameters[2 * layer], &parameters[2 * layer + 1]);
            let linear =
                (0..outputs).map(|j| bias[j] + (0..inputs).map(|i| x[i] * weight[i * outputs + j]).sum::<f64>());
            x = linear.map(|y| if layer < 2 { y.max(0.0) } else { y }).collect();
        }
        let sum: f64 = x.iter().map(|logit| logit.exp()).sum();
        target.iter().zip(&x).map(|(&target, logit)| f64::from(target) * (sum.ln() - logit)).sum::<f64>()
    });
    losses.sum::<f64>() / ROWS as f64
}

fn step_with(alloc: Alloc, network: &mut Network<Host>, set: &mut TrainingSet<Host>, adam: Adam) {
    let compute = HostCompute::new();
    let mut storage = Storage::new(alloc, compute.device(), &training_shapes(ROWS)).unwrap();
    let step = Step { compute: &compute, buffers: storage.buffers() };
    train_step(step, network, set, 0..ROWS, adam).unwrap();
}

#[test]
fn the_step_computes_the_gradient_of_its_loss() {
    let mut random = fastrand::Rng::with_seed(3);
    let mut set = training_set(&mut random);
    let mut network = Network::new(&Host::new(), &mut random).unwrap();
    step_with(Alloc::Scoped, &mut network, &mut set, STILL);

    let mut parameters: Vec<Vec<f64>> =
        network.parameters().iter().map(|p| p.value.iter().map(|&x| x.into()).collect()).collect();
    let loss = set.losses.iter().sum::<f32>() / ROWS as f32;
    assert!((f64::from(loss) - plain_loss(&parameters, &set)).abs() < 1e-5);

    for (which, parameter) in network.parameters().into_iter().enumerate() {
        for _ in 0..12 {
            let i = random.usize(..parameter.value.len());
            let (value, reach) = (parameters[which][i], 1e-6);
            let mut loss_at = |x| {
                parameters[which][i] = x;
                plain_loss(&parameters, &set)
            };
            let difference = (loss_at(value + reach) - loss_at(value - reach)) / (2.0 * reach);
            loss_at(value);
            let gradient = f64::from(parameter.mean[i]);
            assert!((gradient - difference).abs() < 1e-5 + 1e-4 * difference.abs(), "{gradient} for {difference}");
        }
    }
}

#[test]
fn the_three_ways_to_allocate_train_alike() {
    let adam = Adam { rate: 1e-2, mean_decay: 0.9, square_decay: 0.9, epsilon: 1e-8 };
    let trained = [Alloc::Scoped, Alloc::Plain, Alloc::Hand].map(|alloc| {
        let mut random = fastrand::Rng::with_seed(5);
        let mut set = training_set(&mut random);
        let mut network = Network::new(&Host::new(), &mut random).unwrap();
        (0..5).for_each(|_| step_with(alloc, &mut network, &mut set, adam));
        (network.parameters().map(|parameter| parameter.value.to_vec().unwrap()), set.losses.to_vec().unwrap())
    });
    assert_eq!(trained[0], trained[1]);
    assert_eq!(trained[0], trained[2]);
}

#[test]
fn a_hand_made_list_that_does_not_fit_is_an_error() {
    let compute = HostCompute::new();
    let mut random = fastrand::Rng::with_seed(5);
    let mut set = training_set(&mut random);
    let mut network = Network::new(&Host::new(), &mut random).unwrap();
    let mut storage = Storage::new(Alloc::Hand, compute.device(), &forward_shapes(ROWS)).unwrap();
    let step = Step { compute: &compute, buffers: storage.buffers() };
    assert!(train_step(step, &mut network, &mut set, 0..ROWS, STILL).is_err());
}
