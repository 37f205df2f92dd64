//! A cache: the owner's side, everyone's side, and the rule that says when the first may be touched.
//!
//! Invariants: `local` is touched only by the thread that holds it ([`hold`](crate::home::hold)), by way of an [`Owner`], and no
//! reference into it is alive while a device is called. A cache lives as long as the process. When its thread ends it is left as it is, for the next
//! thread that enters the scope; until then all may take idle memory out of it.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::Location;
use std::sync::{Arc, PoisonError};

use super::local::{Local, Put};
use super::policy::Terms;
use super::supply::{self, Supplied};
use super::token::{claim_token, token};
use crate::base::error::Result;
use crate::base::held::Held;
use crate::base::sync::Mutex;
use crate::device::Stream;
use crate::home::hold::{Duties, Hold};
use crate::home::{Counter, Fact, Shared, Visit};
use crate::planner::Resolved;
use crate::pressure::{limits, reclaim};
use crate::record::{Door, Generation, Keeper, Record, Request};

/// One scope's cache on one thread.
pub struct Cache {
    pub(super) shared: Shared,
    pub(super) local: Hold<Local>,
    door: Door,
    /// The scope that it serves now, for messages.
    name: Mutex<Option<(Arc<str>, &'static Location<'static>)>>,
    /// The thread that it serves now, for statistics.
    pub(super) thread: Mutex<Option<Arc<str>>>,
}

/// The proof that the calling thread owns a cache, and the way to its owner's side. It stays on its thread, and is not kept
/// beyond an exit of the scope.
pub(super) struct Owner {
    cache: &'static Cache,
    stays_here: PhantomData<*const ()>,
}

impl Deref for Owner {
    type Target = &'static Cache;

    #[inline(always)]
    fn deref(&self) -> &&'static Cache {
        &self.cache
    }
}

impl Cache {
    /// A new one, which lives as long as the process.
    pub(super) fn leak() -> &'static Cache {
        let local = Hold::new(Local::new());
        let (name, thread) = (Mutex::default(), Mutex::default());
        let new = Cache { shared: Shared::new(), local, door: Door::new(), name, thread };
        let cache: &'static Cache = Box::leak(Box::new(new));
        cache.door.lead_to(cache);
        cache
    }

    /// Serves a scope of this name from now on, which was made at `site`.
    pub(super) fn rename(&self, name: &Arc<str>, site: &'static Location<'static>) {
        *self.name.lock().unwrap_or_else(PoisonError::into_inner) = Some((name.clone(), site));
    }

    /// The name of its scope, and where that was made.
    pub(super) fn title(&self) -> Option<(Arc<str>, &'static Location<'static>)> {
        self.name.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The name of its scope.
    pub(super) fn scope_name(&self) -> Option<Arc<str>> {
        self.title().map(|(name, _)| name)
    }

    /// How many allocations its lists have served.
    pub(super) fn listed(&self) -> u64 {
        self.shared.counters.get(Counter::Listed)
    }

    /// How often the scope was entered.
    #[inline]
    pub(super) fn entries(&self) -> u64 {
        self.shared.counters.get(Counter::Entries)
    }

    /// Where its records return to.
    #[inline]
    pub(super) fn door(&'static self) -> &'static Door {
        &self.door
    }

    /// Enters the scope: the calling thread owns the cache until it has left as often. Waits while another thread takes
    /// idle blocks out. Returns what [`leave`](Cache::leave) knows the entry by.
    pub fn enter(&'static self, terms: Terms, visit: Visit) -> usize {
        self.local.enter(claim_token());
        self.shared.counters.visited(visit);
        self.shared.note_entered(reclaim::now());
        let Some(owner) = self.owner() else { return 0 };
        let entry = owner.with(|local, shared| local.enter(shared, terms));
        if self.shared.is_behind() {
            owner.catch_up();
        }
        owner.shrink();
        if owner.depth() == 1 {
            owner.begin();
        }
        entry
    }

    /// Ends an entry of the scope. Those that are still open recycle as they said, within the limit that they said. Nothing to do on a
    /// thread that does not own the cache, since its end took it away.
    pub fn leave(&'static self, entry: usize) {
        let Some(owner) = self.owner() else { return };
        let are_open = owner.with(|local, shared| local.leave(shared, entry));
        owner.exit_after(|owner| {
            if owner.depth() == 1 {
                owner.take_deferred();
                owner.attend_stream();
                owner.end();
            } else if are_open {
                owner.shrink();
            }
        });
        if !self.is_mine() {
            limits::left(|device| self.serves(device));
        }
    }

    /// The proof that the calling thread owns the cache, if it does.
    #[inline]
    pub(super) fn owner(&'static self) -> Option<Owner> {
        self.is_mine().then_some(Owner { cache: self, stays_here: PhantomData })
    }

    /// A drop by a thread that is not inside the scope: at once if nobody is, else when the owner looks.
    #[cold]
    fn give_back_from_outside(&'static self, record: Box<Record>) {
        self.shared.returns.push(claim_token(), record);
        self.attend();
    }

    /// Whether it has memory of this device, or may have.
    pub fn serves(&self, device: u64) -> bool {
        self.shared.devices().contain(device)
    }

    /// Whether a thread is inside the scope.
    pub fn is_entered(&self) -> bool {
        self.local.is_entered()
    }

    /// Deals with what is due, unless another thread owns the cache.
    fn attend(&'static self) {
        self.local.attend(claim_token(), &self);
        Owner::drop_left();
    }

    #[inline]
    pub(super) fn is_mine(&self) -> bool {
        self.local.is_mine(token())
    }
}

impl Keeper for Cache {
    #[cfg(feature = "foreign")]
    fn note_freed_elsewhere(&self) {
        self.shared.note_freed_elsewhere();
    }

    fn take_back(&'static self, mut record: Box<Record>) {
        let owner = self.owner();
        owner.iter().for_each(|owner| owner.unwatch(&mut record));
        record.leave_view();
        let is_used = record.note_last_uses();
        match owner {
            Some(owner) if is_used => {
                owner.note(Fact::UsedElsewhere, 1, record.bytes() as u64);
                owner.defer(record);
            }
            Some(owner) => owner.put(record),
            None => {
                // The next entry may want the memory when its users have long gone on to other work. Within an entry, one
                // event for all that comes back in it is less.
                record.ask_users();
                self.give_back_from_outside(record);
            }
        }
    }
}

impl Duties for &'static Cache {
    fn is_due(&self) -> bool {
        self.shared.is_behind()
    }

    fn catch_up(&self) {
        // As in a cache that is held for a moment, unless the thread is inside.
        let _held = (!self.is_entered()).then(Held::begin);
        if let Some(owner) = self.owner() {
            owner.catch_up();
        }
    }
}

impl Owner {
    /// What `is_mine` says, taken for granted.
    ///
    /// # Safety
    /// The calling thread owns the cache, and does so as long as the answer lives.
    #[inline(always)]
    pub(super) unsafe fn assume(cache: &'static Cache) -> Owner {
        Owner { cache, stays_here: PhantomData }
    }

    /// Runs `act` on the owner's side, which reaches no code that could come back to this cache: it touches plain data alone, and
    /// what is to be called is for the caller to call afterwards. Builds with debug assertions see to it.
    #[inline(always)]
    pub(super) fn with<R>(&self, act: impl FnOnce(&mut Local, &Shared) -> R) -> R {
        // SAFETY: this is a proof that the calling thread owns the cache, since it was made on a thread that does, cannot
        // leave that, and is gone when the cache is given up. `act` does not come back to it, as the contract above has it.
        unsafe { self.cache.local.owned(|local| act(local, &self.cache.shared)) }
    }

    /// How often the thread holds the cache.
    fn depth(&self) -> usize {
        // SAFETY: who has an `Owner` is the thread that owns the cache, as the type does not leave its thread.
        unsafe { self.cache.local.depth() }
    }

    /// Undoes one entry or hold once `act` is done, also where that panics.
    pub(super) fn exit_after(self, act: impl FnOnce(&Owner)) {
        let last = || {
            act(&self);
            if self.depth() == 1 {
                self.tell_demand();
            }
        };
        // SAFETY: the thread owns the cache until this returns; the proof is taken by value, so that none is left afterwards.
        let has_come_back = unsafe { self.cache.local.exit_after(token(), &self.cache, last) };
        if has_come_back {
            Owner::drop_left();
        }
    }

    /// A block from the lists, else from where the device's memory is kept.
    #[inline]
    pub(super) fn allocate(&self, stream: &Stream, request: &Request<'_>) -> Result<Box<Record>> {
        match self.with(|local, shared| local.serve(shared, request, stream.id())) {
            Some(record) => Ok(record),
            None => self.supply(stream, request),
        }
    }

    /// As [`allocate`](Owner::allocate), once the lists have nothing or there is a plan to go by.
    #[inline(never)]
    fn supply(&self, stream: &Stream, request: &Request<'_>) -> Result<Box<Record>> {
        match self.resolve(stream, request) {
            Resolved::Record(record) => return Ok(record),
            Resolved::RingIsShort => {
                if let Some(record) = self.grow_and_carry(stream, request) {
                    return Ok(record);
                }
            }
            Resolved::Nothing => {}
        }
        stream.check_kept()?;
        let is_new = self.with(|local, _| local.watch(stream));
        if is_new && stream.captures_unannounced() {
            return Err(supply::unannounced());
        }
        self.make_allowance(stream, request)?;
        let store = self.with(|local, shared| local.store(shared, request));
        let supplied = supply::from_range(stream, request, store, Some(self.cache))?;
        // Again, as a handler of the program may have allocated in the scope meanwhile.
        self.make_allowance(stream, request)?;
        Ok(self.adopt(stream, request, supplied, true))
    }

    /// What the scope has for a request. Asks twice only where blocks came back that were not taken in.
    fn resolve(&self, stream: &Stream, request: &Request<'_>) -> Resolved {
        let is_settled = !self.shared.is_behind() && self.with(|local, _| local.deferred.records.is_empty());
        match self.with(|local, shared| local.resolve(shared, request, stream, is_settled)) {
            Resolved::Nothing if !is_settled => {}
            resolved => return resolved,
        }
        self.settle();
        self.with(|local, shared| local.resolve(shared, request, stream, true))
    }

    /// Takes in what came back, by other threads and by other streams.
    pub(super) fn settle(&self) {
        self.catch_up();
        self.take_deferred();
    }

    /// Takes a supplied record into account.
    pub(super) fn adopt(&self, stream: &Stream, request: &Request<'_>, supplied: Supplied, keeps: bool) -> Box<Record> {
        let mut supplied = supplied;
        self.shared.devices().note(stream.memory_id());
        if supplied.taken.is_any() {
            reclaim::tick();
            self.note(Fact::Taken, 1, request.bytes as u64);
        }
        self.with(|local, shared| local.adopt(shared, self.cache.door(), request, &mut supplied, keeps));
        self.note_holding();
        supplied.record
    }

    /// Takes a block back.
    #[inline]
    pub(super) fn put(&self, record: Box<Record>) {
        match self.with(|local, shared| local.put(shared, record)) {
            Put::Kept if !self.shared.is_stale() => {}
            Put::Released(record) => self.release(record),
            Put::Kept | Put::KeptTooMuch => self.catch_up(),
        }
    }

    /// If it is watched, its drop is what was waited for.
    #[inline]
    fn unwatch(&self, record: &mut Record) {
        if record.is_watched() {
            self.with(|local, _| local.planner.unwatch(record));
        }
    }

    /// Gives a block's memory back, and keeps its record for the next supply, if it came from one that keeps blocks.
    #[inline(never)]
    pub(super) fn release(&self, mut record: Box<Record>) {
        let generation = record.generation;
        let is_old = self.shared.generations.is_old(generation);
        record.vacate();
        if generation == Generation::NEVER_KEPT {
            self.let_go(record);
        } else {
            self.with(|local, _| local.spares.push(record));
        }
        if is_old {
            self.trim_to_demand();
        }
        if self.shared.is_behind() {
            self.catch_up();
        }
    }

    /// Deals with what is due: releases blocks after an invalidation, takes back what other threads returned, and gives
    /// back what has been idle longest while that is too much. The thread may be one that only dropped an array, in a callback
    /// of the driver for instance: no stream is waited for, and none told to wait.
    pub(super) fn catch_up(&self) {
        if self.shared.is_stale() {
            self.renew();
            self.trim_to_demand();
        }
        for mut record in self.shared.returns.take() {
            self.unwatch(&mut record);
            record.leave_view();
            if record.users().next().is_some() {
                self.defer(record);
            } else if let Put::Released(record) = self.with(|local, shared| local.put(shared, record)) {
                self.release(record);
            }
        }
        while let Some(record) = self.with(Local::overflow) {
            self.release(record);
        }
        if self.shared.take_reset() {
            self.with(|local, shared| local.planner.reset_peaks(shared));
        }
        self.publish();
    }
}
