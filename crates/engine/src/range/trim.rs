//! Pages that are returned to the device, and the wait for unknown work before pages are unmapped or moved.
//!
//! *Unknown work* is work on streams of which this crate is not told. No thread waits while the range is locked, and none waits for longer
//! than a quarter of a second.

use std::cell::Cell;
use std::sync::Arc;

use super::ordered::{Carve, Carved, Ordered};
use super::wait::{LONG, WaitFor, poll};
use super::{DeviceRange, Range, RangeError};
use crate::base::error::Result;
use crate::device::{Memory, Source, Stream};
use crate::order::{Due, FreeMoment};

/// The work that keeps pages mapped after a trim, and that a thread can wait for. The first value says whether work of streams does. The
/// second is the moment up to which memory was freed that unknown work may use.
type Keepers = (bool, Option<FreeMoment>);

impl DeviceRange {
    /// Unmaps pages that contain no block and that no work uses, as long as `keep` bytes stay reserved. Returns the bytes. `wait_for` says
    /// for which work it waits; it then tries repeatedly, without the lock between attempts.
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

    /// Trims once. If unknown work has kept pages and is found to be done, it trims once more.
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

    /// Runs `carve` on the range for `stream`, in which pages may move. If unknown work may use these pages, this first waits for it, for a
    /// limited time. A second attempt then leaves out pages that unknown work may still use.
    ///
    /// # Errors
    /// A failure of the device, or an error of that work.
    pub(super) fn settling(&self, stream: &Stream, carve: &Carve<'_>) -> Result<Option<Carved>> {
        let attempt = |leaves_unsettled| {
            let inner = &mut *self.inner();
            inner.serve(stream);
            inner.look()?;
            match inner.carve(stream, leaves_unsettled, carve) {
                Ok(carved) => Ok(Some(carved)),
                Err(RangeError::Unsettled) => Ok(None),
                Err(RangeError::Pages(error)) => Err(error),
            }
        };
        if let Some(carved) = attempt(false)? {
            return Ok(carved);
        }
        self.settle()?;
        Ok(attempt(true)?.flatten())
    }

    /// Waits, for a limited time, until no unknown work uses memory that is free now.
    fn settle(&self) -> Result<()> {
        let moment = self.inner().streams.unknown.now();
        let is_over = poll(LONG, || Ok((!matches!(self.settle_now(moment)?, Due::Wait)).then_some(())))?;
        if is_over.is_none() {
            self.inner().streams.unknown.give_up();
        }
        Ok(())
    }

    /// Sets a mark behind all present work of the device, if memory was freed since the last mark. It does not wait.
    pub(super) fn mark_now(&self) -> Result<()> {
        let moment = self.inner().streams.unknown.now();
        self.settle_now(moment).map(|_| ())
    }

    /// The next step for unknown work that may use memory freed up to `moment`. If a mark is due, this sets it, so it never returns
    /// [`Due::Mark`].
    fn settle_now(&self, moment: FreeMoment) -> Result<Due> {
        let due = self.inner().streams.unknown.due(moment)?;
        let Due::Mark(work, marked) = due else { return Ok(due) };
        // Not under the lock, since this may drop handles of streams.
        let Some(is_reached) = work.mark()? else { return Ok(Due::GiveUp) };
        let inner = &mut *self.inner();
        inner.streams.unknown.marked(marked, is_reached);
        let is_done = matches!(inner.streams.unknown.due(moment)?, Due::Nothing);
        Ok(if is_done { Due::Nothing } else { Due::Wait })
    }
}

/// Whether a trim of at most `bytes` bytes is worth asking streams how far they are. The question costs an event, and a scope trims the
/// range even after warm entries. A caller who waits for work may also want memory of less than a page.
fn is_worth_asking(range: &Range<Source>, bytes: u64, wait_for: WaitFor) -> bool {
    bytes > 0 && (wait_for != WaitFor::Nothing || range.has_free_handle(bytes))
}

/// Unmaps free pages of every device's range, as long as `keep` bytes of the device stay reserved. Where `keep` returns `None`, the range is
/// not locked at all. A failure is kept for the next call on that range, but only if the trim waits for work. A trim that does not wait may
/// run in a drop within a callback of the driver, which refuses all calls there. The pages then stay for the next trim, which meets the same
/// failure if it persists.
///
/// Returns the devices that nobody else refers to any more. Their destructors may be code of the program, so the caller must drop them
/// while it holds no lock.
pub(crate) fn trim_all(keep: impl Fn(u64) -> Option<u64>, wait_for: WaitFor) -> Vec<Memory> {
    let mut ended = Vec::new();
    for memory in Memory::every() {
        if let Some(keep) = keep(memory.id())
            && let Some(range) = memory.known_range::<DeviceRange>()
            && let Err(error) = range.trim(keep, wait_for)
            && wait_for == WaitFor::AnyWork
        {
            range.inner().range.pages.failure.get_or_insert(error);
        }
        // A look at the count of handles would not do: another thread may drop its handle behind that look.
        ended.extend(Arc::into_inner(memory));
    }
    ended
}
