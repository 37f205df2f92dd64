//! What a thread does on each rung of the ladder when the device has not enough memory for it: the least that suffices, and
//! after each step it asks again.
//!
//! A failure is a true one: whatever was given back since the call was made, or was on its way so that it could not be found,
//! has it made again. So there was a moment, at the end, at which all that was missing was in use.

use super::age;
use super::ask::{Ask, Asked};
use super::handlers::{self, Need};
use super::ladder::Rung;
use super::patience::Pauses;
use super::reclaim::{self, Holder, Idle};
use super::spill;
use super::survey;
use super::tally::Tally;
use super::transit::{self, InNeed, Needy};
use crate::base::amounts::add;
use crate::base::error::{Error, Result};
use crate::base::held::assert_nothing_held;
use crate::device::{Stream, process, softly};
use crate::range::{DeviceRange, Patience, await_elsewhere, devices_but, give_back_elsewhere};

/// How often it is made again while others give memory back, each time too late: with so many threads in need at once one of them
/// still gets an error that another attempt would have spared it.
const MOST_ATTEMPTS: u32 = 64;
/// A scope is asked for no less than this at a time, which is a page: to give back less frees none.
const LEAST: u64 = 2 << 20;

/// Makes a call that may run out of memory, and climbs the ladder then until it is served; a request that nothing can serve
/// fails at once, and takes nothing from anybody. The range had freed something
/// `frees` times before; 0 if that is not known, as to ask may have to wait.
pub(crate) fn insist<A: Ask>(asked: Asked<'_>, frees: u64, ask: &A) -> Result<A::Memory> {
    assert_nothing_held();
    let (seen, memory) = (Seen::with(frees, 0), asked.stream.memory());
    if memory.meter().soft_limit() < u64::MAX
        && asked.bytes <= memory.most()
        && let Some(memory) = insist_softly(asked, seen, ask)?
    {
        return Ok(memory);
    }
    let is_beyond = |error: &Error| error.is_beyond_all(asked.bytes) || asked.bytes > memory.most();
    match ask.ask(false).map_err(|error| with_own_limit(error, &asked)) {
        Err(error) if error.is_out_of_memory() && is_beyond(&error) => {
            Tally::default().end(&asked, None);
            Err(survey::told(error, &asked))
        }
        Err(error) if error.is_out_of_memory() => {
            Climb { asked, ask, seen, error, tally: Tally::default(), rung: Rung::Pages }.run()
        }
        answer => answer,
    }
}

/// The error of a request of more than the device's limit allows tells that limit, though the process's was met first.
fn with_own_limit(error: Error, asked: &Asked<'_>) -> Error {
    let is_other = error.is_of_process() && !error.is_beyond_all(asked.bytes);
    let own = if is_other { asked.stream.meter().beyond(asked.bytes) } else { None };
    own.unwrap_or(error)
}

/// As [`insist`], with no more held than the soft limit says. `None` if what is idle does not suffice for that.
fn insist_softly<A: Ask>(asked: Asked<'_>, seen: Seen, ask: &A) -> Result<Option<A::Memory>> {
    match softly(|| ask.ask(false)) {
        Err(error) if error.is_out_of_memory() => {
            Climb { asked, ask, seen, error, tally: Tally::default(), rung: Rung::Pages }.run_softly()
        }
        answer => answer.map(Some),
    }
}

/// How often memory was given back to the device, to the range, or found its place there.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    releases: u64,
    frees: u64,
    arrivals: u64,
    undone: u64,
}

impl Seen {
    fn with(frees: u64, undone: u64) -> Seen {
        Seen { releases: reclaim::releases(), frees, arrivals: transit::arrivals(), undone }
    }

    /// After a call met this error. What others had counted in and did not get matters where a limit was met alone: the
    /// device itself tells what it has, and refuses this thread too.
    fn after(error: &Error, stream: &Stream) -> Seen {
        let frees = DeviceRange::of(stream).map_or(0, |range| range.occupancy().frees);
        let undone = match error.is_of_limit() {
            true if error.is_of_process() => process::undone(),
            true => stream.meter().undone(),
            false => 0,
        };
        Seen::with(frees, undone)
    }
}

/// A call for which the device had not enough memory.
struct Climb<'a, A: Ask> {
    asked: Asked<'a>,
    ask: &'a A,
    /// When it was made last with all that is free.
    seen: Seen,
    /// What it met last.
    error: Error,
    tally: Tally,
    rung: Rung,
}

impl<A: Ask> Climb<'_, A> {
    #[cold]
    fn run(mut self) -> Result<A::Memory> {
        age::tick();
        let served = self.climb();
        match served {
            Ok(Some(served)) => {
                self.tally.end(&self.asked, Some(self.rung));
                Ok(served)
            }
            Ok(None) => {
                self.tally.end(&self.asked, None);
                Err(survey::told(self.error, &self.asked))
            }
            Err(error) => {
                self.tally.end(&self.asked, None);
                Err(error)
            }
        }
    }

    /// The rungs that take what is idle, and make nobody wait.
    #[cold]
    fn run_softly(mut self) -> Result<Option<A::Memory>> {
        age::tick();
        let mut served = None;
        for rung in [Rung::Pages, Rung::Others, Rung::Own] {
            if served.is_none() {
                served = softly(|| self.step(rung))?;
            }
        }
        match served {
            Some(_) => self.tally.end(&self.asked, Some(self.rung)),
            None => self.tally.end_beyond(&self.asked),
        }
        Ok(served)
    }

    /// Up the ladder, and up again as long as others are waited for, and whenever the program gave something up.
    fn climb(&mut self) -> Result<Option<A::Memory>> {
        let mut handlers = handlers::of(self.asked.stream);
        let mut pauses = Pauses::of(self.asked.stream.memory());
        loop {
            for rung in self.rungs() {
                if let Some(memory) = self.step(rung)? {
                    return Ok(Some(memory));
                }
            }
            if pauses.pause() {
                self.reach(Rung::Patience);
                continue;
            }
            let Some(handler) = handlers.next() else { return Ok(None) };
            self.reach(Rung::Handlers);
            let Asked { bytes, dims, holder, .. } = self.asked;
            let scope = holder.and_then(|holder| holder.name());
            handler.call(&Need { bytes, shape: dims, scope, freed_bytes: self.tally.freed_bytes() });
        }
    }

    /// Those that need nobody else. Who waits for other threads does not wait for work beside that, which may take longer.
    fn rungs(&self) -> impl Iterator<Item = Rung> + use<A> {
        let is_patient = self.rung == Rung::Patience;
        let alone = |rung: &Rung| !matches!(rung, Rung::Patience | Rung::Handlers);
        Rung::ALL.into_iter().filter(alone).filter(move |&rung| !(is_patient && rung == Rung::Waiting))
    }

    fn reach(&mut self, rung: Rung) {
        self.rung = rung;
        self.tally.tried(rung);
    }

    fn step(&mut self, rung: Rung) -> Result<Option<A::Memory>> {
        // What is served once others were waited for, or a handler ran, is their merit.
        if !matches!(self.rung, Rung::Patience | Rung::Handlers) {
            self.reach(rung);
        }
        let Asked { stream, holder, .. } = self.asked;
        match rung {
            Rung::Pages => self.ask.ask_for_free(),
            Rung::Own => self.release(rung, holder),
            Rung::Others => match self.release(rung, reclaim::by_age(stream.memory_id(), holder))? {
                None if self.error.is_of_process() => self.release_elsewhere(),
                served => Ok(served),
            },
            // A range has what other streams still use, which it gives to whoever insists.
            Rung::Streams => self.retry(Patience::None, DeviceRange::of(stream).is_some()),
            Rung::Waiting => self.retry(Patience::Some, false),
            Rung::Spill => self.spill(),
            Rung::Arenas => self.revoke(),
            Rung::Patience | Rung::Handlers => Ok(None),
        }
    }

    /// Has scopes give idle memory back, one after the other, until what is free is enough: what is missing at first, and where
    /// that lies apart twice as much each time, so that few questions empty a scope.
    fn release(
        &mut self,
        rung: Rung,
        holders: impl IntoIterator<Item = &'static dyn Holder>,
    ) -> Result<Option<A::Memory>> {
        let (mut freed, mut least) = (0, LEAST);
        for holder in holders {
            loop {
                let bytes = holder.release_some(self.asked.bytes.saturating_sub(freed).max(least));
                if bytes == 0 {
                    break;
                }
                self.tally.freed(rung, bytes);
                add(&mut freed, bytes);
                if let Some(memory) = self.ask.ask_for_free()? {
                    return Ok(Some(memory));
                }
                least = if freed < self.asked.bytes { least } else { least.saturating_mul(2) };
            }
        }
        Ok(None)
    }

    /// Has other devices have their idle memory back, where the process may not hold more of all of them: free pages first, then
    /// what scopes keep, one after the other.
    fn release_elsewhere(&mut self) -> Result<Option<A::Memory>> {
        let Asked { stream, bytes, .. } = self.asked;
        let mut holders = reclaim::all_by_age().into_iter();
        loop {
            if give_back_elsewhere(stream.memory_id(), bytes) > 0
                && let Some(memory) = self.ask.ask_for_free()?
            {
                return Ok(Some(memory));
            }
            let Some(holder) = holders.next() else { return Ok(None) };
            self.tally.freed(Rung::Others, holder.release_some(bytes.max(LEAST)));
        }
    }

    /// Makes the call again if memory was given back since it was made last, or there may be some that was not asked for.
    fn retry(&mut self, patience: Patience, may_be: bool) -> Result<Option<A::Memory>> {
        let stream = self.asked.stream;
        // First: what others give back while this is under way may be too late for it.
        let before = std::mem::replace(&mut self.seen, Seen::after(&self.error, stream));
        let is_more = self.trim(patience)? > 0;
        let is_worth = stream.release_reserve()? || is_more || self.seen != before || may_be;
        if is_worth { self.again() } else { Ok(None) }
    }

    /// Gives free pages back to the device; to others as well where the process may not hold more of all of them.
    fn trim(&self, patience: Patience) -> Result<u64> {
        let Asked { stream, bytes, .. } = self.asked;
        let own = DeviceRange::of(stream).map_or(Ok(0), |range| range.give_all_back(patience))?;
        let lacks = if self.error.is_of_process() { bytes.saturating_sub(own) } else { 0 };
        Ok(own.saturating_add(await_elsewhere(stream.memory_id(), lacks, patience)))
    }

    fn again(&mut self) -> Result<Option<A::Memory>> {
        match self.ask.ask(true) {
            Err(error) if error.is_out_of_memory() => {
                self.error = error;
                Ok(None)
            }
            answer => answer.map(Some),
        }
    }

    /// How many bytes have to leave, each by a copy, as far as the device is known to have the others; all of them if not.
    fn missing(&self) -> u64 {
        let (stream, bytes) = (self.asked.stream, self.asked.bytes);
        let room = stream.memory().most().saturating_sub(stream.meter().held());
        let idle = DeviceRange::of(stream)
            .map(DeviceRange::occupancy)
            .map_or(0, |range| range.reserved.saturating_sub(range.live));
        if room < bytes { (bytes - room).saturating_sub(idle) } else { bytes }
    }

    /// Has arrays leave for the host until what is free is enough, or none may leave any more.
    fn spill(&mut self) -> Result<Option<A::Memory>> {
        let (device, mut bytes) = (self.asked.stream.memory_id(), self.missing().max(LEAST));
        loop {
            let freed = spill::spill(device, bytes)?;
            if freed == 0 {
                return Ok(None);
            }
            self.tally.freed(Rung::Spill, freed);
            let served = match self.ask.ask_for_free()? {
                // The copies may be under way.
                None => self.retry(Patience::Some, true)?,
                served => served,
            };
            if served.is_some() {
                return Ok(served);
            }
            bytes = bytes.saturating_mul(2);
        }
    }

    /// Makes the call again after arenas were taken away, and whenever others gave memory back, until that is enough.
    fn revoke(&mut self) -> Result<Option<A::Memory>> {
        let short =
            if self.error.is_of_process() { Needy::EveryDevice } else { Needy::Device(self.asked.stream.memory_id()) };
        let _in_need = InNeed::begin(short);
        for _ in 0..MOST_ATTEMPTS {
            let patience = match self.found() {
                Found::Nothing => break,
                // The thread that had the arena may have work on it still.
                Found::Arenas => Patience::Some,
                Found::Idle | Found::OnItsWay => Patience::None,
            };
            transit::wait();
            if let Some(memory) = self.retry(patience, false)? {
                return Ok(Some(memory));
            }
        }
        Ok(None)
    }

    /// What there is for another attempt: what became idle meanwhile goes back first, and only then are arenas taken away.
    fn found(&self) -> Found {
        let stream = self.asked.stream;
        let own = stream.memory_id();
        let elsewhere = devices_but(own).filter(|_| self.error.is_of_process());
        if let Some(found) = std::iter::once(own).chain(elsewhere).find_map(|device| self.found_on(device)) {
            found
        } else if !transit::is_still() || Seen::after(&self.error, stream) != self.seen {
            Found::OnItsWay
        } else {
            Found::Nothing
        }
    }

    fn found_on(&self, device: u64) -> Option<Found> {
        if reclaim::release_idle(Idle::All, device, u64::MAX) > 0 {
            return Some(Found::Idle);
        }
        (reclaim::revoke(device, self.asked.bytes) > 0).then_some(Found::Arenas)
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
