//! Whether a stretch that repeats is worth a plan, and where its iterations begin.

use super::low_water::levels;
use crate::entries::Log;

/// In a loop, arrays of more than one in this many bytes are dropped within [`OLDEST`] iterations. Otherwise a plan would have no place
/// for most of them: layers whose activations wait for the backward pass, or whose caches wait for the next token. The larger stretch
/// around them is the loop.
const KEPT: u64 = 16;
/// Frames in a queue and batches that are loaded early live for several iterations.
const OLDEST: u32 = 8;
/// An iteration has at least this many allocations. Shorter ones are taken several at a time, since each costs as much as an entry.
const SHORTEST: u32 = 32;

/// The answer about a candidate whose period repeats from `from` up to the allocation before `now`.
pub(super) enum Verdict {
    /// It is a loop: the length of its iterations in allocations, and the number of the allocation that begins the next one.
    Loop { length: u32, next: u32 },
    /// To be asked again once so many allocations repeat.
    Later(u32),
    /// Its arrays live too long.
    Never,
}

/// Judges the period of a stretch of `run` allocations at the end of the log that repeat the one a period earlier. `first` is the first
/// allocation that was repeated.
pub(super) fn judge(log: &Log, period: u32, run: u32, first: u32) -> Verdict {
    let (length, now) = (period * SHORTEST.div_ceil(period), log.len());
    let seen = (run + period) / length;
    if seen < 2 {
        return Verdict::Later(2 * length - period);
    }
    // The latest iteration that had its time, and all the time there may be.
    let age = ((run + period) / period).min(OLDEST);
    if !is_closed(log, (now - age * period).max(first), period) {
        return if age == OLDEST { Verdict::Never } else { Verdict::Later((2 * age).min(OLDEST) * period - period) };
    }
    Verdict::Loop { length, next: lowest(log, length) + length }
}

/// Whether most bytes of this stretch were dropped by now.
fn is_closed(log: &Log, from: u32, length: u32) -> bool {
    let stretch = log.lives().skip(from as usize).take(length as usize);
    let (all, kept) = stretch.fold((0u64, 0u64), |(all, kept), (_, bytes, dropped)| {
        let is_kept = dropped > log.len();
        (all.saturating_add(bytes), kept.saturating_add(if is_kept { bytes } else { 0 }))
    });
    kept <= all / KEPT
}

/// The allocation among the last `length` ones before which the fewest bytes were alive.
fn lowest(log: &Log, length: u32) -> u32 {
    let start = log.len() - length;
    let levels = levels(log, start);
    let grown = levels.last().copied().unwrap_or(0);
    // Where memory grows from iteration to iteration, it is compared with an even growth.
    let alive = levels.iter().take(length as usize).enumerate();
    let lowest = alive.min_by_key(|&(place, live)| (live * i128::from(length) - grown * place as i128, place));
    start + lowest.map_or(0, |(place, _)| place) as u32
}
