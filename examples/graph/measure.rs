//! Measures the largest batch size alone, and then all batch sizes.

use std::time::Instant;

use gpucache::prelude::*;

use crate::common::Result;
use crate::model::{Machine, Model, Sizes};
use crate::report::{Report, StepTimes};
use crate::server::Server;
use crate::{Options, Order};

/// Timed steps of a batch size, in each of the two ways.
const TIMED: usize = 51;
/// Steps before these, until scopes and graphs are warm.
const UNTIMED: usize = 10;

pub(crate) fn measure<M: Machine>(machine: &M, sizes: Sizes, options: &Options) -> Result<Report> {
    let mut random = fastrand::Rng::with_seed(options.seed);
    let mut model = Model::new(machine.device(), sizes, &mut random)?;
    machine.device().synchronize()?;
    let base_bytes = machine.device().memory().bytes;
    let largest = alone(machine, &mut model, sizes, base_bytes)?;

    machine.device().reset_peaks();
    let free = machine.free_bytes();
    let mut server = Server::new(machine, &mut model, "batches", sizes)?;
    let first = ordered(sizes.batches, options.order, &mut random);
    let start = Instant::now();
    let runs = first.iter().map(|&batch| server.warm(batch)).sum::<Result<usize>>()?;
    machine.device().synchronize()?;
    let start_seconds = start.elapsed().as_secs_f64();
    let warm = server.stats();

    for _ in 0..options.steps {
        server.serve(random.usize(1..=sizes.batches))?;
    }
    machine.device().synchronize()?;
    let stats = server.stats();
    let bytes = machine.device().memory().peak_bytes - base_bytes;
    let device_bytes = free.zip(machine.free_bytes()).map(|(before, now)| before.saturating_sub(now));

    let wrong = (1..=sizes.batches).filter_map(|batch| match server.is_right(batch) {
        Ok(true) => None,
        Ok(false) => Some(Err(format!("the graph of batch size {batch} gives other results than its step").into())),
        Err(error) => Some(Err(error)),
    });
    wrong.collect::<Result<()>>()?;
    let times = [1, sizes.batches].map(|batch| timed(machine, &mut server, batch));
    let [smallest_step, largest_step] = times;
    Ok(Report {
        device: machine.name(),
        sizes,
        order: options.order,
        base_bytes,
        largest_bytes: largest,
        bytes,
        device_bytes,
        start_seconds,
        start_runs: runs,
        steps: options.steps,
        warm,
        stats,
        smallest_step: smallest_step?,
        largest_step: largest_step?,
    })
}

/// The peak of reserved memory beside the model's, if only the largest batch size is served. Afterwards it is returned.
fn alone<M: Machine>(machine: &M, model: &mut Model<M::Device>, sizes: Sizes, base_bytes: u64) -> Result<u64> {
    machine.device().reset_peaks();
    let mut server = Server::new(machine, model, "largest", sizes)?;
    server.warm(sizes.batches)?;
    server.serve(sizes.batches)?;
    machine.device().synchronize()?;
    let bytes = machine.device().memory().peak_bytes - base_bytes;
    drop(server);
    gpucache::invalidate_all();
    Ok(bytes)
}

fn ordered(batches: usize, order: Order, random: &mut fastrand::Rng) -> Vec<usize> {
    let mut sizes: Vec<usize> = (1..=batches).collect();
    match order {
        Order::Up => {}
        Order::Down => sizes.reverse(),
        Order::Random => random.shuffle(&mut sizes),
    }
    sizes
}

/// Median times of a step and one wait, without a graph and with it.
fn timed<M: Machine>(machine: &M, server: &mut Server<'_, M>, batch: usize) -> Result<StepTimes> {
    let direct_us = median_us(machine, || server.serve_directly(batch))?;
    let graph_us = median_us(machine, || server.serve(batch))?;
    Ok(StepTimes { batch, direct_us, graph_us })
}

fn median_us<M: Machine>(machine: &M, mut serve: impl FnMut() -> Result<()>) -> Result<f64> {
    (0..UNTIMED).try_for_each(|_| serve())?;
    machine.device().synchronize()?;
    let mut times = Vec::with_capacity(TIMED);
    for _ in 0..TIMED {
        let start = Instant::now();
        serve()?;
        machine.device().synchronize()?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(times[TIMED / 2].as_nanos() as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::host::HostMachine;
    use crate::uncomputed::Uncomputed;

    const SIZES: Sizes = Sizes { batches: 5, rows: 3, width: 8, blocks: 3 };

    #[test]
    fn each_batch_size_has_a_graph_in_any_order() {
        for order in ["up", "down", "random"] {
            let options = Options::parse_from(["graph", "--order", order, "--steps", "40"]);
            let report = measure(&HostMachine::new().unwrap(), SIZES, &options).unwrap();
            assert!(report.warm.graphs == 5 && report.start_runs < 5 * 20, "{report}");
            assert!(report.stats.launches >= 20, "{report}");
            let json = report.to_json();
            assert!(json["over_largest"].as_f64() > Some(0.0), "{json}");
        }
    }

    #[test]
    fn nothing_is_computed_on_a_virtual_device() {
        let options = Options::parse_from(["graph", "--steps", "40"]);
        let report = measure(&Uncomputed::new(), SIZES, &options).unwrap();
        assert!(report.warm.graphs == 5 && report.bytes > 0 && report.device_bytes.is_none(), "{report}");
    }
}
