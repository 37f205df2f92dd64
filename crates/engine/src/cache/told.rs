//! The statistics of a cache, the thread that it serves, and its notes for the diagnosis of the scope.
//!
//! The notes are made only where a device is called, where memory goes back, or where nothing is kept. A hit makes none.

use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::owner::{Cache, Owner};
use super::supply::{self, Supplied};
use super::token::{claim_token, plain};
use crate::base::error::Result;
use crate::base::sync::lock;
use crate::device::Stream;
use crate::home::{Counter, Counts, Fact, Facts, Sample};
use crate::pressure::ReclaimStats;
use crate::range::Obtained;
use crate::record::{Record, Request};

/// The statistics of a scope on one thread, and the facts for its diagnosis.
#[derive(Clone, Debug, Default)]
pub struct ScopeFacts {
    /// All that is counted of the scope.
    pub counts: Counts,
    /// What kept the scope from being planned lately.
    pub facts: Facts,
    /// The clock of the facts. It counts the outermost entries of a scope that plans.
    pub clock: u64,
    /// How many times the allocations of the latest recorded entry repeat within that entry; 1 if they do not repeat.
    pub repeats: u64,
    /// Whether a thread is inside the scope, so that the counts cover a part of its entry.
    pub is_entered: bool,
    /// Whether the scope keeps all memory that it ever had in use at once.
    pub keeps_all: bool,
    /// The most bytes that the scope may reserve on the thread; `None` if there is no limit or it is not known.
    pub limit: Option<u64>,
    /// The place in the program that names the scope.
    pub site: Option<&'static Location<'static>>,
}

impl Cache {
    /// How the scope's requests were served when memory was short.
    pub fn reclaim(&self) -> ReclaimStats {
        *lock(&self.shared.reclaim)
    }

    /// As [`reclaim`](Cache::reclaim), and sets the counts to 0.
    pub(super) fn take_reclaim(&self) -> ReclaimStats {
        std::mem::take(&mut *lock(&self.shared.reclaim))
    }

    /// Publishes how much a plan has served so far, if this thread owns the cache.
    pub(super) fn publish(&'static self) {
        if let Some(owner) = self.owner() {
            owner.with(|local, shared| local.planner.publish(shared));
        }
    }

    /// The statistics of this cache.
    pub fn counts(&'static self) -> Counts {
        self.publish();
        self.shared.counts()
    }

    /// Identifies the cache while it serves one name. Its counts begin anew with the next name, and then it has another number.
    pub fn number(&self) -> u64 {
        self.shared.number.load(Relaxed)
    }

    /// Has the cache set its peaks to the current use: in [`follow_reset`](Cache::follow_reset), or, if another thread is inside, when that
    /// thread leaves.
    pub(super) fn ask_for_reset(&self) {
        self.shared.wants_reset.store(true, SeqCst);
    }

    /// Sets the peaks, unless another thread is inside.
    pub(super) fn follow_reset(&'static self) {
        self.briefly(Owner::catch_up);
    }

    /// Notes that the cache serves the calling thread from now on.
    pub(super) fn note_thread(&self) {
        let thread = std::thread::current();
        let me = claim_token();
        let name = thread.name().map_or_else(|| format!("thread {}", plain(me)), str::to_string);
        self.serves.store(me, Relaxed);
        *lock(&self.thread) = Some(name.into());
    }

    /// Notes that the cache serves the thread no more.
    pub(super) fn forget_thread(&self) {
        self.serves.store(0, Relaxed);
        *lock(&self.thread) = None;
    }

    /// The name of the thread that the cache serves, or a number if the thread has no name. `None` once the thread has ended.
    pub fn thread(&self) -> Option<Arc<str>> {
        lock(&self.thread).clone()
    }

    /// The statistics and facts of this cache. While another thread is inside the scope, the statistics are those of its last
    /// entry.
    pub fn known(&'static self) -> ScopeFacts {
        let (is_entered, counts) = (self.is_entered(), self.counts());
        let own = self.briefly(|owner| {
            owner.with(|local, _| (local.planner.clock(), Some(local.limit.most()), local.planner.repeats()))
        });
        let (clock, limit, repeats) = own.unwrap_or((counts.get(Counter::Entries), None, 1));
        let limit = limit.filter(|&limit| limit < u64::MAX);
        let (facts, keeps_all) = (self.shared.facts().clone(), self.shared.keeps_all.load(Relaxed));
        let site = self.title().and_then(|(_, site)| site);
        ScopeFacts { counts, facts, clock, repeats, is_entered, keeps_all, limit, site }
    }
}

impl Owner {
    /// Notes that a fact occurred `events` times in this entry, with `bytes` bytes.
    pub(super) fn note(&self, fact: Fact, events: u64, bytes: u64) {
        let clock = self.with(|local, _| local.planner.clock());
        self.shared.facts().note(fact, clock, events, bytes);
    }

    /// Notes a fact about one allocation.
    pub(super) fn note_sample(&self, fact: Fact, request: &Request<'_>) {
        let clock = self.with(|local, _| local.planner.clock());
        self.shared.facts().note_sample(fact, clock, Sample::of(request, 0, None));
    }

    /// A block straight from the device. Its drop returns it to the device.
    pub(super) fn allocate_unkept(&self, stream: &Stream, request: &Request<'_>) -> Result<Box<Record>> {
        self.note_sample(Fact::Unkept, request);
        self.make_allowance(stream, request)?;
        let record = supply::from_device(stream, request, Some(**self))?;
        // Checked again, since a handler of the program may have allocated in the scope meanwhile.
        self.make_allowance(stream, request)?;
        let taken = if request.bytes > 0 { Obtained::ALLOCATION } else { Obtained::default() };
        Ok(self.adopt(stream, request, Supplied { record, taken, live: None }, false))
    }
}
