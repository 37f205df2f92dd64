//! The loop around the step: epochs, the evaluations between them, and the counters.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::IsTerminal as _;
use std::ops::Range;
use std::time::{Duration, Instant};

use gpucache::graph::GraphStats;
use gpucache::prelude::*;
use gpucache::stats::ScopeStats;

use crate::Options;
use crate::buffers::Storage;
use crate::captured::Captured;
use crate::common::Result;
use crate::compute::{Adam, Compute, Matrix};
use crate::data::{CLASSES, Digits, PIXELS, Samples};
use crate::network::Network;
use crate::step::{Step, TrainingSet, evaluate, forward_shapes, train_step, training_shapes};

const SEED: u64 = 1797;
const BATCH: usize = 64;
/// Learning rate at the start. It falls to zero along a cosine.
const RATE: f32 = 1e-2;
const MEAN_DECAY: f32 = 0.9;
const SQUARE_DECAY: f32 = 0.999;

struct Training<'c, C: Compute> {
    compute: &'c C,
    random: fastrand::Rng,
    network: Network<C::Device>,
    set: TrainingSet<C::Device>,
    /// Number of images without their shifted copies.
    samples: usize,
    full_batch: Storage<C::Device>,
    last_batch: Storage<C::Device>,
    steps: i32,
    planned_steps: i32,
    functional: bool,
    captured: Option<Captured<C::Device>>,
    bits: DefaultHasher,
}

struct Evaluation<'c, C: Compute> {
    compute: &'c C,
    images: Matrix<C::Device>,
    labels: Vec<usize>,
    storage: Storage<C::Device>,
}

/// Steps, time and allocations of some epochs, without the evaluations.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) steps: u64,
    pub(crate) time: Duration,
    /// Steps per second of the fastest epoch, which other programs of the machine disturbed least.
    pub(crate) best_speed: f64,
    /// How often the steps took memory from the device.
    pub(crate) takes: u64,
}

/// The result of a training.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The share of test images that are classified correctly after the last epoch.
    pub(crate) accuracy: f64,
    /// Mean loss over the last epoch.
    pub(crate) loss: f32,
    pub(crate) first: Tally,
    /// All epochs but the first.
    pub(crate) steady: Tally,
    /// Statistics of the cache of the training step.
    pub(crate) cache: Option<ScopeStats>,
    /// Number of arrays that outlived their step and that its plan served.
    pub(crate) carried: u64,
    /// The work of the captured scope, with `--graph`.
    pub(crate) graphs: Option<GraphStats>,
    /// A hash of the losses of all steps: equal if every bit is equal.
    pub(crate) loss_bits: u64,
    /// Bytes that the caches returned after the last evaluation, and at the end.
    pub(crate) given_back: [u64; 2],
}

/// Trains, and returns the result. By then all memory of the caches is returned to the device.
pub(crate) fn train<C: Compute>(compute: &C, options: &Options) -> Result<Outcome> {
    let mut random = fastrand::Rng::with_seed(SEED);
    let digits = Digits::load(&mut random)?;
    let mut evaluation = Evaluation::new(compute, &digits.test, options)?;
    let mut training = Training::new(compute, &digits.train, random, options)?;

    let (mut first, mut steady) = (Tally::default(), Tally::default());
    let (mut accuracy, mut evaluation_bytes) = (0.0, 0);
    for epoch in 0..options.epochs {
        let tally = if epoch == 0 { &mut first } else { &mut steady };
        training.epoch(tally)?;
        training.note_losses()?;
        accuracy = evaluation.accuracy(&training.network)?;
        // Training continues without the evaluation's memory. The next evaluation requests it again, and may get memory of the step, which
        // is idle then. Graphs of the step would have to be captured again, so with graphs the evaluation keeps its memory.
        if !options.graph {
            evaluation_bytes = gpucache::invalidate("eval").bytes;
        }
        show_progress(epoch + 1, options.epochs, accuracy);
    }

    let cache = gpucache::stats("train_step");
    let carried = gpucache::stats("train_step").map_or(0, |stats| stats.plan.carried);
    // A graph keeps the memory of its arrays.
    let graphs = training.captured.take().map(|captured| captured.stats());
    let given_back = [evaluation_bytes, gpucache::invalidate_all().bytes];
    Ok(Outcome {
        accuracy,
        loss: training.loss()?,
        first,
        steady,
        cache,
        carried,
        graphs,
        loss_bits: training.bits.finish(),
        given_back,
    })
}

/// Overwrites the line before it. Prints only on a terminal.
fn show_progress(epoch: u16, epochs: u16, accuracy: f64) {
    if std::io::stderr().is_terminal() {
        let end = if epoch == epochs { "\n" } else { "" };
        eprint!("\repoch {epoch}/{epochs}  {:.1} % right{end}", 100.0 * accuracy);
    }
}

impl<'c, C: Compute> Training<'c, C> {
    fn new(compute: &'c C, train: &Samples, mut random: fastrand::Rng, options: &Options) -> Result<Self> {
        let device = compute.device();
        let (samples, table) = (train.len(), train.with_shifted_copies());
        let storage = |rows| Storage::new(options.alloc, device, &training_shapes(rows, options.functional));
        Ok(Self {
            compute,
            network: Network::new(device, &mut random)?,
            set: TrainingSet {
                images: Matrix::from_slice(device, [table.len(), PIXELS], &table.images)?,
                targets: Matrix::from_slice(device, [table.len(), CLASSES], &table.targets())?,
                order: Array::zeros(device, samples)?,
                losses: Matrix::zeros(device, [1, samples])?,
            },
            samples,
            full_batch: storage(BATCH)?,
            last_batch: storage(samples % BATCH)?,
            steps: 0,
            planned_steps: i32::try_from(samples.div_ceil(BATCH))?.saturating_mul(options.epochs.into()),
            functional: options.functional,
            captured: options.graph.then(|| Captured::new(device)).transpose()?,
            bits: DefaultHasher::new(),
            random,
        })
    }

    /// One pass over the images, each as one of its shifted copies. The host waits for the device only once, at the end.
    fn epoch(&mut self, tally: &mut Tally) -> Result<()> {
        let order = self.shuffled();
        self.set.order.copy_from_slice(&order)?;
        let device = self.compute.device();
        let (start, takes, steps) = (Instant::now(), device.memory().times_taken(), tally.steps);
        for batch in batches(self.samples) {
            let adam = self.next_adam();
            tally.steps += 1;
            if let Some(captured) = &mut self.captured {
                captured.train_step(self.compute, &mut self.network, &mut self.set, batch, adam)?;
                continue;
            }
            let storage = if batch.len() == BATCH { &mut self.full_batch } else { &mut self.last_batch };
            let step =
                Step { compute: self.compute, buffers: storage.buffers(), functional: self.functional, numbers: None };
            train_step(step, &mut self.network, &mut self.set, batch, adam)?;
        }
        device.synchronize()?;
        let time = start.elapsed();
        tally.time += time;
        tally.best_speed = tally.best_speed.max((tally.steps - steps) as f64 / time.as_secs_f64());
        tally.takes += device.memory().times_taken() - takes;
        Ok(())
    }

    fn shuffled(&mut self) -> Vec<u32> {
        let samples = self.samples as u32;
        let mut order: Vec<u32> = (0..samples).collect();
        self.random.shuffle(&mut order);
        order.iter_mut().for_each(|row| *row += samples * self.random.u32(..Samples::COPIES as u32));
        order
    }

    fn next_adam(&mut self) -> Adam {
        let progress = self.steps as f32 / self.planned_steps as f32;
        self.steps += 1;
        let cosine = 0.5 * (1.0 + (std::f32::consts::PI * progress).cos());
        let correction = (1.0 - SQUARE_DECAY.powi(self.steps)).sqrt() / (1.0 - MEAN_DECAY.powi(self.steps));
        Adam { rate: RATE * cosine * correction, mean_decay: MEAN_DECAY, square_decay: SQUARE_DECAY, epsilon: 1e-8 }
    }

    /// Adds the losses of this epoch to the bits.
    fn note_losses(&mut self) -> Result<()> {
        self.set.losses.to_vec()?.iter().for_each(|loss| loss.to_bits().hash(&mut self.bits));
        Ok(())
    }

    /// Mean loss over the last epoch.
    fn loss(&self) -> Result<f32> {
        Ok(self.set.losses.to_vec()?.iter().sum::<f32>() / self.samples as f32)
    }
}

impl<'c, C: Compute> Evaluation<'c, C> {
    fn new(compute: &'c C, test: &Samples, options: &Options) -> Result<Self> {
        let device = compute.device();
        Ok(Self {
            compute,
            images: Matrix::from_slice(device, [test.len(), PIXELS], &test.images)?,
            labels: test.labels.clone(),
            storage: Storage::new(options.alloc, device, &forward_shapes(test.len()))?,
        })
    }

    /// The share of test images that the network classifies correctly.
    fn accuracy(&mut self, network: &Network<C::Device>) -> Result<f64> {
        let step = Step { compute: self.compute, buffers: self.storage.buffers(), functional: false, numbers: None };
        let scores = evaluate(step, network, &self.images)?;
        let right = scores.chunks_exact(CLASSES).zip(&self.labels).filter(|(scores, label)| best(scores) == **label);
        Ok(right.count() as f64 / self.labels.len() as f64)
    }
}

fn best(scores: &[f32]) -> usize {
    let best = scores.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    best.map_or(0, |(class, _)| class)
}

fn batches(len: usize) -> impl Iterator<Item = Range<usize>> {
    (0..len).step_by(BATCH).map(move |start| start..len.min(start + BATCH))
}
