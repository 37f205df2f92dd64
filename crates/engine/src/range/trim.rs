//! Pages that go back to the device, and the wait for work of which nobody tells, before pages go or move.
//!
//! Nobody waits while the range is locked, and nobody for longer than a quarter of a second.

use std::cell::Cell;
use std::sync::Arc;

use super::ordered::{Carve, Carved, Ordered, exhausted};
use super::shared::memories;
use super::wait::{LONG, WaitFor, poll};
use super::{DeviceRange, Range, RangeError};
use crate::base::error::Result;
use crate::device::{Memory, Source, Stream};
use crate::order::{Due, FreeMoment};

/// Kept of a device whose range a trim is to leave alone.
const EVERYTHING: u64 = u64::MAX;

/// Who keeps pages that a trim left, and can be waited for: streams, and work of which nobody tells, on memory that was freed until some
/// moment.
type Keepers = (bool, Option<FreeMoment>);

impl DeviceRange {
    /// Gives pages in which no block lies and that no work uses back to the device, as long as `keep` bytes stay reserved,
    /// and returns the bytes. With `wait_for` for the work that uses others it asks again and again, without the lock.
    ///
    /// # Errors
    /// A failure of the device, or of work on it.
    pub(crate) fn trim(&self, keep: u64, wait_for: WaitFor) -> Result<u64> {
        let mut bytes = 0;
        let is_done = poll(LONG, || {
            let (more, (is_of_streams, unknown)) = self.trim_settled(keep, wait_for)?;
            bytes += more;
            let is_done = match wait_for {
                WaitFor::Nothing => true,
                WaitFor::UnknownWork => unknown.is_none(),
                WaitFor::AnyWork => unknown.is_none() && !is_of_streams,
            };
            Ok(is_done.then_some(()))
        })?;
        match wait_for {
            _ if is_done.is_some() => {}
            WaitFor::Nothing | WaitFor::UnknownWork => self.inner().streams.unknown.give_up(),
            WaitFor::AnyWork => self.inner().streams.give_up(),
        }
        Ok(bytes)
    }

    /// Trims once, and once more if that shows that unknown work has kept pages and is done.
    fn trim_settled(&self, keep: u64, wait_for: WaitFor) -> Result<(u64, Keepers)> {
        let (bytes, (is_of_streams, unknown)) = self.trim_once(keep, wait_for)?;
        let Some(moment) = unknown else { return Ok((bytes, (is_of_streams, None))) };
        match self.settle_now(moment)? {
            Due::Nothing => self.trim_once(keep, wait_for).map(|(more, left)| (bytes + more, left)),
            Due::GiveUp => Ok((bytes, (is_of_streams, None))),
            Due::Wait | Due::Mark(..) => Ok((bytes, (is_of_streams, unknown))),
        }
    }

    fn trim_once(&self, keep: u64, wait_for: WaitFor) -> Result<(u64, Keepers)> {
        let inner = &mut *self.inner();
        inner.streams.retire();
        let stats = inner.range.stats;
        let keep = keep.max(stats.live);
        if !is_worth_asking(&inner.range, stats.reserved.saturating_sub(keep), wait_for) {
            return Ok((0, (false, None)));
        }
        inner.look()?;
        let Ordered { range, streams, .. } = inner;
        let (settled, is_unsettled) = (streams.unknown.settled(), Cell::new(false));
        let bytes = range.trim(keep, |tag| {
            let (is_idle, is_settled) = (streams.is_idle(tag), tag.freed() <= settled);
            is_unsettled.set(is_unsettled.get() || is_idle && !is_settled);
            is_idle && is_settled
        })?;
        let is_left = is_unsettled.get() && range.stats.reserved > keep;
        Ok((bytes, (streams.can_wait(), is_left.then(|| streams.unknown.now()))))
    }

    /// What `carve` makes of the range for `stream`, where pages may move. If work of which nobody tells may use them, it is waited for
    /// first, for a bounded time. A second attempt does without the pages that it may use then.
    ///
    /// # Errors
    /// A failure of the device; what that work met.
    pub(super) fn settling(&self, stream: &Stream, carve: &Carve<'_>) -> Result<Option<Carved>> {
        let attempt = |leaves_unsettled| {
            let inner = &mut *self.inner();
            inner.serve(stream);
            inner.look()?;
            match inner.carve(stream, leaves_unsettled, carve) {
                Ok(carved) => Ok(Some(carved)),
                Err(RangeError::Unsettled) => Ok(None),
                Err(RangeError::Pages(error)) => Err(error),
                Err(RangeError::Exhausted { bytes }) => Err(exhausted(bytes, &inner.range.pages)),
            }
        };
        if let Some(carved) = attempt(false)? {
            return Ok(carved);
        }
        self.settle()?;
        Ok(attempt(true)?.flatten())
    }

    /// Waits, for a bounded time, until no unknown work uses what is free now.
    fn settle(&self) -> Result<()> {
        let moment = self.inner().streams.unknown.now();
        let is_over = poll(LONG, || Ok((!matches!(self.settle_now(moment)?, Due::Wait)).then_some(())))?;
        if is_over.is_none() {
            self.inner().streams.unknown.give_up();
        }
        Ok(())
    }

    /// What is due for unknown work that may use what was freed until `moment`, once a mark was put where that was due: never a mark.
    fn settle_now(&self, moment: FreeMoment) -> Result<Due> {
        let due = self.inner().streams.unknown.due(moment)?;
        let Due::Mark(work, marked) = due else { return Ok(due) };
        // Without the lock, as handles of streams may end in this.
        let Some(is_reached) = work.mark()? else { return Ok(Due::GiveUp) };
        let inner = &mut *self.inner();
        inner.streams.unknown.marked(marked, is_reached);
        let is_done = matches!(inner.streams.unknown.due(moment)?, Due::Nothing);
        Ok(if is_done { Due::Nothing } else { Due::Wait })
    }
}

/// Whether a trim by so many bytes at most asks how far work is. That takes an event, and a scope looks at the range after warm entries.
/// Who waits for work may also want memory that is no whole page.
fn is_worth_asking(range: &Range<Source>, bytes: u64, wait_for: WaitFor) -> bool {
    bytes > 0 && (wait_for != WaitFor::Nothing || range.has_free_handle(bytes))
}

/// Gives free pages of every device's range back, as long as what `keep` says of the device stays reserved. A failure is
/// kept for the next call on that range; not where nobody waits, as in a drop within a callback of the driver, which
/// refuses all calls there: the pages stay for the next trim, which meets what is wrong as well.
///
/// Returns the devices that nobody else has by now. Their destructors may be code of the program: the caller drops them where it holds
/// no lock.
pub(crate) fn trim_all(keep: impl Fn(u64) -> u64, wait_for: WaitFor) -> Vec<Arc<Memory>> {
    let mut ended = Vec::new();
    // Not under the lock of the list, as this may take some time.
    for memory in memories() {
        let keep = keep(memory.id());
        // Nor under a lock of devices that keep everything.
        if keep < EVERYTHING
            && let Some(range) = memory.known_range::<DeviceRange>()
            && let Err(error) = range.trim(keep, wait_for)
            && wait_for == WaitFor::AnyWork
        {
            range.inner().failure.get_or_insert(error);
        }
        if Arc::strong_count(&memory) == 1 {
            ended.push(memory);
        }
    }
    ended
}
