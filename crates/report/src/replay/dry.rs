//! Replays on a device without memory: how much a history reserves, and the smallest limit under which it runs. The device has pages of
//! the history's size.

use std::num::NonZeroUsize;

use gpucache::device::Virtual;

use super::history::History;
use super::measure::{Figures, Scopes, measure};
use super::pass::Replay;
use super::policy::Policy;
use crate::error::Result;

/// The memory of a device without a limit: more than any machine has (64 TiB).
const PLENTY: u64 = 1 << 46;

/// The smallest limit is exact to so many bytes. Pages may be larger, but arrays outside scopes count by the byte.
const STEP: u64 = 64 << 10;

/// Replays a history on a device without memory, which has as many bytes as the limit says.
///
/// The pages of the device have the size of [`History::page_bytes`], so the figures are those of the device that wrote the trace. Use
/// [`History::with_page_bytes`] to see another device: a GPU has pages of 2 MiB. The time is that of this machine. Contents are not
/// checked, since the device has no memory.
///
/// # Errors
/// Errors of the device, which checks every rule in the run that is not timed.
///
/// ```
/// use std::num::NonZeroUsize;
///
/// use gpucache::{cache_scope, prelude::*, trace};
/// use gpucache_report::{Run, replay::{History, Policy, dry_run}};
///
/// trace::start(1000);
/// for _ in 0..10 {
///     cache_scope!(step, { drop(Host::new().zeros::<f32>([1024, 1024])?) }); // 4 MiB
/// }
/// let history = History::of("ten steps", &Run::from(&trace::stop()))?;
/// let needs = |policy, limit| dry_run(&history, policy, limit, NonZeroUsize::MIN);
/// assert_eq!(needs(Policy::Auto, None)?.peak_reserved_bytes, 4 << 20);
/// assert_eq!(needs(Policy::Auto, Some(2 << 20))?.out_of_memory, 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn dry_run(history: &History, policy: Policy, limit: Option<u64>, passes: NonZeroUsize) -> Result<Figures> {
    let bytes = capacity(limit.unwrap_or(PLENTY));
    // The device checks every rule only in the run that is not timed.
    let device = |is_checked| Virtual::with_pages(bytes, history.page_bytes, is_checked);
    measure(&device(true), &device(false), history, policy, passes)
}

/// The smallest limit in bytes at which each allocation finds memory if a history is replayed `passes` times. `None` if 64 TiB are
/// too little. The device has the pages of the history, as in [`dry_run`].
///
/// The limit is a multiple of 64 KiB. With 64 KiB less, an allocation fails, or the peak of live memory does not fit. The search is
/// a bisection, so an even smaller limit may also work, if a policy happens to serve the history better with less memory.
///
/// # Errors
/// Errors of the device, as in [`dry_run`].
///
/// ```
/// use std::num::NonZeroUsize;
///
/// use gpucache::{cache_scope, prelude::*, trace};
/// use gpucache_report::{Run, replay::{History, Policy, smallest_limit}};
///
/// trace::start(1000);
/// for side in [1024, 2048, 1024, 2048] {
///     cache_scope!(step, { drop(Host::new().zeros::<f32>([side, 1024])?) }); // 4 or 8 MiB
/// }
/// let history = History::of("steps", &Run::from(&trace::stop()))?;
/// assert_eq!(smallest_limit(&history, Policy::Auto, NonZeroUsize::MIN)?, Some(8 << 20));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn smallest_limit(history: &History, policy: Policy, passes: NonZeroUsize) -> Result<Option<u64>> {
    let suffices = |steps: u64| suffices(history, policy, bytes_of(steps), passes.get());
    // Less than the peak of live memory is never enough, and the peak often is.
    let live = history.peak_live_bytes.div_ceil(STEP);
    let (mut short, mut enough) = (live.saturating_sub(1), live);
    while bytes_of(enough) <= PLENTY && !suffices(enough)? {
        (short, enough) = (enough, enough + 1 + 2 * (enough - live));
    }
    if bytes_of(enough) > PLENTY {
        return Ok(None);
    }
    while enough - short > 1 {
        let middle = short + (enough - short) / 2;
        let enclosed = if suffices(middle)? { (short, middle) } else { (middle, enough) };
        (short, enough) = enclosed;
    }
    Ok(Some(bytes_of(enough)))
}

/// Whether each allocation finds memory on a device of so many bytes.
fn suffices(history: &History, policy: Policy, bytes: u64, passes: usize) -> Result<bool> {
    let (device, scopes) = (Virtual::with_pages(capacity(bytes), history.page_bytes, false), Scopes::of(history));
    let mut replay = Replay::new(&device, history, policy, &scopes.0);
    for _ in 0..passes {
        replay.pass(&mut ())?;
        if replay.failed() > 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// So many steps in bytes; saturates.
fn bytes_of(steps: u64) -> u64 {
    steps.saturating_mul(STEP)
}

fn capacity(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::replay::builder::Builder;

    const MIB: u64 = 1 << 20;

    /// Each of six steps allocates four arrays per page and frees three of them, so one array keeps each page. Then it allocates an array
    /// as large as all freed ones. Live memory never exceeds 32 MiB, but without a plan more must be reserved.
    fn scattered() -> History {
        let mut builder = Builder::default();
        for step in 0..6 {
            let first = 100 * step;
            builder.step(step).unwrap();
            (0..64).for_each(|id| builder.allocate(first + id, MIB / 2).unwrap());
            let (kept, freed): (Vec<u64>, Vec<u64>) = (0..64).partition(|id| id % 4 == 0);
            freed.iter().for_each(|id| builder.free(first + id, MIB / 2).unwrap());
            builder.allocate(first + 64, 24 * MIB).unwrap();
            kept.iter().for_each(|id| builder.free(first + id, MIB / 2).unwrap());
            builder.free(first + 64, 24 * MIB).unwrap();
        }
        builder.finish("scattered".to_owned()).unwrap()
    }

    #[test]
    fn with_the_smallest_limit_nothing_fails_and_with_a_little_less_something_does() {
        let history = scattered();
        let passes = NonZeroUsize::new(2).unwrap();
        for policy in Policy::ALL {
            let limit = smallest_limit(&history, policy, passes).unwrap().unwrap();
            assert!(limit >= history.peak_live_bytes() && limit.is_multiple_of(STEP), "{policy}: {limit}");
            let failed = |limit| dry_run(&history, policy, Some(limit), passes).unwrap().out_of_memory;
            assert_eq!(failed(limit), 0, "{policy}: {limit}");
            assert!(failed(limit - STEP) > 0, "{policy}: {limit}");
        }
        let limit = |policy| smallest_limit(&history, policy, passes).unwrap();
        assert_eq!((limit(Policy::Direct), limit(Policy::Range)), (Some(32 * MIB), Some(56 * MIB)));
    }

    #[test]
    fn what_no_machine_has_is_no_limit() {
        let mut builder = Builder::default();
        builder.step(0).unwrap();
        builder.allocate(0, PLENTY + 1).unwrap();
        let history = builder.finish("huge".to_owned()).unwrap();
        assert_eq!(smallest_limit(&history, Policy::Range, NonZeroUsize::MIN).unwrap(), None);
        let history = History { peak_live_bytes: u64::MAX, ..history };
        assert_eq!(smallest_limit(&history, Policy::Range, NonZeroUsize::MIN).unwrap(), None);
    }
}
