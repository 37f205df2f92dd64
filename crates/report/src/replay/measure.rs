//! Measures a history by two replays with all passes, each from an empty cache. The first one is watched: it counts reserved memory and
//! calls of the device, and checks the contents of arrays. The second one is timed. The engine does the same both times.

#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use gpucache::{Limit, prelude::*};

use super::contents::Contents;
use super::history::{History, operations};
use super::pass::Replay;
use super::policy::Policy;
use super::served::{Counted, Served, Shares};
use super::watched::Watched;
use crate::error::Result;

/// The figures of a replay. The steady state is the last three steps of a pass.
///
/// ```
/// use std::num::NonZeroUsize;
///
/// use gpucache::{cache_scope, prelude::*, trace};
/// use gpucache_report::{Run, replay::{History, Policy, dry_run}};
///
/// trace::start(1000);
/// for _ in 0..10 {
///     cache_scope!(step, { drop(Host::new().zeros::<f32>([32, 64])?) });
/// }
/// let history = History::of("ten steps", &Run::from(&trace::stop()))?;
/// let figures = dry_run(&history, Policy::Auto, None, NonZeroUsize::MIN)?;
/// assert_eq!(figures.peak_reserved_bytes, 64 << 10); // a page of the host
/// assert_eq!((figures.out_of_memory, figures.steady_device_calls), (0, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Figures {
    /// The peak of live bytes: [`History::peak_live_bytes`].
    pub peak_live_bytes: u64,
    /// The peak of reserved bytes.
    pub peak_reserved_bytes: u64,
    /// Allocations that found no memory, over all passes; they and their frees were skipped.
    pub out_of_memory: u64,
    /// The peak of reserved bytes in the steady state of the last pass.
    pub steady_reserved_bytes: u64,
    /// Calls of the device (allocations, mappings and frees) in the steady state of the last pass.
    pub steady_device_calls: u64,
    /// Nanoseconds per operation in the steady state: the median over the passes. With several passes the first one does not count. The
    /// loop of the replay itself is a part of it: about a twelfth.
    pub steady_ns_per_operation: f64,
    /// The parts that served the allocations in the steady state of the last timed pass.
    pub steady: Shares,
    /// Deviations of all timed passes from their plans.
    pub deviations: u64,
    /// Time that the timed passes spent on planning.
    pub planning: Duration,
}

/// Replays a history on a device under a policy and a limit in bytes. Returns the figures of all passes.
///
/// The function replays the history twice: once to check the contents of arrays, and once for the time. Reserved memory is that of the
/// whole process on the device. The limit holds for the replay alone. Without one, the limits of the device apply. For a device without
/// memory use [`dry_run`](super::dry_run).
///
/// # Errors
/// Any failure of the device except a lack of memory, and an array that lost its contents.
///
/// ```
/// use std::num::NonZeroUsize;
///
/// use gpucache::{Limit, cache_scope, prelude::*, trace};
/// use gpucache_report::{Run, replay::{History, Policy, replay}};
///
/// let host = Host::new();
/// trace::start(1000);
/// for _ in 0..10 {
///     cache_scope!(step, { drop(host.zeros::<f32>([32, 64])?) });
/// }
/// let history = History::of("ten steps", &Run::from(&trace::stop()))?;
/// gpucache::invalidate("step");
/// let figures = replay(&host, &history, Policy::Auto, Some(Limit::hard(1 << 20)), NonZeroUsize::MIN)?;
/// assert_eq!((figures.out_of_memory, figures.steady.planned), (0, 1.0));
/// let short = replay(&host, &history, Policy::Auto, Some(Limit::hard(4096)), NonZeroUsize::MIN)?;
/// assert_eq!(short.out_of_memory, 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn replay<D: Contents>(
    device: &D,
    history: &History,
    policy: Policy,
    limit: Option<Limit>,
    passes: NonZeroUsize,
) -> Result<Figures> {
    let Some(limit) = limit else { return measure(device, device, history, policy, passes) };
    let before = device.memory();
    device.set_limit(limit)?;
    let figures = measure(device, device, history, policy, passes);
    device.set_limit(Limit::hard(before.limit.unwrap_or(u64::MAX)))?;
    device.set_limit(Limit::soft(before.soft_limit.unwrap_or(u64::MAX)))?;
    figures
}

/// Replays a history twice: watched on one device, and timed on the other, which may be the same one.
pub(super) fn measure<D: Contents>(
    watched: &D,
    timed: &D,
    history: &History,
    policy: Policy,
    passes: NonZeroUsize,
) -> Result<Figures> {
    let figures = watched_run(watched, history, policy, passes.get())?;
    let (steady_ns_per_operation, failed, served) = timed_run(timed, history, policy, passes.get())?;
    let Served { steady, deviations, planning } = served;
    // Other programs use a real device too, so the second replay may have had less memory.
    let out_of_memory = figures.out_of_memory.max(failed);
    Ok(Figures { out_of_memory, steady_ns_per_operation, steady, deviations, planning, ..figures })
}

fn watched_run<D: Contents>(device: &D, history: &History, policy: Policy, passes: usize) -> Result<Figures> {
    let scopes = Scopes::of(history);
    let mut replay = Replay::new(device, history, policy, &scopes.0);
    let mut watched = Watched::new(device, history.slots);
    for pass in 1..=passes {
        watched.looks_at_contents = pass == 1 || pass == passes;
        replay.pass(&mut watched)?;
    }
    let out_of_memory = replay.failed();
    drop(replay);
    drop(scopes);
    device.synchronize()?;
    let Served { steady, deviations, planning } = Served::default();
    Ok(Figures {
        peak_live_bytes: history.peak_live_bytes,
        peak_reserved_bytes: watched.peak_bytes(),
        out_of_memory,
        steady_reserved_bytes: watched.steady_bytes,
        steady_device_calls: watched.steady_calls,
        steady_ns_per_operation: f64::NAN,
        steady,
        deviations,
        planning,
    })
}

fn timed_run<D: Device>(device: &D, history: &History, policy: Policy, passes: usize) -> Result<(f64, u64, Served)> {
    let scopes = Scopes::of(history);
    let mut counted = Counted::new(&scopes.0);
    let mut replay = Replay::new(device, history, policy, &scopes.0);
    let times = (0..passes).map(|_| Ok(replay.pass(&mut counted)?.as_nanos() as f64)).collect::<Result<Vec<f64>>>()?;
    let (failed, served) = (replay.failed(), counted.served());
    drop(replay);
    drop(scopes);
    device.synchronize()?;
    // The cache fills in the first pass.
    let counted = match &times[..] {
        [_, warm @ ..] if !warm.is_empty() => warm,
        all => all,
    };
    Ok((median(counted) / operations(history.split_steady().1) as f64, failed, served))
}

/// Names for the scopes of a history that no other run has. The drop invalidates the scopes, so the next run begins without memory. It also
/// forgets them, so the statistics of a program that writes a page are its own.
pub(super) struct Scopes(pub(super) Vec<String>);

impl Scopes {
    pub(super) fn of(history: &History) -> Scopes {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let run = format!("{} #{}", history.name, NEXT.fetch_add(1, Relaxed));
        Scopes(match &history.scopes[..] {
            [] => vec![run],
            scopes => scopes.iter().map(|scope| format!("{run}: {scope}")).collect(),
        })
    }
}

impl Drop for Scopes {
    fn drop(&mut self) {
        self.0.iter().for_each(|scope| gpucache::__private::forget(scope));
    }
}

fn median(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    let middle = times.len() / 2;
    match times.len() % 2 {
        1 => times[middle],
        _ => times[middle.saturating_sub(1)..=middle].iter().sum::<f64>() / 2.0,
    }
}
