//! The last resort before an error: waits for long work, if enough memory is free but for that work.
//!
//! The reclaim steps wait for a quarter of a second only, because a stream may in turn wait for the calling thread. But work may take
//! longer, and a program that gets an error loses more than time. PyTorch, for example, waits for the whole device before it gives up.

use std::time::{Duration, Instant};

use super::{LONGEST_PAUSE, Reclaim};
use crate::base::error::Result;
use crate::pressure::request::Ask;
use crate::pressure::steps::ReclaimStep;
use crate::range::DeviceRange;

/// The longest wait for work. It is longer than the steps of large models. A stream that waits for the calling thread delays the error by
/// as much.
const LONGEST: Duration = Duration::from_secs(10);
/// The steps that find memory whose work is done.
const AFTER_WORK: [ReclaimStep; 2] = [ReclaimStep::Pages, ReclaimStep::OtherStreams];

impl<A: Ask> Reclaim<'_, A> {
    /// Takes all steps, and then waits for long work.
    pub(super) fn take_everything(&mut self) -> Result<Option<A::Memory>> {
        match self.take_all(&ReclaimStep::ALL)? {
            None => self.outlast(),
            served => Ok(served),
        }
    }

    /// Makes the request again once the work is done that is under way now.
    fn outlast(&mut self) -> Result<Option<A::Memory>> {
        let Some(range) = DeviceRange::of(self.asked.stream) else { return Ok(None) };
        let suffices = || range.idle_bytes() >= self.asked.bytes;
        let work = range.under_way()?;
        if !work.is_any() || !suffices() {
            return Ok(None);
        }
        let start = Instant::now();
        while suffices() && !range.is_over(&work)? {
            if start.elapsed() >= LONGEST {
                return Ok(None);
            }
            std::thread::sleep(LONGEST_PAUSE);
        }
        self.take(&AFTER_WORK)
    }
}
