//! Serves a request that finds no memory. It takes the reclaim steps in order, and makes the request again after each. Each step
//! does as little as necessary.
//!
//! A returned failure is true. The request is made again if memory was given back since its last attempt, or was on its way and
//! could not be found. So, at the end, there was a moment at which all the missing memory was in use.

mod graphs;
mod outlast;

use std::time::{Duration, Instant};

use super::handlers::{self, Pressure};
use super::limits;
use super::reclaim::{self, Holder, Idle, Releaser};
use super::request::{Ask, Asked, Seen, seen, seen_after};
use super::steps::{ReclaimStats, ReclaimStep};
use super::transit;
use crate::base::amounts::add;
use crate::base::error::{Error, Result};
use crate::base::held::assert_nothing_held;
#[cfg(feature = "tracing")]
use crate::base::subscriber::{self, TARGET};
use crate::device::{process, softly};
use crate::range::{DeviceRange, WaitFor, await_elsewhere, devices_but, give_back_elsewhere};

/// How often a request is made again while others give memory back, each time too late. If this many threads are in need at once,
/// one of them may get an error that another attempt would have avoided. The number was chosen, not measured.
const MOST_ATTEMPTS: u32 = 64;
/// A scope is asked for at least this much at a time. This is a page, since less frees no page.
const LEAST: u64 = 2 << 20;
/// The first and the longest pause of a request that waits for other threads. Each pause is twice as long as the one before. With
/// 500 looks in a second, dropped memory is found at most 2 ms late.
const FIRST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);
/// The steps that take only idle memory and make nobody wait. They come before a soft limit is exceeded.
const IDLE_ALONE: &[ReclaimStep] = ReclaimStep::ALL.split_at(3).0;
/// The steps that are taken again while the request waits for other threads. It does not wait for work then, since that may take
/// longer.
const WHILE_OTHERS_WORK: [ReclaimStep; 7] = [
    ReclaimStep::Pages,
    ReclaimStep::OtherScopes,
    ReclaimStep::OwnScope,
    ReclaimStep::OtherStreams,
    ReclaimStep::Offload,
    ReclaimStep::Graphs,
    ReclaimStep::Arenas,
];
/// The steps that are taken again after a handler ran.
const AFTER_HANDLER: &[ReclaimStep] = ReclaimStep::ALL.split_at(8).0;

/// Makes a request that may find no memory, and takes the reclaim steps until it is served. A request that nothing can serve fails
/// at once, and takes memory from nobody. `frees` is the range's count of frees before the request; 0 if the count is unknown,
/// since reading it may have to wait.
pub(crate) fn insist<A: Ask>(asked: Asked<'_>, frees: u64, ask: &A) -> Result<A::Memory> {
    assert_nothing_held();
    let (memory, seen) = (asked.stream.memory(), seen(asked.stream, frees, 0));
    let reclaim =
        |error| Reclaim { asked, ask, seen, error, counts: ReclaimStats::default(), step: ReclaimStep::Pages };
    if memory.meter().soft_limit() < u64::MAX && asked.bytes <= memory.most() {
        let served = match softly(|| ask.ask(&asked, false)) {
            Err(error) if error.is_shortage() => reclaim(error).run_softly()?,
            answer => Some(answer?),
        };
        if let Some(served) = served {
            return Ok(served);
        }
    }
    match ask.ask(&asked, false) {
        Err(error) if error.is_shortage() => reclaim(with_own_limit(error, &asked)).run(),
        answer => answer,
    }
}

/// If a request exceeds the device's limit, its error names that limit, even if the limit of the process was met first.
fn with_own_limit(error: Error, asked: &Asked<'_>) -> Error {
    let is_other = error.is_of_process() && !error.is_beyond_all(asked.bytes);
    let own = if is_other { asked.stream.meter().beyond(asked.bytes) } else { None };
    own.unwrap_or(error)
}

/// A request for which the device did not have enough memory.
struct Reclaim<'a, A: Ask> {
    asked: Asked<'a>,
    ask: &'a A,
    /// The counts at the last attempt with all free memory.
    seen: Seen,
    /// The error of the last attempt.
    error: Error,
    /// The counts of this request so far.
    counts: ReclaimStats,
    /// The step that gets the credit if the request is served now.
    step: ReclaimStep,
}

impl<A: Ask> Reclaim<'_, A> {
    #[cold]
    fn run(mut self) -> Result<A::Memory> {
        let bytes = self.asked.bytes;
        // The range needs whole pages, which may be more than a limit or a device has.
        let most = self.asked.stream.memory().most();
        let is_vain = self.error.is_beyond_all(bytes) || bytes > most || self.ask.needs(&self.asked) > most;
        let served = if is_vain { Ok(None) } else { self.take_everything() };
        match &served {
            Ok(Some(_)) => self.counts.step_mut(self.step).served = 1,
            _ => self.counts.failed = 1,
        }
        self.count();
        served?.ok_or_else(|| self.asked.refused(self.error))
    }

    /// Takes the steps that keep the reserved memory within the soft limit. `None` if idle memory does not suffice for that.
    #[cold]
    fn run_softly(mut self) -> Result<Option<A::Memory>> {
        let served = softly(|| self.take_all(IDLE_ALONE))?;
        match served {
            Some(_) => self.counts.step_mut(self.step).served = 1,
            None => self.counts.beyond_soft = 1,
        }
        self.count();
        Ok(served)
    }

    /// Counts the request for the requesting scope and for the device.
    fn count(&self) {
        let Reclaim { asked: Asked { stream, holder, .. }, counts, .. } = self;
        let is_limited = stream.meter().limit() < u64::MAX || process::limit() < u64::MAX;
        holder.iter().for_each(|holder| holder.count_reclaim(counts, is_limited));
        limits::account(stream.memory(), |account| account.reclaim.add(counts));
        #[cfg(feature = "tracing")]
        self.tell();
    }

    /// Tells a subscriber of `tracing`, once no lock is held.
    #[cfg(feature = "tracing")]
    fn tell(&self) {
        let Reclaim { asked: Asked { stream, bytes, holder, .. }, counts, .. } = self;
        let served_by = match (counts.failed, counts.beyond_soft) {
            (0, 0) => self.step.name(),
            (0, _) => "none, beyond the soft limit",
            _ => "none",
        };
        let (name, gave) = (holder.and_then(|holder| holder.name()), counts.gave());
        let (scope, device, freed_bytes) = (name.as_deref(), stream.memory_id(), counts.freed_bytes());
        let tell =
            || tracing::debug!(target: TARGET, scope, device, bytes, served_by, gave, freed_bytes, "memory reclaim");
        subscriber::tell(tell);
    }

    /// Begins a reclaim with these steps.
    fn take_all(&mut self, steps: &[ReclaimStep]) -> Result<Option<A::Memory>> {
        reclaim::tick();
        self.take(steps)
    }

    /// Takes these steps, one after the other, until one serves the request.
    fn take(&mut self, steps: &[ReclaimStep]) -> Result<Option<A::Memory>> {
        for &step in steps {
            if let Some(memory) = self.take_step(step)? {
                return Ok(Some(memory));
            }
        }
        Ok(None)
    }

    fn reach(&mut self, step: ReclaimStep) {
        self.step = step;
        self.counts.step_mut(step).tried = 1;
    }

    fn take_step(&mut self, step: ReclaimStep) -> Result<Option<A::Memory>> {
        // If waiting for other threads or a handler made the request succeed, that step gets the credit. Both count themselves.
        if !matches!(self.step, ReclaimStep::OtherThreads | ReclaimStep::Handlers)
            && !matches!(step, ReclaimStep::OtherThreads | ReclaimStep::Handlers)
        {
            self.reach(step);
        }
        let Asked { stream, holder, .. } = self.asked;
        match step {
            ReclaimStep::Pages => self.ask.ask_for_free(&self.asked),
            ReclaimStep::OtherScopes => match self.release(step, reclaim::by_age(Some(stream.memory_id()), holder))? {
                None if self.error.is_of_process() => self.release_elsewhere(),
                served => Ok(served),
            },
            ReclaimStep::OwnScope => self.release(step, holder),
            // A range has memory that other streams still use, and gives it to a request that insists.
            ReclaimStep::OtherStreams => self.retry(WaitFor::Nothing, DeviceRange::of(stream).is_some()),
            ReclaimStep::PendingWork => self.await_pending(),
            ReclaimStep::Offload => self.spill(),
            ReclaimStep::Graphs => self.give_up_graphs(),
            ReclaimStep::Arenas => match self.revoke()? {
                // What the arenas had may suffice together with what graphs have.
                None => self.drop_graphs(),
                served => Ok(served),
            },
            ReclaimStep::OtherThreads => self.wait(),
            ReclaimStep::Handlers => self.call_handlers(),
        }
    }

    /// Makes scopes give idle memory back, one after the other, until the free memory suffices. The first amount is the missing
    /// memory. If the free memory lies apart, each further amount is twice as large, so that few questions empty a scope.
    fn release(
        &mut self,
        step: ReclaimStep,
        holders: impl IntoIterator<Item = &'static dyn Holder>,
    ) -> Result<Option<A::Memory>> {
        let (mut freed, mut least) = (0, LEAST);
        for holder in holders {
            loop {
                let bytes = holder.release_some(
                    self.asked.bytes.saturating_sub(freed).max(least),
                    Releaser::Request(self.asked.holder),
                );
                if bytes == 0 {
                    break;
                }
                self.freed(step, bytes);
                add(&mut freed, bytes);
                if let Some(memory) = self.ask.ask_for_free(&self.asked)? {
                    return Ok(Some(memory));
                }
                least = if freed < self.asked.bytes { least } else { least.saturating_mul(2) };
            }
        }
        Ok(None)
    }

    fn freed(&mut self, step: ReclaimStep, bytes: u64) {
        add(&mut self.counts.step_mut(step).freed_bytes, bytes);
    }

    /// Makes other devices give their idle memory back, if the process has reached its limit over all devices: first free pages,
    /// then idle memory of scopes, one after the other.
    fn release_elsewhere(&mut self) -> Result<Option<A::Memory>> {
        let Asked { stream, bytes, .. } = self.asked;
        let mut enough = bytes.max(LEAST);
        let devices: Vec<u64> = devices_but(stream.memory_id()).collect();
        let is_elsewhere = |holder: &&dyn Holder| devices.iter().any(|&device| holder.serves(device));
        let mut holders = reclaim::by_age(None, None).into_iter().filter(is_elsewhere).peekable();
        loop {
            if give_back_elsewhere(stream.memory_id(), bytes) > 0
                && let Some(memory) = self.ask.ask_for_free(&self.asked)?
            {
                return Ok(Some(memory));
            }
            let Some(holder) = holders.peek() else { return Ok(None) };
            // One holder is asked again and again, since what it frees first may be no whole page.
            let freed = holder.release_some(enough, Releaser::Request(self.asked.holder));
            self.freed(ReclaimStep::OtherScopes, freed);
            match freed {
                0 => drop(holders.next()),
                _ => enough = enough.saturating_mul(2),
            }
        }
    }

    /// Makes the request again if memory was given back since the last attempt, or if there may be memory that was not asked for.
    fn retry(&mut self, wait_for: WaitFor, may_be: bool) -> Result<Option<A::Memory>> {
        let stream = self.asked.stream;
        // Counted first: memory that others give back during this attempt may come too late for it.
        let before = std::mem::replace(&mut self.seen, seen_after(&self.error, stream));
        let is_more = self.trim(wait_for)? > 0;
        let is_worth = stream.release_reserve()? || is_more || self.seen != before || may_be;
        if !is_worth {
            return Ok(None);
        }
        match self.ask.ask(&self.asked, true) {
            Err(error) if error.is_shortage() => {
                self.error = error;
                Ok(None)
            }
            answer => answer.map(Some),
        }
    }

    /// Gives free pages back to the device. If the limit of the process was met, other devices do so too.
    fn trim(&self, wait_for: WaitFor) -> Result<u64> {
        let Asked { stream, bytes, .. } = self.asked;
        let own = DeviceRange::of(stream).map_or(Ok(0), |range| range.give_all_back(wait_for))?;
        let lacks = if self.error.is_of_process() { bytes.saturating_sub(own) } else { 0 };
        Ok(own.saturating_add(await_elsewhere(stream.memory_id(), lacks, wait_for)))
    }

    /// How many bytes of arrays have to leave, since each leaves by a copy. This is what the device is known to lack. If nothing is
    /// known, it is the whole request.
    fn missing(&self) -> u64 {
        let (stream, bytes) = (self.asked.stream, self.asked.bytes);
        let room = stream.memory().most().saturating_sub(stream.meter().held());
        let idle = DeviceRange::of(stream).map_or(0, DeviceRange::idle_bytes);
        if room < bytes { (bytes - room).saturating_sub(idle) } else { bytes }
    }

    /// Moves arrays to host memory until the free memory suffices, or no more arrays can leave.
    fn spill(&mut self) -> Result<Option<A::Memory>> {
        let mut bytes = self.missing().max(LEAST);
        // Other threads may fetch the arrays again each time.
        for _ in 0..MOST_ATTEMPTS {
            let freed = reclaim::spill(self.asked.stream.memory(), bytes)?;
            if freed == 0 {
                break;
            }
            self.freed(ReclaimStep::Offload, freed);
            let served = match self.ask.ask_for_free(&self.asked)? {
                // The copies may still be under way.
                None => self.retry(WaitFor::AnyWork, true)?,
                served => served,
            };
            if served.is_some() {
                return Ok(served);
            }
            bytes = bytes.saturating_mul(2);
        }
        Ok(None)
    }

    /// Makes the request again after arenas were taken away, and whenever others gave memory back, until the memory suffices.
    fn revoke(&mut self) -> Result<Option<A::Memory>> {
        let device = Some(self.asked.stream.memory_id()).filter(|_| !self.error.is_of_process());
        let _in_need = transit::take_blocks(device);
        let mut patience = transit::PATIENCE;
        for _ in 0..MOST_ATTEMPTS {
            let Some(wait_for) = self.found() else { break };
            transit::wait(&mut patience);
            if let Some(memory) = self.retry(wait_for, false)? {
                return Ok(Some(memory));
            }
        }
        Ok(None)
    }

    /// Looks for memory for another attempt, and says how long that attempt waits. Memory that became idle meanwhile goes back
    /// first. Only then are arenas taken away, on which their threads may still have work.
    fn found(&self) -> Option<WaitFor> {
        let stream = self.asked.stream;
        let own = stream.memory_id();
        let elsewhere = devices_but(own).filter(|_| self.error.is_of_process());
        for device in std::iter::once(own).chain(elsewhere) {
            if reclaim::release_idle(Idle::All, device, u64::MAX, Releaser::Request(self.asked.holder)) > 0 {
                return Some(WaitFor::Nothing);
            }
            if reclaim::revoke(device, self.asked.bytes) > 0 {
                return Some(WaitFor::AnyWork);
            }
        }
        let is_on_its_way = !transit::is_still() || seen_after(&self.error, stream) != self.seen;
        is_on_its_way.then_some(WaitFor::Nothing)
    }

    /// Waits for other threads to drop arrays, up to the allocation timeout, and looks again and again.
    fn wait(&mut self) -> Result<Option<A::Memory>> {
        let most = limits::account(self.asked.stream.memory(), |account| account.allocation_timeout);
        let (start, mut pause) = (Instant::now(), FIRST_PAUSE);
        while !most.is_zero() {
            let left = most.saturating_sub(start.elapsed());
            std::thread::sleep(pause.min(left));
            if left.is_zero() {
                break;
            }
            self.reach(ReclaimStep::OtherThreads);
            if let Some(memory) = self.take(&WHILE_OTHERS_WORK)? {
                return Ok(Some(memory));
            }
            pause = LONGEST_PAUSE.min(2 * pause);
        }
        Ok(None)
    }

    /// Calls the handlers of the program, and looks again after each.
    fn call_handlers(&mut self) -> Result<Option<A::Memory>> {
        let Asked { stream, bytes, dims, holder } = self.asked;
        for handler in handlers::of(stream) {
            self.reach(ReclaimStep::Handlers);
            let scope = holder.and_then(|holder| holder.name());
            handler.call(&Pressure { bytes, shape: dims, scope, freed_bytes: self.counts.freed_bytes() });
            if let Some(memory) = self.take(AFTER_HANDLER)? {
                return Ok(Some(memory));
            }
        }
        Ok(None)
    }
}
