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
    pub(crate) run: Launch,
    /// One launch of the graph that was captured by hand, if the device has one.
    pub(crate) launch: Option<Launch>,
}

/// The time of one launch. After a wait, other work has displaced code and data of both from the processor's caches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    /// Directly after a wait for all work.
    pub(crate) first_ns: f64,
    /// After other launches.
    pub(crate) next_ns: f64,
}

/// `None` without a captured scope. The batches of the two graphs alternate.
pub(crate) fn measure<M: Machine>(lanes: &mut [Lane<'_, M>]) -> Result<Option<HostTime>> {
    let mut batches = [Vec::with_capacity(BATCHES), Vec::with_capacity(BATCHES)];
    for _ in 0..BATCHES {
        for (mode, batches) in [Mode::Captured, Mode::HandGraph].into_iter().zip(&mut batches) {
            if let Some(lane) = lanes.iter_mut().find(|lane| lane.mode == mode) {
                batches.push(batch(lane)?);
            }
        }
    }
    let [captured, hand] = batches.map(|batches| Launch::median(&batches));
    Ok(captured.map(|run| HostTime { run, launch: hand }))
}

fn batch<M: Machine>(lane: &mut Lane<'_, M>) -> Result<Launch> {
    lane.synchronize()?;
    let start = Instant::now();
    lane.launch()?;
    let first = Instant::now();
    for _ in 0..LAUNCHES {
        lane.launch()?;
    }
    let next = first.elapsed() / LAUNCHES;
    lane.synchronize()?;
    Ok(Launch { first_ns: (first - start).as_nanos() as f64, next_ns: next.as_nanos() as f64 })
}

impl Launch {
    fn median(batches: &[Launch]) -> Option<Launch> {
        let median = |time: fn(&Launch) -> f64| {
            let mut times: Vec<f64> = batches.iter().map(time).collect();
            times.sort_by(f64::total_cmp);
            times.get(times.len() / 2).copied()
        };
        Some(Launch { first_ns: median(|batch| batch.first_ns)?, next_ns: median(|batch| batch.next_ns)? })
    }
}
