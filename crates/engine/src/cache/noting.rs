//! What a cache notes for the diagnosis of its scope, and what such a diagnosis is told.
//!
//! All of it is noted where a device is called, where memory goes back, or where nothing is kept: never on the way of a hit.

use std::panic::Location;

use super::local::Local;
use super::owner::{Cache, Owner};
use super::supply::{self, Supplied};
use crate::base::error::Result;
use crate::device::Stream;
use crate::home::{Counter, Fact, Facts, PlanStats, Sample, ScopeStats};
use crate::range::Taken;
use crate::record::{Record, Request};

/// What is known of a scope on one thread.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// What is counted.
    pub stats: ScopeStats,
    /// What plans did.
    pub plans: PlanStats,
    /// What is noted for a diagnosis.
    pub facts: Facts,
    /// What the facts are counted by: entries that are in no other one of the scope, of a scope that plans.
    pub clock: u64,
    /// How often the allocations of the latest recorded entry come again and again in it; 1 if they do not.
    pub repeats: u64,
    /// Whether the scope keeps all that it ever had in use at once.
    pub keeps_all: bool,
    /// Arrays of its ring that are alive.
    pub carried_now: u64,
    /// The most that the scope may hold on the thread; `None` for any number, or where that is not known.
    pub limit: Option<u64>,
    /// Where the scope is named in the program.
    pub site: Option<&'static Location<'static>>,
}

impl Cache {
    /// What is known of it. While another thread is inside the scope, as of its last entry.
    pub fn known(&'static self) -> Known {
        let (stats, plans) = (self.stats(), self.plan_stats());
        let own = self.owner().map(|owner| owner.with(|local, _| local.known()));
        let (clock, limit, repeats) = own.or_else(|| self.known_from_outside()).unwrap_or((stats.entries, None, 1));
        let (facts, keeps_all) = (self.shared.facts().clone(), self.shared.keeps_all());
        let carried_now = self.shared.counters.get(Counter::RingBlocks);
        let site = self.title().map(|(_, site)| site);
        Known { stats, plans, facts, clock, repeats, keeps_all, carried_now, limit, site }
    }

    fn known_from_outside(&'static self) -> Option<(u64, Option<u64>, u64)> {
        let owner = self.hold_unless_entered()?;
        let known = owner.with(|local, _| local.known());
        owner.exit();
        Some(known)
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
        let taken = if request.bytes > 0 { Taken::ALLOCATION } else { Taken::default() };
        let supplied = Supplied { record, taken };
        Ok(self.adopt(stream, request, supplied, false))
    }
}
