//! A cache: the owner's side, the side for all threads, and the rule that says who may touch the first.
//!
//! Invariants: only the thread that holds `local` ([`hold`](crate::home::hold)) touches it, through an [`Owner`]. No reference into
//! `local` is alive while a device is called.
//!
//! A cache lives as long as the process. When its thread ends, the cache stays as it is for the next thread that enters the scope.
//! Until then all threads may take idle memory out of it.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::Location;
use std::sync::Arc;

use super::local::Local;
use super::supply::{self, Supplied};
use super::token::token;
use crate::base::error::Result;
use crate::base::sync::{AtomicU64, Mutex, lock};
use crate::device::Stream;
use crate::home::hold::{Duties, Hold};
use crate::home::{Fact, Shared};
use crate::planner::{Planner, Resolved};
use crate::pressure::reclaim;
use crate::record::{Door, Generation, Keeper, Record, Request};

/// The place in the program that made a scope, if it is known: other languages do not tell it.
pub(super) type ScopeSite = Option<&'static Location<'static>>;

/// The cache of one scope on one thread.
pub struct Cache {
    pub(super) shared: Shared,
    pub(super) local: Hold<Local>,
    /// The door through which the cache's records return.
    pub(super) door: Door,
    /// The scope that the cache serves now, for messages.
    name: Mutex<Option<(Arc<str>, ScopeSite)>>,
    /// The thread that the cache serves now, for statistics.
    pub(super) thread: Mutex<Option<Arc<str>>>,
    /// The number of the caller whose cache of the scope this is, or 0.
    pub(super) serves: AtomicU64,
}

/// Proves that the calling thread owns a cache, and gives access to the owner's side. An `Owner` stays on its thread, and nobody
/// keeps it beyond an exit of the scope.
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
    /// Makes a cache, which lives as long as the process.
    pub(super) fn leak() -> &'static Cache {
        let (shared, local, door) = (Shared::new(), Hold::new(Local::new()), Door::new());
        let new =
            Cache { shared, local, door, name: Mutex::default(), thread: Mutex::default(), serves: AtomicU64::new(0) };
        let cache: &'static Cache = Box::leak(Box::new(new));
        cache.door.lead_to(cache);
        cache
    }

    /// Makes the cache serve the scope of this name from now on. `site` is the place in the program that made the scope.
    pub(super) fn rename(&self, name: &Arc<str>, site: ScopeSite) {
        *lock(&self.name) = Some((name.clone(), site));
    }

    /// The name of the cache's scope, and the place in the program that made the scope.
    pub(super) fn title(&self) -> Option<(Arc<str>, ScopeSite)> {
        lock(&self.name).clone()
    }

    /// The name of the cache's scope.
    pub(super) fn scope_name(&self) -> Option<Arc<str>> {
        self.title().map(|(name, _)| name)
    }

    /// Ends an entry of the scope. The settings of the entries that are still open apply again. Does nothing on a thread that does
    /// not own the cache any more, because the end of the thread has closed it.
    ///
    /// # Safety
    /// The calling thread entered the scope and got this entry, which no other call has ended. If it is the thread's last entry of the scope,
    /// the cache serves the thread no more: [`Current::set`](super::Current::set) has named another one.
    #[inline(always)]
    pub unsafe fn leave(&'static self, entry: usize) {
        self.end_visit(entry, Owner::end);
    }

    /// As [`leave`](Cache::leave), for [`enter_to_launch`](Cache::enter_to_launch).
    ///
    /// # Safety
    /// The calling thread got this entry from `enter_to_launch`, and has not ended it.
    #[inline]
    pub unsafe fn leave_after_launch(&'static self, entry: usize) {
        self.end_visit(entry, |owner| owner.end());
    }

    /// The proof that the calling thread owns the cache, if it does.
    #[inline]
    pub(super) fn owner(&'static self) -> Option<Owner> {
        self.is_mine().then_some(Owner { cache: self, stays_here: PhantomData })
    }

    /// Whether the cache has, or may have, memory of this device.
    pub fn serves(&self, device: u64) -> bool {
        self.shared.devices.contain(device)
    }

    /// Whether the cache has memory of no other device than this one.
    pub fn serves_only(&self, device: u64) -> bool {
        self.shared.devices.are_only(device)
    }

    /// Whether a thread is inside the scope.
    pub fn is_entered(&self) -> bool {
        self.local.is_entered()
    }

    #[inline]
    pub(super) fn is_mine(&self) -> bool {
        self.local.is_mine(token())
    }
}

impl Keeper for Cache {
    fn note_freed_elsewhere(&self) {
        self.shared.counters.freed_elsewhere();
    }

    fn detach(&'static self, record: &mut Record) {
        self.try_briefly(|owner| owner.detach(record));
    }

    fn is_reachable(&self) -> bool {
        self.is_mine() || !self.is_entered()
    }

    fn take_back(&'static self, mut record: Box<Record>) {
        let owner = self.owner();
        owner.iter().for_each(|owner| owner.unwatch(&mut record));
        record.leave_view();
        let is_used = record.note_last_uses();
        match owner {
            Some(owner) if is_used => {
                owner.note(Fact::UsedElsewhere, 1, record.bytes as u64);
                owner.defer(record);
            }
            Some(owner) => owner.put(record),
            None => {
                // By the next entry, the record's users may long have gone on to other work, so their epochs should end now. Within
                // an entry, one event for all records that return in it costs less.
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
        let _brief = self.note_brief();
        if let Some(owner) = self.owner() {
            owner.catch_up();
        }
    }
}

impl Owner {
    /// As [`owner`](Cache::owner), without the check of `is_mine`.
    ///
    /// # Safety
    /// The calling thread owns the cache, and does so as long as the returned value lives.
    #[inline(always)]
    pub(super) unsafe fn assume(cache: &'static Cache) -> Owner {
        Owner { cache, stays_here: PhantomData }
    }

    /// Runs `act` on the owner's side. `act` must not reach code that could call back into this cache: it touches only plain data,
    /// and the caller makes all other calls afterwards. Builds with debug assertions check this.
    #[inline(always)]
    pub(super) fn with<R>(&self, act: impl FnOnce(&mut Local, &Shared) -> R) -> R {
        // SAFETY: an `Owner` proves that the calling thread owns the cache: it was made on a thread that does, it cannot leave that
        // thread, and it is gone when the cache is given up. By the contract above, `act` does not call back into the cache.
        unsafe { self.cache.local.owned(|local| act(local, &self.cache.shared)) }
    }

    /// How many times the thread has entered or holds the cache.
    pub(super) fn depth(&self) -> usize {
        // SAFETY: an `Owner` does not leave the thread that owns the cache, so the calling thread owns it.
        unsafe { self.cache.local.depth() }
    }

    /// Undoes one entry or hold after `act`, also if `act` panics.
    pub(super) fn exit_after(self, act: impl FnOnce(&Owner)) {
        self.exit_untold_after(|owner| {
            act(owner);
            if owner.depth() == 1 {
                owner.tell_demand();
            }
        });
    }

    /// As [`exit_after`](Owner::exit_after), where `act` does not change how much memory is likely to be needed again.
    #[inline]
    pub(super) fn exit_untold_after(self, act: impl FnOnce(&Owner)) {
        let last = || act(&self);
        // SAFETY: the thread owns the cache until this call returns. `exit_after` takes the proof by value, so none is left
        // afterwards.
        let has_come_back = unsafe { self.cache.local.exit_after(token(), &self.cache, last) };
        if has_come_back {
            Owner::drop_left();
        }
    }

    /// A block from the lists, or else a supply.
    #[inline]
    pub(super) fn allocate(&self, stream: &Stream, request: &Request<'_>) -> Result<Box<Record>> {
        match self.with(|local, shared| local.serve(shared, request, stream.id())) {
            Some(record) => Ok(record),
            None => self.supply(stream, request),
        }
    }

    /// As [`allocate`](Owner::allocate), if the lists have nothing or there is a plan to follow.
    #[inline(never)]
    fn supply(&self, stream: &Stream, request: &Request<'_>) -> Result<Box<Record>> {
        if request.bytes > 0 {
            self.begin_with(stream, request.bytes as u64);
        }
        let resolved = self.resolve(stream, request);
        self.perform_due(); // The request may have ended a loop, whose arena nobody has until then.
        match resolved {
            Resolved::Record(record) => return Ok(record),
            Resolved::RingIsShort => {
                if let Some(record) = self.grow_and_carry(stream, request) {
                    return Ok(record);
                }
            }
            Resolved::Nothing => {}
        }
        stream.refuse_in_capture()?;
        stream.check_kept()?;
        let is_new = self.with(|local, _| local.watch(stream));
        if is_new && stream.captures_unannounced() {
            return Err(supply::unannounced());
        }
        self.make_allowance(stream, request)?;
        let store = self.with(|local, shared| local.store(shared, request));
        let supplied = supply::from_range(stream, request, store, Some(self.cache))?;
        // Checked again, since a handler of the program may have allocated in the scope meanwhile.
        self.make_allowance(stream, request)?;
        Ok(self.adopt(stream, request, supplied, true))
    }

    /// Begins what a request of `bytes` bytes begins: a cycle, an iteration of a loop, or an entry whose sizes are larger than its plan's.
    fn begin_with(&self, stream: &Stream, bytes: u64) {
        if self.with(|local, shared| local.planner.is_cycle_due(shared, stream.id(), bytes)) {
            self.begin_part(stream, Planner::end_cycle, Planner::begin_cycle);
        }
        if self.with(|local, shared| local.planner.begins_program(shared)) {
            self.begin_part(stream, Planner::end_program, Planner::begin_program);
        } else if self.with(|local, shared| local.planner.is_boundary_due(shared, stream.id(), bytes)) {
            self.begin_part(stream, Planner::end_iteration, Planner::begin_iteration);
        }
        if self.with(|local, shared| local.planner.is_elsewhere(shared, stream.id(), bytes)) {
            self.change_plans(stream, |planner, shared| planner.move_to(shared, stream));
        }
        if self.with(|local, shared| local.planner.begins_larger(shared, stream.id(), bytes)) {
            self.change_plans(stream, |planner, shared| planner.enlarge(shared, bytes));
        }
    }

    /// Looks for memory within the scope. Asks twice only if blocks returned that the owner has not taken in yet.
    fn resolve(&self, stream: &Stream, request: &Request<'_>) -> Resolved {
        let is_settled = !self.shared.is_behind() && self.with(|local, _| local.deferred.is_empty());
        match self.with(|local, shared| local.resolve(shared, request, stream, is_settled)) {
            Resolved::Nothing if !is_settled => {}
            resolved => return resolved,
        }
        self.settle();
        self.with(|local, shared| local.resolve(shared, request, stream, true))
    }

    /// Takes in the blocks that other threads returned, and those that other streams used.
    pub(super) fn settle(&self) {
        self.catch_up();
        self.take_deferred();
    }

    /// Counts a supplied record as the scope's.
    pub(super) fn adopt(&self, stream: &Stream, request: &Request<'_>, supplied: Supplied, keeps: bool) -> Box<Record> {
        let Supplied { mut record, taken, live } = supplied;
        if let Some(live) = live {
            self.with(|local, shared| local.planner.note_live(shared, stream.memory_id(), live, request.bytes as u64));
        }
        if taken.is_any() {
            reclaim::tick();
            self.note_taken(stream, request.bytes as u64, taken);
        }
        self.with(|local, shared| local.adopt(shared, &self.cache.door, request, (&mut record, taken), keeps));
        self.note_holding_of(stream);
        record
    }

    /// Takes a block back.
    #[inline]
    pub(super) fn put(&self, record: Box<Record>) {
        let released = self.with(|local, shared| local.put(shared, record));
        let is_inside = self.with(|local, _| local.is_inside);
        if released.is_some() || self.shared.generations.is_behind() || is_inside {
            self.release_all(released);
        }
    }

    /// Gives back a block that was put, and then all that is idle beyond the budget. Follows an invalidation if there was one. Leaves a block of the
    /// scope around in which nothing is alive any more.
    #[inline(never)]
    fn release_all(&self, mut released: Option<Box<Record>>) {
        while let Some(record) = released {
            self.release(record);
            released = self.with(Local::overflow);
        }
        if self.shared.generations.is_behind() {
            self.catch_up();
        }
        self.leave_block_late();
    }

    /// Tells the planner about the drop of a watched record, since the planner waits for it.
    #[inline]
    pub(super) fn unwatch(&self, record: &mut Record) {
        if record.is_watched() {
            self.with(|local, _| local.planner.unwatch(record));
        }
    }

    /// Gives a block's memory back, and does the work that became due meanwhile.
    #[inline(never)]
    pub(super) fn release(&self, record: Box<Record>) {
        self.release_one(record);
        if self.shared.is_behind() {
            self.catch_up();
        }
    }

    /// Gives a block's memory back. Keeps its record for the next supply, if the scope kept the block's memory.
    fn release_one(&self, mut record: Box<Record>) {
        let (generation, bytes) = (record.generation, record.bytes as u64);
        let is_old = self.shared.generations.is_old(generation);
        record.vacate().into_iter().for_each(|block| self.let_go(block));
        if generation == Generation::NEVER_KEPT {
            self.let_go(record);
        } else {
            self.with(|local, _| local.spares.push(record));
        }
        if is_old && self.is_trim_due(bytes) {
            self.trim_to_demand();
        }
    }

    /// Does the work that is due. It releases blocks after an invalidation, takes back the blocks that other threads returned, and
    /// gives back blocks that have been idle longest while too much is idle. The thread may only have dropped an array, for example
    /// in a callback of the driver, so it waits for no stream and makes no stream wait. Work that becomes due meanwhile is left to the next
    /// call, since other threads may add to it without end.
    pub(super) fn catch_up(&self) {
        if self.shared.generations.is_behind() {
            self.renew();
            self.trim_to_demand();
        }
        for mut record in self.shared.returns.take() {
            self.unwatch(&mut record);
            record.leave_view();
            if record.users().next().is_some() {
                self.defer(record);
            } else if let Some(record) = self.with(|local, shared| local.put(shared, record)) {
                self.release_one(record);
            }
        }
        while let Some(record) = self.with(Local::overflow) {
            self.release_one(record);
        }
        self.leave_block_late();
        if self.shared.take_reset() {
            self.with(|local, shared| local.planner.reset_peaks(shared));
        }
        self.publish();
    }
}
