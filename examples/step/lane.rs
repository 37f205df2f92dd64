//! One mode under measurement: what it keeps between steps, and its times.

use std::time::{Duration, Instant};

use gpucache::graph::{CapturedScope, GraphStats};
use gpucache::prelude::*;

use crate::chain::{HandGraph, Machine, Mode, Source, Values, chain, chain_into};
use crate::common::Result;

/// Counted steps of one mode in a round. One more step before them is not counted.
pub(crate) const STEPS_PER_ROUND: usize = 10;
/// A round ends after this long, even if steps are missing.
const ROUND_BUDGET: Duration = Duration::from_millis(400);

pub(crate) struct Lane<'m, M: Machine> {
    machine: &'m M,
    pub(crate) mode: Mode,
    input: &'m Values<M::Device>,
    layers: usize,
    work: Work<'m, M::Device>,
    pub(crate) times: Vec<Duration>,
    pub(crate) spent: Duration,
}

/// What launches the chain.
enum Work<'m, D: Device> {
    Chain(Source<'m, D>),
    Captured { scope: Box<CapturedScope<(), D>>, output: Values<D> },
    HandGraph(Box<dyn HandGraph>),
}

impl<'m, M: Machine> Lane<'m, M> {
    pub(crate) fn new(machine: &'m M, mode: Mode, input: &'m Values<M::Device>, layers: usize) -> Result<Self> {
        let (device, elements) = (machine.device(), input.len());
        let work = match mode {
            Mode::Plain | Mode::Scoped | Mode::Pool => Work::Chain(Source::new(device, elements)),
            Mode::Hand => Work::Chain(Source::preallocated(device, elements)?),
            Mode::Captured => Work::Captured {
                scope: Box::new(CapturedScope::new(device, "captured_chain")),
                output: Values::zeros(device, elements)?,
            },
            Mode::HandGraph => Work::HandGraph(machine.hand_graph(input, layers)?),
        };
        Ok(Self { machine, mode, input, layers, work, times: Vec::new(), spent: Duration::ZERO })
    }

    pub(crate) fn round(&mut self) -> Result<()> {
        self.machine.prepare(self.mode)?;
        let start = Instant::now();
        self.timed_step()?;
        for _ in 0..STEPS_PER_ROUND {
            let time = self.timed_step()?;
            self.times.push(time);
            if start.elapsed() > ROUND_BUDGET {
                break;
            }
        }
        self.spent += start.elapsed();
        Ok(())
    }

    fn timed_step(&mut self) -> Result<Duration> {
        let start = Instant::now();
        self.launch()?;
        self.machine.device().synchronize()?;
        Ok(start.elapsed())
    }

    /// Launches a step in its mode, without waiting for it.
    pub(crate) fn launch(&mut self) -> Result<()> {
        self.launch_and(|_| Ok(()))
    }

    /// Launches a step, and passes its last array to `look`.
    fn launch_and(&mut self, look: impl FnOnce(&Values<M::Device>) -> Result<()>) -> Result<()> {
        let Self { machine, input, layers, mode, .. } = *self;
        match &mut self.work {
            Work::Chain(source) => {
                let last = match mode {
                    Mode::Scoped => gpucache::cache_scope!(chain, { chain(machine, input, layers, source) }),
                    Mode::Hand => chain(machine, input, layers, source),
                    _ => gpucache::uncached!({ chain(machine, input, layers, source) }),
                }?;
                look(&last)?;
                source.done(last);
                Ok(())
            }
            Work::Captured { scope, output } => {
                // The graph repeats the launches in this block. Once there is a graph, the block itself does not run.
                scope.run((), (input, &mut *output), |(input, output)| {
                    let mut source = Source::new(machine.device(), input.len());
                    chain_into(machine, input, layers, &mut source, output)
                })?;
                look(output)
            }
            Work::HandGraph(graph) => graph.launch(),
        }
    }

    /// Runs one more step and checks every value of its result.
    pub(crate) fn check(&mut self, expected: impl Fn(usize) -> f32) -> Result<()> {
        self.machine.prepare(self.mode)?;
        let mut values = Vec::new();
        self.launch_and(|last| {
            values = last.to_vec()?;
            Ok(())
        })?;
        if let Work::HandGraph(graph) = &self.work {
            values = graph.output()?;
        }
        match values.iter().enumerate().find(|&(index, &value)| value != expected(index)) {
            None => Ok(()),
            Some((index, value)) => {
                Err(format!("{:?}: element {index} is {value}, not {}", self.mode, expected(index)).into())
            }
        }
    }

    pub(crate) fn synchronize(&self) -> Result<()> {
        Ok(self.machine.device().synchronize()?)
    }

    /// Counters of the captured scope, in that mode.
    pub(crate) fn graphs(&self) -> Option<GraphStats> {
        match &self.work {
            Work::Captured { scope, .. } => Some(scope.stats()),
            Work::Chain(_) | Work::HandGraph(_) => None,
        }
    }

    pub(crate) fn median_us(&self) -> f64 {
        let mut times = self.times.clone();
        times.sort_unstable();
        let middle = times.len() / 2;
        let median = if times.len() % 2 == 1 { times[middle] } else { (times[middle - 1] + times[middle]) / 2 };
        median.as_nanos() as f64 / 1e3
    }
}
