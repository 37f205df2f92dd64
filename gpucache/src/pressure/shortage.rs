//! What a thread does when the device has not enough memory for it, step by step: what is idle goes back, and the range's free
//! pages to where they are needed; then the blocks of plans that other threads are inside of, while nothing in them is
//! alive.
//!
//! A failure is a true one: whatever was given back since the call was made, or was on its way so that it could not be found,
//! has it made again. So there was a moment, at the end, at which all that was missing was in use.

use super::reclaim::{self, Idle};
use super::transit::{self, InNeed};
use crate::base::error::{Error, Result};
use crate::device::Stream;
use crate::range::{DeviceRange, Patience};

/// How often it is made again while others give memory back, each time too late: with so many threads in need at once one of them
/// still gets an error that another attempt would have spared it.
const MOST_ATTEMPTS: u32 = 64;

/// Makes a call for so many bytes that may run out of memory, and makes it again, with `true`, once everything idle went back
/// to the device, by this thread or by another one in need meanwhile, and the device gave back what it keeps for itself.
/// Waits for the work that uses free pages only if that was not enough. The range had freed something `frees` times before; 0
/// if that is not known, as to ask may have to wait.
pub(crate) fn insist<R>(stream: &Stream, bytes: u64, frees: u64, call: impl Fn(bool) -> Result<R>) -> Result<R> {
    let mut need = Need { stream, bytes, seen: Seen::with(frees), call };
    let mut answer = (need.call)(false);
    if is_short(&answer) {
        need.release_idle();
        // A range has what other streams still use, which it gives to whoever insists.
        answer = need.retry(answer, Patience::None, DeviceRange::of(stream).is_some());
    }
    if is_short(&answer) {
        answer = need.retry(answer, Patience::Some, false);
    }
    if is_short(&answer) {
        answer = need.revoke(answer);
    }
    answer
}

fn is_short<R>(answer: &Result<R>) -> bool {
    answer.as_ref().is_err_and(Error::is_out_of_memory)
}

/// How often memory was given back to the device, to the range, or found its place there.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    releases: u64,
    frees: u64,
    arrivals: u64,
}

impl Seen {
    fn now(stream: &Stream) -> Seen {
        Seen::with(DeviceRange::of(stream).map_or(0, |range| range.occupancy().frees))
    }

    fn with(frees: u64) -> Seen {
        Seen { releases: reclaim::releases(), frees, arrivals: transit::arrivals() }
    }
}

/// A call for which the device had not enough memory.
struct Need<'a, C> {
    stream: &'a Stream,
    bytes: u64,
    /// When it was made last.
    seen: Seen,
    call: C,
}

impl<C> Need<'_, C> {
    /// Gives idle memory back, except where another thread is inside a scope.
    fn release_idle(&self) -> u64 {
        reclaim::release_idle(Idle::All, self.stream.memory_id(), u64::MAX)
    }

    /// Makes the call again if memory was given back since it was made last, or there may be some that was not asked for.
    fn retry<R>(&mut self, answer: Result<R>, patience: Patience, may_be: bool) -> Result<R>
    where
        C: Fn(bool) -> Result<R>,
    {
        // First: what others give back while this is under way may be too late for it.
        let before = std::mem::replace(&mut self.seen, Seen::now(self.stream));
        let trimmed = DeviceRange::of(self.stream).map_or(Ok(0), |range| {
            range.end_epochs()?;
            range.trim(0, patience)
        })?;
        let is_worth = self.stream.release_reserve()? || trimmed > 0 || self.seen != before || may_be;
        if is_worth { (self.call)(true) } else { answer }
    }

    /// Makes the call again after arenas were taken away, and whenever others gave memory back, until that is enough.
    fn revoke<R>(&mut self, mut answer: Result<R>) -> Result<R>
    where
        C: Fn(bool) -> Result<R>,
    {
        let _in_need = InNeed::begin();
        for _ in 0..MOST_ATTEMPTS {
            let patience = match self.found() {
                Found::Nothing => break,
                // The thread that had the arena may have work on it still.
                Found::Arenas => Patience::Some,
                Found::Idle | Found::OnItsWay => Patience::None,
            };
            transit::wait();
            answer = self.retry(answer, patience, false);
            if !is_short(&answer) {
                break;
            }
        }
        answer
    }

    /// What there is for another attempt: what is idle goes back first, and only then are arenas taken away.
    fn found(&self) -> Found {
        if self.release_idle() > 0 {
            Found::Idle
        } else if reclaim::revoke(self.stream.memory_id(), self.bytes) > 0 {
            Found::Arenas
        } else if !transit::is_still() || Seen::now(self.stream) != self.seen {
            Found::OnItsWay
        } else {
            Found::Nothing
        }
    }
}

/// What another attempt may find.
enum Found {
    /// Idle memory went back.
    Idle,
    /// Arenas were taken away from threads that are inside.
    Arenas,
    /// Others gave memory back, or are about to.
    OnItsWay,
    Nothing,
}
