//! What a cache tells of itself to whoever asks, and what it notes for the diagnosis of its scope.
//!
//! All of it is noted where a device is called, where memory goes back, or where nothing is kept: never on the way of a hit.

use std::panic::Location;
use std::sync::{Arc, PoisonError};

use super::local::Local;
use super::owner::{Cache, Owner};
use super::supply::{self, Supplied};
use super::token::claim_token;
use crate::base::error::Result;
use crate::device::Stream;
use crate::home::{Counter, Counts, Fact, Facts, Sample};
use crate::pressure::ReclaimStats;
use crate::range::Obtained;
use crate::record::{Record, Request};

/// What is known of a scope on one thread.
#[derive(Clone, Debug, Default)]
pub struct ScopeFacts {
    /// What is counted.
    pub counts: Counts,
    /// What is noted for a diagnosis.
    pub facts: Facts,
    /// What the facts are counted by: entries that are in no other one of the scope, of a scope that plans.
    pub clock: u64,
    /// How often the allocations of the latest recorded entry come again and again in it; 1 if they do not.
    pub repeats: u64,
    /// Whether the scope keeps all that it ever had in use at once.
    pub keeps_all: bool,
    /// The most that the scope may hold on the thread; `None` for any number, or where that is not known.
    pub limit: Option<u64>,
    /// Where the scope is named in the program.
    pub site: Option<&'static Location<'static>>,
}

impl Cache {
    /// How its allocations were served when memory was short.
    pub fn reclaim(&self) -> ReclaimStats {
        *self.shared.reclaim()
    }

    /// The same, and counts anew from now on.
    pub(super) fn take_reclaim(&self) -> ReclaimStats {
        std::mem::take(&mut *self.shared.reclaim())
    }

    /// Tells what a plan has served so far, if this thread knows.
    pub(super) fn publish(&'static self) {
        if let Some(owner) = self.owner() {
            owner.with(|local, shared| local.planner.publish(shared));
        }
    }

    /// What is counted of this cache.
    pub fn counts(&'static self) -> Counts {
        self.publish();
        self.shared.counts()
    }

    /// Counts an allocation of another crate, which it served, or which went on to the driver.
    #[cfg(feature = "foreign")]
    #[inline]
    pub(super) fn note_foreign(&self, is_served: bool) {
        self.shared.counters.add(if is_served { Counter::ForeignServed } else { Counter::ForeignPassedOn }, 1);
    }

    /// Has peaks be what is in use now: at once, or where another thread is inside, when that one leaves.
    pub(super) fn reset_peaks(&'static self) {
        self.shared.ask_for_reset();
        self.briefly(Owner::catch_up);
    }

    /// Serves the calling thread from now on.
    pub(super) fn note_thread(&self) {
        let thread = std::thread::current();
        let name = thread.name().map_or_else(|| format!("thread {}", claim_token()), str::to_string);
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(name.into());
    }

    /// The thread that it served last has ended.
    pub(super) fn forget_thread(&self) {
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The name of the thread that it serves, or a number where it has none; `None` once that has ended.
    pub fn thread(&self) -> Option<Arc<str>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is known of it. While another thread is inside the scope, as of its last entry.
    pub fn known(&'static self) -> ScopeFacts {
        let counts = self.counts();
        let own = self.briefly(|owner| owner.with(|local, _| local.known()));
        let (clock, limit, repeats) = own.unwrap_or((counts.get(Counter::Entries), None, 1));
        let (facts, keeps_all) = (self.shared.facts().clone(), self.shared.keeps_all());
        let site = self.title().map(|(_, site)| site);
        ScopeFacts { counts, facts, clock, repeats, keeps_all, limit, site }
    }
}

impl Local {
    /// The clock of its facts, its limit, and how often the latest recorded entry repeats itself.
    fn known(&self) -> (u64, Option<u64>, u64) {
        let limit = Some(self.limit).filter(|&limit| limit < u64::MAX);
        (self.planner.clock(), limit, self.planner.repeats())
    }
}

impl Owner {
    /// Something was seen so often in this entry, with so many bytes.
    pub(super) fn note(&self, fact: Fact, events: u64, bytes: u64) {
        let clock = self.with(|local, _| local.planner.clock());
        self.shared.facts().note(fact, clock, events, bytes);
    }

    /// The same of an allocation.
    pub(super) fn note_sample(&self, fact: Fact, request: &Request<'_>) {
        let clock = self.with(|local, _| local.planner.clock());
        self.shared.facts().note_sample(fact, clock, Sample::of(request, 0, None));
    }

    /// A block straight from the device, which goes back there.
    pub(super) fn allocate_unkept(&self, stream: &Stream, request: &Request<'_>) -> Result<Box<Record>> {
        self.note_sample(Fact::Unkept, request);
        self.make_allowance(stream, request)?;
        let record = supply::from_device(stream, request, Some(**self))?;
        // Again, as above.
        self.make_allowance(stream, request)?;
        let taken = if request.bytes > 0 { Obtained::ALLOCATION } else { Obtained::default() };
        let supplied = Supplied { record, taken };
        Ok(self.adopt(stream, request, supplied, false))
    }
}
