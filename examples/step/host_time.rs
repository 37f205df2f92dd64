//! The time that a launch of a whole graph takes on the calling thread, without waiting for the device.

use std::time::Instant;

use crate::chain::{Machine, Mode};
use crate::common::Result;
use crate::lane::Lane;

/// Launches in a row, between two waits: few enough that the driver's queue never makes the thread wait.
const LAUNCHES: u32 = 20;
const BATCHES: usize = 200;

/// Nanoseconds of the calling thread, as medians of batches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostTime {
    /// One `run` of the captured scope.
    pub(crate) run_ns: f64,
    /// One launch of the graph that was captured by hand, if the device has one.
    pub(crate) launch_ns: Option<f64>,
}

/// `None` without a captured scope. The batches of the two graphs alternate.
pub(crate) fn measure<M: Machine>(lanes: &mut [Lane<'_, M>]) -> Result<Option<HostTime>> {
    let mut times = [Vec::with_capacity(BATCHES), Vec::with_capacity(BATCHES)];
    for _ in 0..BATCHES {
        for (mode, times) in [Mode::Captured, Mode::HandGraph].into_iter().zip(&mut times) {
            if let Some(lane) = lanes.iter_mut().find(|lane| lane.mode == mode) {
                times.push(batch(lane)?);
            }
        }
    }
    let [captured, hand] = times.map(median);
    Ok(captured.map(|run_ns| HostTime { run_ns, launch_ns: hand }))
}

fn batch<M: Machine>(lane: &mut Lane<'_, M>) -> Result<f64> {
    lane.synchronize()?;
    let start = Instant::now();
    for _ in 0..LAUNCHES {
        lane.launch()?;
    }
    let time = start.elapsed() / LAUNCHES;
    lane.synchronize()?;
    Ok(time.as_nanos() as f64)
}

fn median(mut times: Vec<f64>) -> Option<f64> {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}
