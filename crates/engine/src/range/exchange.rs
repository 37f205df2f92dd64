//! Pages that move before the range grows for a request.
//!
//! Pages whose work is done move at once. For much memory, a range also waits for the work of the stream that asks: a range that has grown
//! stays as large, and a host that runs ahead of its GPU would let it grow by what the GPU is about to leave. Moves and waits are limited, so
//! a scope whose sizes never repeat gets more memory in the end.

use super::ordered::{Carved, RangeState};
use super::{DeviceRange, GatherLimit};
use crate::base::error::Result;
use crate::device::Stream;

/// How much more than its peak of live memory a range may reserve before pages move: 1/64 at first, and more after each [`PER_SHARE`] moves.
/// Moving pages costs calls. A training makes up to 30 moves in its first three steps, and none later. Programs that never settle would move
/// pages for ever. First passes of seven traces reserved 1.017 times their live memory on average, and 1.046 with 1/5 from the start.
const APART_SHARES: [u64; 4] = [64, 32, 16, 8];
const LAST_SHARE: u64 = 5;
const PER_SHARE: u64 = 16;
/// The granules that a range may reserve beyond its peak of live memory, if that is more than its share, but no more than the last share:
/// 64 MiB on a GPU. In a range of few granules, a single gap is a large share, and the memory is not worth the calls.
const APART_GRANULES: u64 = 32;
/// The number of calls that may move pages before the range grows, however many blocks were freed. It is twice the 1024 handles of a range
/// that has grown step by step.
const FREE_CALLS: u64 = 2048;
/// The number of frees that allow one more call that moves pages before the range grows. So a scope whose sizes never repeat gets more
/// memory, instead of calls for most of its allocations.
const FREES_PER_CALL: u64 = 16;

/// A request of more than this share of the reserved memory may wait, and the range then reserves at most this share more than is live.
/// GPT-2 with sequences of random length grew by a tenth of its live memory for one request, while as much was free but still in use by the
/// GPU.
const AWAITED: u64 = 64;
/// How often a range waits at most before it grows, however many blocks were freed. A wait takes what the GPU is behind: usually less than a
/// step. A first step has about eight requests of much memory, and the order of steps is known after two or three.
const FREE_WAITS: u64 = 24;
/// The number of frees that allow one more wait: those of some steps of a training.
const FREES_PER_WAIT: u64 = 1 << 14;

impl DeviceRange {
    /// Memory for `bytes`, if the range would otherwise have to reserve far more than its peak of live memory. Free pages replace missing
    /// ones, as far as possible. `None` if the state in `seen` allows the range to grow without that, or if pages moved too often.
    ///
    /// # Errors
    /// As for [`gather`](DeviceRange::gather).
    pub(crate) fn exchange(&self, stream: &Stream, bytes: u64, seen: &RangeState) -> Result<Option<Carved>> {
        let aim = enough(bytes, seen);
        if seen.reserved.saturating_add(bytes) <= aim || seen.exchanged > FREE_CALLS + seen.frees / FREES_PER_CALL {
            return Ok(None);
        }
        let carved = self.move_first(stream, bytes, aim, seen)?;
        if let Some(Carved { calls, .. }) = carved {
            let inner = &mut *self.inner();
            (inner.exchanged, inner.exchanges) = (inner.exchanged + calls, inner.exchanges + 1);
        }
        Ok(carved)
    }

    /// Memory for `bytes`. Free pages replace missing ones, so that at most `aim` bytes are reserved, as far as possible.
    ///
    /// # Errors
    /// As for [`gather`](DeviceRange::gather).
    pub(crate) fn move_first(
        &self,
        stream: &Stream,
        bytes: u64,
        aim: u64,
        seen: &RangeState,
    ) -> Result<Option<Carved>> {
        match self.wait_and_move(stream, bytes, aim, seen)? {
            Some(carved) => Ok(Some(carved)),
            None => self.gather(stream, bytes, GatherLimit::aiming_at(aim)),
        }
    }

    /// Moves pages for much memory, if the range then reserves hardly more than is live. Waits for the stream's work if necessary.
    fn wait_and_move(&self, stream: &Stream, bytes: u64, aim: u64, seen: &RangeState) -> Result<Option<Carved>> {
        if bytes <= seen.reserved / AWAITED || self.inner().waits >= FREE_WAITS + seen.frees / FREES_PER_WAIT {
            return Ok(None);
        }
        let due = aim.max(seen.live.saturating_add(bytes));
        let limit = GatherLimit::between(aim, due.saturating_add(due / AWAITED));
        let carved = self.try_gather(stream, bytes, limit)?;
        if carved.is_some() {
            return Ok(carved);
        }
        let Some(is_done) = self.finish_own(stream)? else { return Ok(None) };
        self.inner().waits += 1;
        if is_done { self.try_gather(stream, bytes, limit) } else { Ok(None) }
    }
}

/// How many bytes a range may reserve for a request before pages move.
fn enough(bytes: u64, seen: &RangeState) -> u64 {
    let due = seen.peak_live.max(seen.live.saturating_add(bytes));
    let share = APART_SHARES.get((seen.exchanges / PER_SHARE) as usize).copied().unwrap_or(LAST_SHARE);
    // In a small range, blocks and pages have similar sizes, and the gaps between blocks are whole pages.
    let few = APART_GRANULES.saturating_mul(seen.granule).min(due / LAST_SHARE);
    due.saturating_add((due / share).max(few))
}
