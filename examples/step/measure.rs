//! Measures step times. The modes alternate in many short rounds, so that slow changes of the machine affect all of them equally.
//!
//! A timed step is all its launches, the drop of its last array and one synchronization of the stream.

use std::fmt;
use std::time::{Duration, Instant};

use gpucache::prelude::*;

use crate::chain::{Machine, Mode, Source, Values, step};
use crate::common::Result;

/// Counted steps of one mode in a round. One more step before them is not counted.
const STEPS_PER_ROUND: usize = 10;
const LEAST_ROUNDS: usize = 5;
/// A mode that has taken this long runs only the least number of rounds.
const MODE_BUDGET: Duration = Duration::from_secs(2);
/// A round ends after this long, even if steps are missing.
const ROUND_BUDGET: Duration = Duration::from_millis(400);

/// Median step times in microseconds, and their ratios.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Report {
    device: String,
    layers: usize,
    elements: usize,
    /// The fewest steps timed in any mode.
    steps: usize,
    plain_us: f64,
    scoped_us: f64,
    hand_us: f64,
    plain_over_hand: f64,
    scoped_over_hand: f64,
    /// Present only if the driver has a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pool_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pool_over_hand: Option<f64>,
}

/// One mode under measurement.
struct Lane<'m, M: Machine> {
    machine: &'m M,
    mode: Mode,
    source: Source<'m, M::Device>,
    times: Vec<Duration>,
    spent: Duration,
}

pub(crate) fn measure<M: Machine>(machine: &M, layers: usize, elements: usize, steps: usize) -> Result<Report> {
    let input: Vec<f32> = (0..elements).map(input_value).collect();
    let input = Values::from_slice(machine.device(), elements, &input)?;
    let lane = |&mode: &Mode| Lane::new(machine, mode, elements, steps);
    let mut lanes = M::MODES.iter().map(lane).collect::<Result<Vec<_>>>()?;

    let rounds = steps.div_ceil(STEPS_PER_ROUND).max(LEAST_ROUNDS);
    for round in 0..rounds {
        for lane in &mut lanes {
            if round < LEAST_ROUNDS || lane.spent < MODE_BUDGET {
                lane.round(&input, layers)?;
            }
        }
    }
    for lane in &mut lanes {
        lane.check(&input, layers)?;
    }
    machine.prepare(Mode::Plain)?;
    let _ = gpucache::invalidate("chain");
    Ok(Report::new(machine.name(), layers, elements, &lanes))
}

/// Whole numbers: adding 1 in each layer is exact, and reveals a layer that was left out or read stale contents.
fn input_value(index: usize) -> f32 {
    (index % 1024) as f32
}

impl<'m, M: Machine> Lane<'m, M> {
    fn new(machine: &'m M, mode: Mode, elements: usize, steps: usize) -> Result<Self> {
        let source = Source::new(mode, machine.device(), elements)?;
        Ok(Self { machine, mode, source, times: Vec::with_capacity(steps), spent: Duration::ZERO })
    }

    fn round(&mut self, input: &Values<M::Device>, layers: usize) -> Result<()> {
        self.machine.prepare(self.mode)?;
        let start = Instant::now();
        self.timed_step(input, layers)?;
        for _ in 0..STEPS_PER_ROUND {
            let time = self.timed_step(input, layers)?;
            self.times.push(time);
            if start.elapsed() > ROUND_BUDGET {
                break;
            }
        }
        self.spent += start.elapsed();
        Ok(())
    }

    fn timed_step(&mut self, input: &Values<M::Device>, layers: usize) -> Result<Duration> {
        let start = Instant::now();
        let last = step(self.machine, self.mode, input, layers, &mut self.source)?;
        self.source.done(last);
        self.machine.device().synchronize()?;
        Ok(start.elapsed())
    }

    /// Runs one more step and checks every value of its result.
    fn check(&mut self, input: &Values<M::Device>, layers: usize) -> Result<()> {
        self.machine.prepare(self.mode)?;
        let last = step(self.machine, self.mode, input, layers, &mut self.source)?;
        let values = last.to_vec()?;
        self.source.done(last);
        let expected = |index| input_value(index) + layers as f32;
        match values.iter().enumerate().find(|&(index, &value)| value != expected(index)) {
            None => Ok(()),
            Some((index, value)) => {
                Err(format!("{:?}: element {index} is {value}, not {}", self.mode, expected(index)).into())
            }
        }
    }

    fn median_us(&self) -> f64 {
        let mut times = self.times.clone();
        times.sort_unstable();
        let middle = times.len() / 2;
        let median = if times.len() % 2 == 1 { times[middle] } else { (times[middle - 1] + times[middle]) / 2 };
        median.as_nanos() as f64 / 1e3
    }
}

impl Report {
    fn new<M: Machine>(device: String, layers: usize, elements: usize, lanes: &[Lane<'_, M>]) -> Self {
        let median = |mode| lanes.iter().find(|lane| lane.mode == mode).map(Lane::median_us);
        let [plain_us, scoped_us, hand_us] =
            [Mode::Plain, Mode::Scoped, Mode::Hand].map(|mode| median(mode).unwrap_or(f64::NAN));
        let pool_us = median(Mode::Pool);
        Self {
            device,
            layers,
            elements,
            steps: lanes.iter().map(|lane| lane.times.len()).min().unwrap_or(0),
            plain_us,
            scoped_us,
            hand_us,
            plain_over_hand: plain_us / hand_us,
            scoped_over_hand: scoped_us / hand_us,
            pool_us,
            pool_over_hand: pool_us.map(|pool_us| pool_us / hand_us),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, layers, elements, steps, .. } = self;
        writeln!(
            f,
            "{layers} layers of {elements} f32 on {device}; medians of {steps} steps, each with one synchronization at its end"
        )?;
        writeln!(f, "  preallocated arrays   {:>10.1} us", self.hand_us)?;
        writeln!(
            f,
            "  arrays of a scope     {:>10.1} us  {:.3} x preallocated",
            self.scoped_us, self.scoped_over_hand
        )?;
        write!(f, "  arrays of the device  {:>10.1} us  {:.3} x preallocated", self.plain_us, self.plain_over_hand)?;
        match self.pool_us.zip(self.pool_over_hand) {
            Some((us, ratio)) => write!(f, "\n  .. if its pool keeps  {us:>10.1} us  {ratio:.3} x preallocated"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::HostMachine;

    /// A host whose layers do not write the last element.
    struct Careless(HostMachine);

    impl Machine for Careless {
        type Device = Host;
        const MODES: &'static [Mode] = HostMachine::MODES;

        fn device(&self) -> &Host {
            self.0.device()
        }

        fn name(&self) -> String {
            self.0.name()
        }

        fn layer(&self, x: &Values<Host>, y: &mut Values<Host>) -> Result<()> {
            let kept = y.last().copied().unwrap_or_default();
            self.0.layer(x, y)?;
            y.last_mut().into_iter().for_each(|last| *last = kept);
            Ok(())
        }

        fn prepare(&self, mode: Mode) -> Result<()> {
            self.0.prepare(mode)
        }
    }

    #[test]
    fn every_mode_is_timed() {
        let report = measure(&HostMachine::new(), 3, 1000, 60).unwrap();
        assert_eq!(report.steps, 60);
        assert!([report.plain_us, report.scoped_us, report.hand_us].iter().all(|&us| us > 0.0));
        assert!((report.plain_over_hand - report.plain_us / report.hand_us).abs() < 1e-9);
        assert_eq!(report.pool_us, None);
    }

    #[test]
    fn an_element_that_was_not_written_is_found() {
        let error = measure(&Careless(HostMachine::new()), 3, 1000, 10).unwrap_err();
        assert!(error.to_string().contains("element 999"), "{error}");
    }
}
