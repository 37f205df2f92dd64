//! Measures step times. The modes alternate in many short rounds, so that slow changes of the machine affect all of them equally.
//!
//! A timed step is all its launches, the drop of its last array and one synchronization of the stream.

use std::fmt;
use std::time::Duration;

use gpucache::graph::GraphStats;

use crate::chain::{Machine, Mode, Values};
use crate::common::Result;
use crate::host_time::{self, HostTime};
use crate::lane::{Lane, STEPS_PER_ROUND};

const LEAST_ROUNDS: usize = 5;
/// A mode that has taken this long runs only the least number of rounds.
const MODE_BUDGET: Duration = Duration::from_secs(2);

/// One variant of the measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) layers: usize,
    pub(crate) elements: usize,
    /// Timed steps of each mode, unless they take long.
    pub(crate) steps: usize,
}

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
    /// Present only with `--graph`.
    #[serde(flatten)]
    graph: Option<GraphReport>,
}

/// The chain as one graph.
#[derive(Debug, serde::Serialize)]
struct GraphReport {
    captured_us: f64,
    captured_over_hand: f64,
    /// A graph that was captured by hand; a host has none.
    hand_graph_us: Option<f64>,
    captured_over_hand_graph: Option<f64>,
    /// Time of the calling thread for one `run`, for one launch of the graph that was captured by hand, and the difference.
    run_host_ns: f64,
    hand_graph_host_ns: Option<f64>,
    host_ns_beyond_launch: Option<f64>,
    /// The same for the first one after a wait for all work.
    first_run_host_ns: f64,
    first_hand_graph_host_ns: Option<f64>,
    launches: u64,
    captures: u64,
    /// Runs without a graph.
    direct: u64,
    executable_bytes: u64,
    /// Why the last capture gave no graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_refusal: Option<String>,
}

pub(crate) fn measure<M: Machine>(machine: &M, modes: &[Mode], size: Size) -> Result<Report> {
    let Size { layers, elements, steps } = size;
    let input: Vec<f32> = (0..elements).map(input_value).collect();
    let input = Values::from_slice(machine.device(), elements, &input)?;
    let lane = |&mode: &Mode| Lane::new(machine, mode, &input, layers);
    let mut lanes = modes.iter().map(lane).collect::<Result<Vec<_>>>()?;

    let rounds = steps.div_ceil(STEPS_PER_ROUND).max(LEAST_ROUNDS);
    for round in 0..rounds {
        for lane in &mut lanes {
            if round < LEAST_ROUNDS || lane.spent < MODE_BUDGET {
                lane.round()?;
            }
        }
    }
    let host_time = host_time::measure(&mut lanes)?;
    for lane in &mut lanes {
        lane.check(|index| input_value(index) + layers as f32)?;
    }
    machine.prepare(Mode::Plain)?;
    let report = Report::new(machine.name(), size, &lanes, host_time);
    drop(lanes);
    for scope in ["chain", "captured_chain"] {
        // A run without graphs never enters the second one.
        if gpucache::stats(scope).is_some() {
            let _ = gpucache::invalidate(scope);
        }
    }
    Ok(report)
}

/// Whole numbers: adding 1 in each layer is exact, and reveals a layer that was left out or read stale contents.
fn input_value(index: usize) -> f32 {
    (index % 1024) as f32
}

impl Report {
    fn new<M: Machine>(device: String, size: Size, lanes: &[Lane<'_, M>], host_time: Option<HostTime>) -> Self {
        let Size { layers, elements, .. } = size;
        let median = |mode| lanes.iter().find(|lane| lane.mode == mode).map(Lane::median_us);
        let [plain_us, scoped_us, hand_us] =
            [Mode::Plain, Mode::Scoped, Mode::Hand].map(|mode| median(mode).unwrap_or(f64::NAN));
        let pool_us = median(Mode::Pool);
        let stats = lanes.iter().find_map(Lane::graphs);
        let captured = median(Mode::Captured).zip(stats).zip(host_time);
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
            graph: captured
                .map(|((us, stats), time)| GraphReport::new((us, hand_us, median(Mode::HandGraph)), stats, time)),
        }
    }
}

impl GraphReport {
    /// From the median times of a captured scope, of launches on preallocated arrays, and of a graph captured by hand.
    fn new((captured_us, hand_us, hand_graph_us): (f64, f64, Option<f64>), stats: GraphStats, time: HostTime) -> Self {
        Self {
            captured_us,
            captured_over_hand: captured_us / hand_us,
            hand_graph_us,
            captured_over_hand_graph: hand_graph_us.map(|us| captured_us / us),
            run_host_ns: time.run.next_ns,
            hand_graph_host_ns: time.launch.map(|launch| launch.next_ns),
            host_ns_beyond_launch: time.launch.map(|launch| time.run.next_ns - launch.next_ns),
            first_run_host_ns: time.run.first_ns,
            first_hand_graph_host_ns: time.launch.map(|launch| launch.first_ns),
            launches: stats.launches,
            captures: stats.captures,
            direct: stats.direct,
            executable_bytes: stats.executable_bytes,
            last_refusal: stats.last_refusal,
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
        if let Some((us, ratio)) = self.pool_us.zip(self.pool_over_hand) {
            write!(f, "\n  .. if its pool keeps  {us:>10.1} us  {ratio:.3} x preallocated")?;
        }
        self.graph.as_ref().map_or(Ok(()), |graph| write!(f, "\n{graph}"))
    }
}

impl fmt::Display for GraphReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { captured_us, captured_over_hand, run_host_ns, launches, captures, direct, .. } = self;
        writeln!(f, "  captured scope        {captured_us:>10.1} us  {captured_over_hand:.3} x preallocated")?;
        if let Some((us, ratio)) = self.hand_graph_us.zip(self.captured_over_hand_graph) {
            writeln!(f, "  graph made by hand    {us:>10.1} us  the captured scope takes {ratio:.3} x as long")?;
        }
        write!(f, "  calling thread        {run_host_ns:>10.0} ns for each run")?;
        if let Some(beyond) = self.host_ns_beyond_launch {
            write!(f, ", {beyond:.0} ns more than for a launch of the graph made by hand")?;
        }
        write!(f, "\n  .. after a wait       {:>10.0} ns for the first run", self.first_run_host_ns)?;
        if let Some(first) = self.first_hand_graph_host_ns {
            write!(f, ", {first:.0} ns for a first launch of the graph made by hand")?;
        }
        let bytes = self.executable_bytes;
        write!(f, "\n  {captures} captures, {launches} launches, {direct} direct runs; {bytes} bytes of executables")?;
        self.last_refusal.iter().try_for_each(|why| write!(f, "\n  refused: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use gpucache::prelude::*;

    use super::*;
    use crate::chain::HandGraph;
    use crate::host::HostMachine;

    /// A host whose layers do not write the last element.
    struct Careless(HostMachine);

    impl Machine for Careless {
        type Device = Host;
        const MODES: &'static [Mode] = HostMachine::MODES;
        const GRAPH_MODES: &'static [Mode] = HostMachine::GRAPH_MODES;

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

        fn hand_graph(&self, input: &Values<Host>, layers: usize) -> Result<Box<dyn HandGraph>> {
            self.0.hand_graph(input, layers)
        }
    }

    const SIZE: Size = Size { layers: 3, elements: 1000, steps: 60 };

    #[test]
    fn every_mode_is_timed() {
        let report = measure(&HostMachine::new(false).unwrap(), HostMachine::MODES, SIZE).unwrap();
        assert_eq!(report.steps, 60);
        assert!([report.plain_us, report.scoped_us, report.hand_us].iter().all(|&us| us > 0.0));
        assert!((report.plain_over_hand - report.plain_us / report.hand_us).abs() < 1e-9);
        assert!(report.pool_us.is_none() && report.graph.is_none());
    }

    #[test]
    fn a_host_captures_the_chain() {
        for layers in [1, 2, 5] {
            let machine = HostMachine::new(true).unwrap();
            let report = measure(&machine, HostMachine::GRAPH_MODES, Size { layers, ..SIZE }).unwrap();
            let graph = report.graph.unwrap();
            assert!(graph.launches > 60 && graph.captures > 0, "{graph:?}");
            assert!(graph.captured_us > 0.0 && graph.run_host_ns > 0.0 && graph.hand_graph_us.is_none());
        }
    }

    #[test]
    fn an_element_that_was_not_written_is_found() {
        let machine = Careless(HostMachine::new(false).unwrap());
        let error = measure(&machine, Careless::MODES, SIZE).unwrap_err();
        assert!(error.to_string().contains("element 999"), "{error}");
    }
}
