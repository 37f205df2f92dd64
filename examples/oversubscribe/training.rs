//! The training step, with its scope, and the loop around it.

use std::time::Instant;

use gpucache::{prelude::*, stats::OffloadStats};
use indicatif::{ProgressBar, ProgressStyle};

use crate::Options;
use crate::common::Result;
use crate::gpt::compute::{Compute, Matrix};
use crate::gpt::model::{Model, Tokens};
use crate::gpt::parameter::Init;
use crate::gpt::schedule;
use crate::gpt::sizes::Sizes;
use crate::gpt::step::{Learn, Step};
use crate::gpt::store::{Store, Traffic};
use crate::gpt::text::Text;
use crate::limit::Limit;
use crate::sample::sample;

/// The number of first steps that measure how much memory training needs.
const FIRST_STEPS: u32 = 3;

/// The results of training.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Mean loss of each step.
    pub(crate) losses: Vec<f32>,
    /// The time of each step.
    pub(crate) step_seconds: Vec<f64>,
    pub(crate) sizes: Sizes,
    /// The most memory reserved in some steps without a limit, if the limit is a fraction of it.
    pub(crate) unlimited_peak_bytes: Option<u64>,
    pub(crate) limit_bytes: Option<u64>,
    pub(crate) peak_device_bytes: u64,
    pub(crate) traffic: Traffic,
    /// The text that the trained network writes.
    pub(crate) text: String,
}

struct Training<'c, C: Compute> {
    compute: &'c C,
    store: Store<C::Device>,
    sizes: Sizes,
    model: Model<C::Device>,
    text: Text,
    random: fastrand::Rng,
    inputs: Tokens<C::Device>,
    targets: Tokens<C::Device>,
    losses: Matrix<C::Device>,
    steps: i32,
    /// The most memory reserved at the end of a step. The step's scope keeps its memory until others need it.
    held_bytes: u64,
    /// Statistics of moves when half of the steps were done.
    half: OffloadStats,
}

/// One step: forward pass, backward pass, and updates.
///
/// The cache named `train_step` serves all allocations until the function returns, here or in functions that it calls:
/// activations, gradients, and the scratch arrays of operations.
#[cache_scope(train_step)]
fn train_step<C: Compute>(
    step: &Step<'_, C>,
    model: &mut Model<C::Device>,
    (inputs, targets): (&Tokens<C::Device>, &Tokens<C::Device>),
    losses: &mut Matrix<C::Device>,
) -> Result<()> {
    let saved = model.forward(step, inputs)?;
    model.learn(step, saved, (inputs, targets), losses)
}

/// Trains under the limit of the command line, if there is one, and returns the results.
pub(crate) fn train<C: Compute>(compute: &C, options: &Options) -> Result<Outcome> {
    let device = compute.device();
    let unlimited_peak_bytes = match options.limit {
        Some(Limit::TimesPeak(_)) => Some(unlimited_peak(compute, options)?),
        _ => None,
    };
    let limit = options.limit.map(|limit| limit.of(unlimited_peak_bytes.unwrap_or(0)));
    limit.map_or(Ok(()), |limit| device.set_limit(limit))?;
    // A share is known as bytes once it is set.
    let limit_bytes = limit.and_then(|limit| limit.bytes(None).ok().or(device.memory().limit));
    let mut training = Training::new(compute, options)?;
    let (losses, step_seconds) = training.run(options)?;
    // The device's own peak is exact. But if there were steps without a limit, it is the peak of those.
    let peak_device_bytes = match unlimited_peak_bytes {
        Some(_) => training.held_bytes,
        None => device.memory().peak_bytes,
    };
    let (traffic, sizes) = (training.store.traffic(&training.half), training.sizes);
    let text = training.write()?;
    Ok(Outcome { losses, step_seconds, sizes, unlimited_peak_bytes, limit_bytes, peak_device_bytes, traffic, text })
}

/// The most memory reserved in the first steps. All of their memory is freed when this returns.
fn unlimited_peak<C: Compute>(compute: &C, options: &Options) -> Result<u64> {
    let mut training = Training::new(compute, options)?;
    for _ in 0..FIRST_STEPS {
        training.step()?;
    }
    drop(training);
    gpucache::invalidate("train_step");
    compute.device().trim();
    Ok(compute.device().memory().peak_bytes)
}

impl<'c, C: Compute> Training<'c, C> {
    fn new(compute: &'c C, options: &Options) -> Result<Self> {
        let (device, text) = (compute.device(), Text::load()?);
        let sizes = options.sizes.sizes(text.vocabulary()).checked()?;
        let store = Store::new(device, options.placement);
        Ok(Self {
            compute,
            sizes,
            model: Model::new(&mut Init::new(compute, &store, options.seed), &sizes)?,
            text,
            random: fastrand::Rng::with_seed(options.seed),
            inputs: Array::zeros(device, sizes.rows())?,
            targets: Array::zeros(device, sizes.rows())?,
            losses: Matrix::zeros(device, [1, sizes.rows()])?,
            steps: 0,
            held_bytes: 0,
            half: store.moved(),
            store,
        })
    }

    /// Runs all steps. Returns the loss and the seconds of each.
    fn run(&mut self, options: &Options) -> Result<(Vec<f32>, Vec<f64>)> {
        let bar = if options.json { ProgressBar::hidden() } else { ProgressBar::new(options.steps.into()) };
        let bar = bar.with_style(ProgressStyle::with_template("{bar:40} step {pos}/{len}  {msg}  {elapsed}")?);
        let (mut losses, mut seconds) = (Vec::new(), Vec::new());
        for step in 0..options.steps {
            if step == options.steps / 2 {
                self.half = self.store.moved();
            }
            let start = Instant::now();
            let loss = self.step()?;
            seconds.push(start.elapsed().as_secs_f64());
            losses.push(loss);
            bar.set_message(format!("loss {loss:.4}"));
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok((losses, seconds))
    }

    /// Runs one step on a batch of its own, and waits for the loss.
    fn step(&mut self) -> Result<f32> {
        let batch = self.text.batch(&self.sizes, &mut self.random)?;
        self.inputs.copy_from_slice(&batch.inputs)?;
        self.targets.copy_from_slice(&batch.targets)?;
        self.steps += 1;
        let Sizes { context, heads, width, .. } = self.sizes;
        let learn = Learn::AtOnce(schedule::adamw(self.steps, width));
        let step = Step { compute: self.compute, store: &self.store, context, heads, learn };
        train_step(&step, &mut self.model, (&self.inputs, &self.targets), &mut self.losses)?;
        let losses = self.losses.to_vec()?;
        self.held_bytes = self.held_bytes.max(self.compute.device().memory().bytes);
        Ok((losses.iter().map(|&loss| f64::from(loss)).sum::<f64>() / losses.len() as f64) as f32)
    }

    /// Text that the network writes in its current state.
    fn write(&mut self) -> Result<String> {
        let Sizes { context, heads, width, .. } = self.sizes;
        let learn = Learn::AtOnce(schedule::adamw(self.steps, width));
        let step = Step { compute: self.compute, store: &self.store, context, heads, learn };
        sample(&step, &self.model, &self.text, &mut self.random)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use clap::Parser;

    use super::*;
    use crate::gpt::host::HostCompute;

    fn options(arguments: &str) -> Options {
        let small = "oversubscribe --width 16 --json";
        Options::parse_from(small.split(' ').chain(arguments.split(' ')))
    }

    #[test]
    fn the_loss_falls() {
        let losses = train(&HostCompute::new(), &options("--steps 30 --context 16")).unwrap().losses;
        let mean = |losses: &[f32]| losses.iter().sum::<f32>() / losses.len() as f32;
        assert!((losses[0] - 63_f32.ln()).abs() < 0.3, "it begins as if it knew nothing: {}", losses[0]);
        assert!(mean(&losses[25..]) < losses[0] - 0.5, "{losses:?}");
    }

    /// The memory of streams is counted and limited separately from that of other tests, but together for all streams. So only one test
    /// uses streams at a time.
    fn on_streams(test: impl FnOnce()) {
        static STREAMS: Mutex<()> = Mutex::new(());
        let _alone = STREAMS.lock().unwrap_or_else(PoisonError::into_inner);
        Host::new_stream().unwrap().set_limit(u64::MAX).unwrap();
        test();
    }

    fn on_stream() -> HostCompute {
        HostCompute::on(Host::new_stream().unwrap())
    }

    #[test]
    fn a_limit_changes_no_bit() {
        on_streams(limited_runs);
    }

    fn limited_runs() {
        let run = |arguments: &str| {
            let compute = on_stream();
            compute.device().set_limit(u64::MAX).unwrap();
            train(&compute, &options(arguments))
        };
        let (first, second) =
            (run("--context 16 --steps 8").unwrap(), run("--context 16 --steps 8 --limit 2x").unwrap());
        assert_eq!((&first.losses, &first.text), (&second.losses, &second.text));
        assert_eq!(second.unlimited_peak_bytes.map(|bytes| 2 * bytes), second.limit_bytes);
        assert!(
            second.peak_device_bytes > 0 && second.limit_bytes.is_some_and(|limit| second.peak_device_bytes < limit)
        );
        assert_ne!(run("--context 16 --steps 8 --seed 2").unwrap().losses, first.losses);
        let short = run("--context 16 --steps 8 --placement device --limit 0.3x");
        assert!(short.is_err_and(|error| error.to_string().contains("limit")));
        // In these runs most of the memory is placed.
        let larger = run("--steps 8").unwrap();
        for arguments in ["--placement device", "--placement host", "--limit 0.8x", "--limit 0.6x", "--limit 0.4x"] {
            let placed = run(&format!("--steps 8 {arguments}")).unwrap();
            assert_eq!(placed.losses, larger.losses, "{arguments}");
            assert_eq!(placed.traffic.evictions > 0, !arguments.ends_with("device"), "{arguments}");
        }
    }

    #[test]
    fn warm_steps_take_no_memory_from_the_device() {
        on_streams(warm_steps);
    }

    fn warm_steps() {
        let compute = on_stream();
        // Memory that other tests left would serve the first steps.
        gpucache::invalidate("train_step");
        compute.device().trim();
        let mut training = Training::new(&compute, &options("--context 16 --placement device")).unwrap();
        let mut taken = |steps: usize| {
            let before = compute.device().memory().times_taken();
            (0..steps).for_each(|_| assert!(training.step().unwrap() > 0.0));
            compute.device().memory().times_taken() - before
        };
        assert!(taken(12) > 0);
        assert_eq!(taken(6), 0);
    }

    #[test]
    fn what_cannot_be_is_an_error() {
        let error = |arguments| train(&HostCompute::new(), &options(arguments)).unwrap_err().to_string();
        assert!(error("--heads 5").contains("not shared evenly"));
        assert!(error("--context 449981 --batch 1").contains("449981 letters"));
        assert!(error("--batch 4294967295 --context 4294967295").contains("more than can be counted"));
    }
}
