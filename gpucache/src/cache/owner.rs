//! A cache: the owner's side, everyone's side, and the rule that says when the first may be touched.
//!
//! Invariants: `local` is touched only by the thread that holds it ([`hold`](super::hold)), and no reference into it is alive
//! while a device is called. A cache lives as long as the process. When its thread ends it is left as it is, for the next
//! thread that enters the scope; until then all may take idle memory out of it.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::demand;
use super::hold::{Duties, Hold};
use super::keep;
use super::local::{Fresh, Local, Put};
use super::plan_stats::PlanStats;
use super::policy::Recycle;
use super::record::{Door, Home, Keeper, Record};
use super::shared::Shared;
use super::stats::ScopeStats;
use super::supply::{self, Supplied};
use crate::base::error::Result;
use crate::base::key::Request;
use crate::device::Stream;

/// One scope's cache on one thread.
pub(crate) struct Cache {
    pub(super) shared: Shared,
    pub(super) local: Hold<Local>,
    door: Door,
}

impl Cache {
    /// A new one, which lives as long as the process.
    pub(super) fn leak() -> &'static Cache {
        let new = Cache { shared: Shared::new(), local: Hold::new(Local::default()), door: Door::new() };
        let cache: &'static Cache = Box::leak(Box::new(new));
        cache.door.lead_to(cache);
        cache
    }

    /// Where its records return to.
    #[inline]
    pub(super) fn door(&self) -> &Door {
        &self.door
    }

    /// Enters the scope: the calling thread owns the cache until it has left as often. Waits while another thread takes
    /// idle blocks out.
    pub(crate) fn enter(&'static self, recycle: Recycle) {
        self.local.enter(claim_token());
        self.shared.counters.entries.add(1);
        // SAFETY: this thread owns the cache.
        unsafe { self.owned(|local, _| local.enter(recycle)) };
        if self.shared.is_unsettled() {
            self.settle();
        }
        // SAFETY: as above.
        unsafe {
            if self.local.depth() == 1 {
                self.begin();
            }
        }
    }

    /// Leaves the scope; an entry of it that is still open recycles as it said. Nothing to do on a thread that does not own
    /// the cache (its end took it away).
    pub(crate) fn leave(&'static self, open: Option<Recycle>) {
        if self.is_mine() {
            // SAFETY: this thread owns the cache; `enter` touches plain data alone.
            unsafe {
                if self.local.depth() == 1 {
                    self.take_deferred();
                    self.attend_stream();
                    self.end();
                } else if let Some(recycle) = open {
                    self.owned(|local, _| local.enter(recycle));
                }
                self.let_go();
            }
            if !self.is_mine() {
                keep::left(|device| self.serves(device));
            }
        }
    }

    /// What the plan expects next, if this is it. An invalidation meanwhile is seen to by what comes next that is not
    /// planned, at the latest when the entry ends.
    ///
    /// # Safety
    /// The calling thread is inside the scope.
    #[inline(always)]
    pub(super) unsafe fn planned(&'static self, stream: &Stream, dims: &[usize], bytes: usize) -> Option<Box<Record>> {
        // SAFETY: inside the scope, this thread owns the cache; `serve` touches plain data alone.
        unsafe { self.owned(|local, shared| local.planner.serve(&shared.lease, stream, dims, bytes)) }
    }

    /// A block from the lists, else from where the device's memory is kept.
    ///
    /// # Safety
    /// The calling thread is inside the scope.
    #[inline]
    pub(super) unsafe fn allocate(&'static self, stream: &Stream, request: &Request<'_>) -> Result<Box<Record>> {
        // SAFETY: inside the scope, this thread owns the cache; `serve` touches plain data alone.
        match unsafe { self.owned(|local, shared| local.serve(shared, request, stream)) } {
            Some(record) => Ok(record),
            // SAFETY: as here.
            None => unsafe { self.miss(stream, request) },
        }
    }

    /// As [`allocate`](Cache::allocate), with its contract, once the lists have nothing or there is a plan to go by.
    #[inline(never)]
    unsafe fn miss(&'static self, stream: &Stream, request: &Request<'_>) -> Result<Box<Record>> {
        stream.check_kept()?;
        if self.shared.is_unsettled() {
            self.settle();
        }
        self.take_deferred();
        // SAFETY: as in `allocate`.
        if let Some(record) = unsafe { self.owned(|local, shared| local.pop(shared, request, stream)) } {
            return Ok(record);
        }
        // SAFETY: as in `allocate`.
        let is_new = unsafe { self.owned(|local, _| local.watch(stream)) };
        if is_new && stream.captures_unannounced() {
            return Err(supply::unannounced("memory of a scope"));
        }
        // SAFETY: as in `allocate`.
        let store = unsafe { self.owned(|local, shared| local.store(shared, request)) };
        let supplied = supply::from_range(stream, request, store)?;
        // SAFETY: as in `allocate`.
        Ok(unsafe { self.adopt(stream, request, supplied, true) })
    }

    /// A block straight from the device, which goes back there.
    ///
    /// # Safety
    /// As for [`allocate`](Cache::allocate).
    pub(super) unsafe fn allocate_unkept(&'static self, stream: &Stream, request: &Request<'_>) -> Result<Box<Record>> {
        let record = supply::from_device(stream, request)?;
        let supplied = Supplied { record, calls: u64::from(request.bytes > 0) };
        // SAFETY: as here.
        Ok(unsafe { self.adopt(stream, request, supplied, false) })
    }

    /// Takes a supplied record into account. The thread is inside the scope.
    unsafe fn adopt(
        &'static self,
        stream: &Stream,
        request: &Request<'_>,
        supplied: Supplied,
        keeps: bool,
    ) -> Box<Record> {
        let Supplied { mut record, calls } = supplied;
        self.shared.note_device(stream.memory_id());
        let fresh = Fresh { record: &mut record, request, stream: stream.id(), keeps, calls };
        // SAFETY: as in `allocate`; `adopt` touches lists and counters alone.
        unsafe { self.owned(|local, shared| local.adopt(&self.door, shared, fresh)) };
        self.note_holding();
        record
    }

    /// Takes back what [`planned`](Cache::planned) served, if that is all there is to do; hands out any other record.
    ///
    /// # Safety
    /// The calling thread is inside the scope.
    #[inline(always)]
    pub(super) unsafe fn take_back_planned(&self, record: Box<Record>) -> Option<Box<Record>> {
        // SAFETY: inside the scope, this thread owns the cache; `take_back` touches plain data alone.
        unsafe { self.owned(|local, shared| local.planner.take_back(&shared.lease, record)) }
    }

    /// Takes a block back that no front end has a view of.
    ///
    /// # Safety
    /// The calling thread is inside the scope.
    #[inline]
    pub(super) unsafe fn give_back_inside(&self, record: Box<Record>) {
        self.put(record);
    }

    /// Takes a block back. The calling thread owns the cache.
    #[inline]
    pub(super) fn put(&self, record: Box<Record>) {
        // SAFETY: this thread owns the cache; `put` touches plain data alone.
        match unsafe { self.owned(|local, shared| local.put(shared, record)) } {
            Put::Kept if !self.shared.is_stale() => {}
            Put::Released(record) => self.release(record),
            Put::Kept | Put::KeptTooMuch => self.settle(),
        }
    }

    /// Gives a block's memory back, and keeps its record for the next miss, if it came from one that keeps blocks.
    #[inline(never)]
    pub(super) fn release(&self, mut record: Box<Record>) {
        let generation = record.home().generation;
        let is_old = self.shared.generations.is_old(generation);
        record.vacate();
        if generation == Home::NEVER_KEPT {
            drop(record);
        } else {
            // SAFETY: this thread owns the cache.
            unsafe { self.owned(|local, _| local.keep_spare(record)) };
        }
        if is_old {
            demand::trim_to_demand(false, |device| self.serves(device));
        }
        if self.shared.is_unsettled() {
            self.settle();
        }
    }

    /// A drop by a thread that is not inside the scope: at once if nobody is, else when the owner looks.
    #[cold]
    fn give_back_from_outside(&self, record: Box<Record>) {
        self.shared.returns.push(claim_token(), record);
        self.attend();
    }

    /// Whether it has memory of this device, or may have.
    pub(crate) fn serves(&self, device: u64) -> bool {
        self.shared.serves(device)
    }

    pub(crate) fn plan_stats(&self) -> PlanStats {
        self.publish();
        self.shared.counters.read_plans()
    }

    /// Tells what a plan has served so far, if this thread knows.
    fn publish(&self) {
        if self.is_mine() {
            // SAFETY: this thread owns the cache.
            unsafe { self.owned(|local, shared| local.planner.publish(shared)) };
        }
    }

    /// Whether a thread is inside the scope.
    pub(crate) fn is_entered(&self) -> bool {
        self.local.is_entered()
    }

    pub(crate) fn stats(&self) -> ScopeStats {
        self.publish();
        self.shared.counters.read(&self.shared.returns)
    }

    /// Deals with what is due, unless another thread owns the cache.
    fn attend(&self) {
        self.local.attend(claim_token(), self);
    }

    #[inline]
    pub(super) fn is_mine(&self) -> bool {
        self.local.is_mine(TOKEN.get())
    }

    /// Undoes one entry or hold.
    ///
    /// # Safety
    /// This thread owns the cache.
    pub(super) unsafe fn let_go(&self) {
        // SAFETY: as here.
        if unsafe { self.local.depth() } == 1 {
            self.tell_demand();
        }
        // SAFETY: as here.
        unsafe { self.local.let_go(TOKEN.get(), self) };
    }

    /// Runs `act` on the owner's side.
    ///
    /// # Safety
    /// The calling thread owns the cache, and `act` reaches no code that could come back to this cache.
    #[inline]
    pub(super) unsafe fn owned<R>(&self, act: impl FnOnce(&mut Local, &Shared) -> R) -> R {
        // SAFETY: as here.
        unsafe { self.local.owned(|local| act(local, &self.shared)) }
    }
}

impl Keeper for Cache {
    fn take_back(&self, mut record: Box<Record>) {
        record.leave_view();
        match self.is_mine() {
            true if record.users().next().is_some() => self.defer(record),
            true => self.put(record),
            false => self.give_back_from_outside(record),
        }
    }
}

impl Duties for Cache {
    fn is_due(&self) -> bool {
        self.shared.is_unsettled()
    }

    /// Deals with what is due: releases blocks after an invalidation, takes back what other threads returned, and gives
    /// back what has been idle longest while that is too much. The calling thread owns the cache. It may be one that only
    /// dropped an array, in a callback of the driver for instance: no stream is waited for, and none told to wait.
    fn settle(&self) {
        if self.shared.is_stale() {
            self.renew();
            demand::trim_to_demand(false, |device| self.serves(device));
        }
        for mut record in self.shared.returns.take() {
            record.leave_view();
            if record.users().next().is_some() {
                self.defer(record);
            // SAFETY: this thread owns the cache; `put` touches plain data alone.
            } else if let Put::Released(record) = unsafe { self.owned(|local, shared| local.put(shared, record)) } {
                self.release(record);
            }
        }
        // SAFETY: this thread owns the cache; nothing is called in here.
        while let Some(record) = unsafe { self.owned(Local::overflow) } {
            self.release(record);
        }
        self.publish();
    }
}

thread_local! {
    /// Names this thread for good; 0 until it owns a cache for the first time.
    static TOKEN: Cell<u64> = const { Cell::new(0) };
}

pub(super) fn claim_token() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    if TOKEN.get() == 0 {
        TOKEN.set(NEXT.fetch_add(1, Relaxed));
    }
    TOKEN.get()
}
