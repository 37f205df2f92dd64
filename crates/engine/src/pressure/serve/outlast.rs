//! Waits for work that uses free memory. A reclaim step waits for short work. The last resort before an error waits for long work, if the
//! request could be served but for that work.
//!
//! The reclaim step waits for a quarter of a second only, because a stream may in turn wait for the calling thread. But work may take
//! longer, and a program that gets an error loses more than time. PyTorch, for example, waits for the whole device before it gives up.
//!
//! The wait is for the work of one moment. Work for which a request waited in vain is not waited for again, so a search for the largest
//! possible allocation waits once.

use std::time::Instant;

use super::{LONGEST_PAUSE, Reclaim, WHILE_OTHERS_WORK};
use crate::base::error::Result;
use crate::device::relaxed;
use crate::pressure::request::{Ask, Seen, seen_after};
use crate::pressure::steps::ReclaimStep;
use crate::range::{DeviceRange, LONGEST, UnderWay, WaitFor};

/// After so many looks without news, the request is made again all the same, every 64 ms: a block that another thread returned to a scope
/// is no news.
const LOOKS: u32 = 32;
/// The steps that find memory whose work is done, or that others gave back. The others would take memory from threads that use it soon.
const MEANWHILE: [ReclaimStep; 4] =
    [ReclaimStep::Pages, ReclaimStep::OtherScopes, ReclaimStep::OwnScope, ReclaimStep::OtherStreams];

impl<'a, A: Ask> Reclaim<'a, A> {
    /// Takes all steps, and then waits for long work.
    pub(super) fn take_everything(&mut self) -> Result<Option<A::Memory>> {
        match self.take_all(&ReclaimStep::ALL)? {
            // A capture would stay open for as long.
            None if !self.asked.stream.is_capturing() => relaxed(|| self.outlast()),
            served => Ok(served),
        }
    }

    /// Waits for short work. The trim waits for work that uses whole pages. Smaller parts are free once a mark behind unknown work is
    /// reached, which is soon if nothing else runs.
    pub(super) fn await_pending(&mut self) -> Result<Option<A::Memory>> {
        match self.retry(WaitFor::AnyWork, false)? {
            None if !self.asked.stream.is_capturing() => relaxed(|| self.await_parts()),
            served => Ok(served),
        }
    }

    fn await_parts(&mut self) -> Result<Option<A::Memory>> {
        let Some(range) = self.range_without_work() else { return Ok(None) };
        let work = range.under_way()?;
        if !range.is_over(&work)? {
            std::thread::sleep(LONGEST_PAUSE);
        }
        self.retry(WaitFor::Nothing, range.is_over(&work)?)
    }

    /// The range of the device, if it could serve the request once all work is done.
    fn range_without_work(&self) -> Option<&'a DeviceRange> {
        DeviceRange::of(self.asked.stream).filter(|range| range.could_serve(self.asked.bytes))
    }

    /// Waits for the work that is under way, if the request could be served without it. Then makes the request again.
    fn outlast(&mut self) -> Result<Option<A::Memory>> {
        let Some(range) = self.range_without_work() else { return Ok(None) };
        let work = range.under_way()?;
        self.reach(ReclaimStep::PendingWork);
        if !work.is_any() {
            // It has ended since the last attempt.
            return self.retry(WaitFor::Nothing, true);
        }
        match self.await_work(range, &work)? {
            None => self.take(&WHILE_OTHERS_WORK),
            served => Ok(served),
        }
    }

    /// Waits until the work is done. Makes the request again whenever memory was given back meanwhile.
    fn await_work(&mut self, range: &DeviceRange, work: &UnderWay) -> Result<Option<A::Memory>> {
        let (start, mut before, mut looks) = (Instant::now(), self.news(range), 0);
        while !range.is_over(work)? {
            if start.elapsed() >= LONGEST {
                range.give_up_on(work);
                break;
            }
            std::thread::sleep(LONGEST_PAUSE);
            let now = self.news(range);
            looks += 1;
            if std::mem::replace(&mut before, now) == now && looks % LOOKS != 0 {
                continue;
            }
            if let Some(memory) = self.take(&MEANWHILE)? {
                return Ok(Some(memory));
            }
        }
        Ok(None)
    }

    /// Counts that change if memory was given back, or if a limit was raised.
    fn news(&self, range: &DeviceRange) -> (Seen, u64) {
        (seen_after(&self.error, self.asked.stream), range.occupancy().room)
    }
}
