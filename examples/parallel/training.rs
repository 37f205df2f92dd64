//! The training of one rank: its part of each batch, the step with its scope, and the loop.

use std::time::Instant;

use gpucache::device::{MemoryUse, OrderUse};
use gpucache::prelude::*;
use indicatif::{ProgressBar, ProgressStyle};

use crate::buckets::Buckets;
use crate::collectives::{Collectives, Time};
use crate::common::Result;
use crate::gpt::compute::{Compute, Matrix, mixed};
use crate::gpt::model::{Model, Tokens};
use crate::gpt::parameter::Init;
use crate::gpt::schedule;
use crate::gpt::sizes::Sizes;
use crate::gpt::step::{Learn, Step};
use crate::gpt::store::{Placement, Store};
use crate::gpt::text::Text;
use crate::gradients::Gradients;
use crate::optimizer::Optimizer;
use crate::options::{Defaults, Options};

/// How many steps in the middle of the training measure communication.
const MEASURED: u32 = 10;

/// One rank and its network.
pub(crate) struct Training<'a, C: Compute> {
    compute: &'a C,
    collectives: &'a dyn Collectives<C::Device>,
    store: Store<C::Device>,
    model: Model<C::Device>,
    pub(crate) buckets: Buckets,
    pub(crate) optimizer: Optimizer<C::Device>,
    text: Text,
    random: fastrand::Rng,
    /// The sizes with the sequences of all ranks, and with those of this one.
    pub(crate) sizes: Sizes,
    own: Sizes,
    rank: usize,
    inputs: Tokens<C::Device>,
    targets: Tokens<C::Device>,
    losses: Matrix<C::Device>,
    steps: i32,
    /// The most bytes of placed arrays on the device, read after each forward pass: then all saved values are alive. With
    /// `--placement device`, the memory of placed arrays is that of the scope and of arrays outside of it, so this stays 0.
    pub(crate) placed_bytes: u64,
    placement: Placement,
    is_sharded: bool,
    is_preallocated: bool,
}

/// The times of a training, and counters over its second half.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// The sum of this rank's losses in each step.
    pub(crate) losses: Vec<f64>,
    pub(crate) step_seconds: Vec<f64>,
    /// How often the device gave memory.
    pub(crate) device_calls: u64,
    /// Events that ordered streams.
    pub(crate) events: u64,
    /// The time of the measured calls of all ranks.
    pub(crate) communication: Time,
}

impl<'a, C: Compute> Training<'a, C> {
    /// A network like that of every other rank: all have the parameters of rank 0.
    pub(crate) fn new(
        compute: &'a C,
        collectives: &'a dyn Collectives<C::Device>,
        options: &Options,
        defaults: Defaults,
        (rank, ranks): (usize, usize),
    ) -> Result<Self> {
        let (device, text) = (compute.device(), Text::load()?);
        let sizes = options.sizes(defaults, text.vocabulary())?;
        let own = share(&sizes, ranks)?;
        let mut store = Store::new(device, options.placement);
        let mut model = Model::new(&mut Init::new(compute, &store, options.seed).without_moments(), &sizes)?;
        copy_from_first(&mut model, collectives)?;
        let parts = if options.shard { (ranks, rank) } else { (1, 0) };
        let buckets = Buckets::new(&counts(&model), options.bucket_numbers(defaults), parts);
        let optimizer = Optimizer::new(&store, &buckets, options.shard)?;
        if options.preallocated {
            store.allocate_once();
        }
        Ok(Self {
            compute,
            collectives,
            store,
            model,
            buckets,
            optimizer,
            text,
            random: fastrand::Rng::with_seed(options.seed),
            sizes,
            own,
            rank,
            inputs: Array::zeros(device, own.rows())?,
            targets: Array::zeros(device, own.rows())?,
            losses: Matrix::zeros(device, [1, own.rows()])?,
            steps: 0,
            placed_bytes: 0,
            placement: options.placement,
            is_sharded: options.shard,
            is_preallocated: options.preallocated,
        })
    }

    /// Runs all steps. `before` is called before each of them, with its number counted from 1, and ends the training by an error; so does
    /// `after`, once all work of the step is done.
    pub(crate) fn run(
        &mut self,
        options: &Options,
        before: impl Fn(u32) -> Result<()>,
        after: impl Fn() -> Result<()>,
    ) -> Result<Run> {
        let bar =
            if options.json || self.rank > 0 { ProgressBar::hidden() } else { ProgressBar::new(options.steps.into()) };
        let bar = bar.with_style(ProgressStyle::with_template("{bar:40} step {pos}/{len}  {msg}  {elapsed}")?);
        let (mut run, half) = (Run::default(), options.steps / 2);
        let (mut counted, began) = (self.counters(), self.collectives.time()?);
        for step in 0..options.steps {
            before(step + 1)?;
            self.collectives.measure((half.saturating_sub(MEASURED)..half).contains(&step));
            if step == half {
                counted = self.counters();
            }
            let start = Instant::now();
            let loss = self.step()?;
            after()?;
            run.step_seconds.push(start.elapsed().as_secs_f64());
            run.losses.push(loss);
            bar.set_message(format!("loss {:.4}", loss / self.own.rows() as f64));
            bar.inc(1);
        }
        bar.finish_and_clear();
        let (memory, order) = self.counters();
        run.device_calls = memory.times_taken() - counted.0.times_taken();
        run.events = order.events - counted.1.events;
        let Time { busy, waited } = self.collectives.time()?;
        run.communication = Time { busy: busy - began.busy, waited: waited - began.waited };
        Ok(run)
    }

    fn counters(&self) -> (MemoryUse, OrderUse) {
        (self.compute.device().memory(), self.compute.device().ordering())
    }

    /// Runs one step on this rank's part of a batch, and waits for the losses. Returns their sum.
    pub(crate) fn step(&mut self) -> Result<f64> {
        // All ranks draw the same batch.
        let batch = self.text.batch(&self.sizes, &mut self.random)?;
        let rows = self.own.rows();
        self.inputs.copy_from_slice(&batch.inputs[self.rank * rows..][..rows])?;
        self.targets.copy_from_slice(&batch.targets[self.rank * rows..][..rows])?;
        self.steps += 1;
        self.store.begin_step();
        if self.is_preallocated {
            self.learn()?
        } else {
            self.train_step()?
        }
        Ok(self.losses.to_vec()?.iter().map(|&loss| f64::from(loss)).sum())
    }

    /// One step in the scope of this rank's thread. It serves activations and gradients, and the buckets that ranks reduce.
    #[cache_scope(train_step)]
    fn train_step(&mut self) -> Result<()> {
        self.learn()
    }

    /// Forward pass; backward pass, which queues the reduction of each full bucket; update.
    fn learn(&mut self) -> Result<()> {
        let gradients = Gradients::new(&self.buckets, &self.store, self.collectives, self.is_sharded);
        let Sizes { context, heads, width, .. } = self.own;
        let learn = Learn::Collected(&gradients);
        let step = Step { compute: self.compute, store: &self.store, context, heads, learn };
        let saved = self.model.forward(&step, &self.inputs)?;
        if self.placement != Placement::Device {
            let placed = self.compute.device().stats().offload.resident_bytes;
            self.placed_bytes = self.placed_bytes.max(placed);
        }
        self.model.learn(&step, saved, (&self.inputs, &self.targets), &mut self.losses)?;
        let adamw = schedule::adamw(self.steps, width);
        self.optimizer.update(self.compute, self.collectives, &gradients, (&self.buckets, &mut self.model, adamw))
    }

    /// Calls of a step in which all ranks take part.
    pub(crate) fn calls(&self) -> usize {
        self.buckets.all.len() * if self.is_sharded { 2 } else { 1 }
    }

    /// A number that differs if a bit of a parameter differs.
    pub(crate) fn checksum(&self) -> Result<u64> {
        let mut sum = 0;
        for parameter in self.model.parameters() {
            let numbers = parameter.value.read()?.to_vec()?;
            sum = numbers.iter().fold(sum, |sum, number| mixed(sum ^ u64::from(number.to_bits())).wrapping_add(1));
        }
        Ok(sum)
    }
}

/// Gives all ranks the parameters of rank 0.
fn copy_from_first<D: Device>(model: &mut Model<D>, collectives: &dyn Collectives<D>) -> Result<()> {
    for parameter in model.parameters_mut() {
        let mut value = parameter.value.write()?;
        collectives.broadcast(&mut value)?;
        collectives.ready(&mut value)?;
    }
    Ok(())
}

/// The count of numbers of each parameter.
fn counts<D: Device>(model: &Model<D>) -> Vec<usize> {
    model.parameters().iter().map(|parameter| parameter.value.shape().iter().product()).collect()
}

/// The sizes of one rank's part of a step.
pub(crate) fn share(sizes: &Sizes, ranks: usize) -> Result<Sizes> {
    if !sizes.batch.is_multiple_of(ranks) {
        let batch = sizes.batch;
        return Err(
            format!("{ranks} ranks cannot share {batch} sequences evenly: choose a --batch that they divide").into()
        );
    }
    Ok(Sizes { batch: sizes.batch / ranks, ..*sizes })
}
