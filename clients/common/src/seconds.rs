//! Times of steps.

use std::time::{Duration, Instant};

use serde::Serialize;

/// Times of the second half of the steps. The first half is left out, because pools, scopes and modules warm up in it.
#[derive(Serialize)]
pub(crate) struct Seconds {
    steps: usize,
    median: f64,
    mean: f64,
    least: f64,
    most: f64,
    /// The very first step, which loads kernels and reserves all memory.
    first: f64,
}

impl Seconds {
    pub(crate) fn of_warm(times: &[Duration]) -> Self {
        let seconds: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
        let warm = &seconds[seconds.len() / 2..];
        Self {
            steps: warm.len(),
            median: median(warm),
            mean: warm.iter().sum::<f64>() / warm.len() as f64,
            least: warm.iter().copied().fold(f64::NAN, f64::min),
            most: warm.iter().copied().fold(f64::NAN, f64::max),
            first: seconds.first().copied().unwrap_or(f64::NAN),
        }
    }
}

/// The median, or the upper of two middle values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The result of `body` and its time. To include the device's time, `body` has to wait for the device.
pub fn timed<R, E>(body: impl FnOnce() -> Result<R, E>) -> Result<(R, Duration), E> {
    let start = Instant::now();
    let value = body()?;
    Ok((value, start.elapsed()))
}
