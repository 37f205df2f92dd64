//! Pages that move before the range grows for a request, and waits before it grows.
//!
//! Pages whose work is done move at once. For much memory, a range also waits for the work of the stream that asks: a range that has grown
//! stays as large, and a host that runs ahead of its GPU would let it grow by what the GPU is about to leave. Moves and waits are limited, so
//! a scope whose sizes never repeat gets more memory in the end.

use std::time::Instant;

use super::fit::EVERY_SPAN;
use super::ordered::{Carved, RangeState};
use super::wait::LONG;
use super::{DeviceRange, GatherLimit};
use crate::base::error::Result;
use crate::device::Stream;

/// A request of more than this share of the reserved memory may wait, and the range then reserves at most this share more than is live.
/// GPT-2 with sequences of random length grew by a tenth of its live memory for one request, while as much was free but still in use by the
/// GPU.
const AWAITED: u64 = 64;

impl DeviceRange {
    /// Memory for `bytes`, if the range would otherwise have to reserve far more than its peak of live memory. Free pages replace missing
    /// ones, as far as possible. `None` if the state in `seen` allows the range to grow without that, or if pages moved too often.
    ///
    /// # Errors
    /// As for [`gather`](DeviceRange::gather).
    pub(crate) fn exchange(&self, stream: &Stream, bytes: u64, seen: &RangeState) -> Result<Option<Carved>> {
        let aim = enough(seen, bytes);
        let is_enough = seen.reserved.saturating_add(bytes) <= aim;
        let granules = seen.peak_live / seen.granule.max(1);
        if is_enough || seen.exchanges.are_too_many(bytes, (seen.frees, seen.freed), granules) {
            return Ok(None);
        }
        let carved = self.move_first(stream, bytes, aim, seen)?;
        if let Some(Carved { calls, .. }) = carved {
            self.inner().exchanges.count(seen.peak_live, calls, seen.freed);
        }
        Ok(carved)
    }

    /// As [`exchange`](DeviceRange::exchange), but pages whose work is done move in any case, and the range grows by what they lack. For much
    /// memory, it first waits for the work of the stream rather than grow: without that wait, a training of GPT-2 with four batches in each
    /// step reserved 1.08 times its live memory, and 1.03 with it.
    ///
    /// # Errors
    /// As for [`gather`](DeviceRange::gather).
    pub(crate) fn exchange_at_once(&self, stream: &Stream, bytes: u64, seen: &RangeState) -> Result<Option<Carved>> {
        let most = enough(seen, bytes).max(seen.reserved);
        let is_awaited = is_much(bytes, seen) && seen.reserved.saturating_add(bytes) > most;
        if is_awaited {
            let moved = match self.try_gather(stream, bytes, GatherLimit::between(seen.reserved, most))? {
                None => self.wait_and_move(stream, bytes, seen.reserved, seen)?,
                moved => moved,
            };
            if moved.is_some() {
                return Ok(moved);
            }
        }
        match self.try_gather(stream, bytes, GatherLimit::aiming_at(seen.reserved))? {
            Some(carved) => Ok(Some(carved)),
            None => self.exchange(stream, bytes, seen),
        }
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

    /// Like [`reuse`](DeviceRange::reuse), for a range that several streams share. It looks at all free memory. If the range reserves far more
    /// than its streams need, it waits for their work, for a limited time. Otherwise streams that take turns would seldom find each other's
    /// memory in time, and the range would grow without end: a scope on two streams, with arrays of random size, reserved 66 times the bytes
    /// in use.
    ///
    /// # Errors
    /// As for [`reuse`](DeviceRange::reuse).
    pub(crate) fn reuse_any(&self, stream: &Stream, bytes: u64) -> Result<Option<Carved>> {
        let found = self.inner().reuse(stream, bytes, EVERY_SPAN)?;
        if found.is_some() || !self.may_wait_for_all(stream, bytes) {
            return Ok(found);
        }
        let start = Instant::now();
        let found = self.poll_reuse(stream, bytes, LONG, |inner| inner.streams.may_be_done_soon())?;
        self.inner().count_wait(start.elapsed());
        Ok(found)
    }

    /// Whether the range holds too much, and did not wait too often. Closures on a stream of the host may need the calling thread, and
    /// captured work does not run.
    fn may_wait_for_all(&self, stream: &Stream, bytes: u64) -> bool {
        if stream.runs_closures() || stream.is_capturing() {
            return false;
        }
        let inner = &mut *self.inner();
        inner.may_wait() && inner.holds_too_much(stream, bytes)
    }

    /// Moves pages for much memory, if the range then reserves hardly more than is live. Waits for the stream's work if necessary.
    fn wait_and_move(&self, stream: &Stream, bytes: u64, aim: u64, seen: &RangeState) -> Result<Option<Carved>> {
        if !is_much(bytes, seen) || !self.inner().may_wait() {
            return Ok(None);
        }
        let due = aim.max(seen.live.saturating_add(bytes));
        let limit = GatherLimit::between(aim, due.saturating_add(due / AWAITED));
        self.gather_or_wait(stream, bytes, limit)
    }

    /// As [`gather`](DeviceRange::gather), but the range first waits for the work of `stream` if it would otherwise reserve more than now, and
    /// far more than is live. An arena that comes back in each step, while the step before still runs, would be a second one: in a replay on a
    /// device that is behind, a training with several batches in each step reserved 1.050 times its live memory, and 1.015 with the wait.
    ///
    /// # Errors
    /// As for [`gather`](DeviceRange::gather).
    pub(crate) fn gather_rather_than_grow(
        &self,
        stream: &Stream,
        bytes: u64,
        limit: GatherLimit,
    ) -> Result<Option<Carved>> {
        let RangeState { reserved, live, .. } = self.occupancy();
        let due = live.saturating_add(bytes);
        let close = GatherLimit { most: reserved.max(due.saturating_add(due / AWAITED)), ..limit };
        let may_wait = close.most < limit.most && self.inner().may_wait();
        let carved = if may_wait { self.gather_or_wait(stream, bytes, close)? } else { None };
        match carved {
            Some(carved) => Ok(Some(carved)),
            None => self.gather(stream, bytes, limit),
        }
    }

    /// As [`gather`](DeviceRange::gather), but it waits for the stream's work alone, and counts the wait.
    fn gather_or_wait(&self, stream: &Stream, bytes: u64, limit: GatherLimit) -> Result<Option<Carved>> {
        let carved = self.try_gather(stream, bytes, limit)?;
        if carved.is_some() {
            return Ok(carved);
        }
        let start = Instant::now();
        let Some(is_done) = self.finish_own(stream)? else { return Ok(None) };
        self.inner().count_wait(start.elapsed());
        if is_done { self.try_gather(stream, bytes, limit.at_once()) } else { Ok(None) }
    }
}

/// Whether a request is for so much memory that it may wait.
fn is_much(bytes: u64, seen: &RangeState) -> bool {
    bytes > seen.reserved / AWAITED
}

/// How many bytes a range may reserve for a request before pages move.
fn enough(seen: &RangeState, bytes: u64) -> u64 {
    let due = seen.peak_live.max(seen.live.saturating_add(bytes));
    seen.exchanges.enough(seen.peak_live, due, seen.granule)
}
