//! Compares the training step with finite differences of a second, plain implementation of the loss in f64. Also compares the ways to
//! allocate arrays, and the machines, with each other.

use gpucache::prelude::*;

use crate::buffers::{Alloc, Storage};
use crate::compute::{Adam, Compute, Matrix};
use crate::data::{CLASSES, PIXELS};
use crate::host::HostCompute;
use crate::memory_check::turn;
use crate::network::{HIDDEN, Network};
use crate::step::{Step, TrainingSet, forward_shapes, train_step, training_shapes};

const ROWS: usize = 7;
/// Weight and bias of each layer: inputs × outputs, then outputs.
const LAYERS: [(usize, usize); 3] = [(PIXELS, HIDDEN[0]), (HIDDEN[0], HIDDEN[1]), (HIDDEN[1], CLASSES)];
/// With these numbers, Adam's running mean of the gradient is the gradient, and the parameters do not change.
const STILL: Adam = Adam { rate: 0.0, mean_decay: 0.0, square_decay: 0.0, epsilon: 1.0 };
/// These numbers move the parameters in proportion to the gradient, by many times the error of the arithmetic.
const LIVELY: Adam = Adam { rate: 1.0, mean_decay: 0.5, square_decay: 0.5, epsilon: 1.0 };

pub(crate) fn training_set<D: Device>(device: &D, rows: usize, random: &mut fastrand::Rng) -> TrainingSet<D> {
    let order: Vec<u32> = (0..rows as u32).collect();
    let images: Vec<f32> = (0..rows * PIXELS).map(|_| random.f32()).collect();
    let target = |i: usize| f32::from(i % CLASSES == i / CLASSES % 3);
    let targets: Vec<f32> = (0..rows * CLASSES).map(target).collect();
    TrainingSet {
        images: Matrix::from_slice(device, [rows, PIXELS], &images).unwrap(),
        targets: Matrix::from_slice(device, [rows, CLASSES], &targets).unwrap(),
        order: Array::from_slice(device, rows, &order).unwrap(),
        losses: Matrix::zeros(device, [1, rows]).unwrap(),
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

/// Trains a new network, the same on every machine, for some steps. Returns the parameters and the last losses.
fn trained<C: Compute>(compute: &C, way: Way, rows: usize, steps: usize, adam: Adam) -> Trained<C::Device> {
    let Way { alloc, functional } = way;
    let mut random = fastrand::Rng::with_seed(3);
    let mut set = training_set(compute.device(), rows, &mut random);
    let mut network = Network::new(compute.device(), &mut random).unwrap();
    let mut storage = Storage::new(alloc, compute.device(), &training_shapes(rows, functional)).unwrap();
    for _ in 0..steps {
        let step = Step { compute, buffers: storage.buffers(), functional, numbers: None };
        train_step(step, &mut network, &mut set, 0..rows, adam).unwrap();
    }
    Trained { network, set }
}

/// How arrays are allocated, and whether each step allocates new parameters.
#[derive(Clone, Copy, Debug)]
struct Way {
    alloc: Alloc,
    functional: bool,
}

impl Way {
    /// The first one.
    const PLAIN: Way = Way { alloc: Alloc::Plain, functional: false };

    fn all() -> impl Iterator<Item = Way> {
        let allocs = [Alloc::Scoped, Alloc::Plain, Alloc::Hand].into_iter();
        allocs.flat_map(|alloc| [false, true].map(|functional| Way { alloc, functional }))
    }
}

struct Trained<D: Device> {
    network: Network<D>,
    set: TrainingSet<D>,
}

impl<D: Device> Trained<D> {
    /// Losses, then the parameters.
    fn numbers(&self) -> Vec<f32> {
        let parameters = self.network.parameters().map(|parameter| &parameter.value);
        [&self.set.losses].into_iter().chain(parameters).flat_map(|array| array.to_vec().unwrap()).collect()
    }
}

#[test]
fn the_step_computes_the_gradient_of_its_loss() {
    let _turn = turn();
    let Trained { network, set } = trained(&HostCompute::new(), Way::PLAIN, ROWS, 1, STILL);
    let mut random = fastrand::Rng::with_seed(4);
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
fn all_ways_train_alike() {
    let _turn = turn();
    // Enough steps to learn a plan, and some that follow it.
    let train = |way| trained(&HostCompute::new(), way, ROWS, 12, LIVELY).numbers();
    let plain = train(Way::PLAIN);
    assert!(plain.iter().all(|number| number.is_finite()));
    for way in Way::all() {
        assert!(train(way) == plain, "{way:?}: other numbers");
    }
}

#[test]
fn a_hand_made_list_that_does_not_fit_is_an_error() {
    let _turn = turn();
    let compute = HostCompute::new();
    let Trained { mut network, mut set } = trained(&compute, Way::PLAIN, ROWS, 0, STILL);
    let mut storage = Storage::new(Alloc::Hand, compute.device(), &forward_shapes(ROWS)).unwrap();
    let step = Step { compute: &compute, buffers: storage.buffers(), functional: false, numbers: None };
    assert!(train_step(step, &mut network, &mut set, 0..ROWS, STILL).is_err());
}

/// Enough rows for several blocks of every kernel. It is no multiple of their size.
#[cfg(feature = "cuda")]
#[test]
#[ignore = "needs a GPU with cuBLAS and NVRTC"]
fn the_gpu_trains_as_the_host_does() {
    let _turn = turn();
    let gpu = crate::cuda::CudaCompute::new(0, false).unwrap();
    let expected = trained(&HostCompute::new(), Way::PLAIN, 300, 3, LIVELY).numbers();
    let plain = trained(&gpu, Way::PLAIN, 300, 3, LIVELY).numbers();
    for way in Way::all() {
        let found = trained(&gpu, way, 300, 3, LIVELY).numbers();
        assert!(found == plain, "{way:?}: other numbers");
        assert_eq!(found.len(), expected.len());
        let apart = found.iter().zip(&expected).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
        assert!(apart < 1e-3, "{way:?}: a number is {apart} from the host's");
    }
}
