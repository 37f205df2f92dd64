//! A cache: the owner's side, everyone's side, and the rule that says when the first may be touched.
//!
//! Invariants: `local` is touched only by the thread whose token `shared.owner` holds, while `depth` is above zero, and
//! no reference into it is alive while a device is called. A thread owns the cache from its outermost entry of the
//! scope to the exit of it; others take it for a moment, while nobody is inside. A cache lives as long as the process.
#![allow(unsafe_code)]

use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use super::local::{Fresh, Local, Put};
use super::plan_stats::PlanStats;
use super::policy::Recycle;
use super::record::{Home, Record};
use super::registry::{self, Idle};
use super::shared::{NOBODY, Shared};
use super::stats::ScopeStats;
use super::supply::{self, Supplied};
use crate::base::error::Result;
use crate::base::key::Request;
use crate::device::Stream;

/// One scope's cache on one thread.
pub(crate) struct Cache {
    shared: Shared,
    local: UnsafeCell<Local>,
}

// SAFETY: `shared` is made of atomics. `local` is touched only by the thread that won `shared.owner` by an exchange,
// and is given up by a store, both sequentially consistent, so its uses by different threads are ordered; what it
// contains (boxed records) is `Send`.
unsafe impl Sync for Cache {}

impl Cache {
    pub(super) fn new() -> Cache {
        Cache { shared: Shared::new(), local: UnsafeCell::default() }
    }

    /// Enters the scope: the calling thread owns the cache until it has left as often. Waits while another thread takes
    /// idle blocks out.
    pub(crate) fn enter(&'static self, recycle: Recycle) {
        while !self.try_hold() {
            std::thread::yield_now();
        }
        self.shared.is_entered.store(true, SeqCst);
        self.shared.counters.entries.add(1);
        // SAFETY: this thread owns the cache.
        let is_outermost = unsafe { self.owned(|local, _| local.enter(recycle)) };
        if self.shared.is_unsettled() {
            self.settle();
        }
        if is_outermost {
            // SAFETY: as above.
            unsafe { self.begin() };
        }
    }

    /// Leaves the scope. Nothing to do on a thread that does not own the cache (its end took it away).
    pub(crate) fn leave(&'static self) {
        if self.is_mine() {
            // SAFETY: this thread owns the cache.
            if unsafe { self.owned(|local, _| local.depth == 1) } {
                // SAFETY: as above.
                unsafe { self.end() };
            }
            self.let_go();
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
        unsafe { self.owned(|local, _| local.planner.serve(stream, dims, bytes)) }
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
        if self.shared.is_unsettled() {
            self.settle();
        }
        // SAFETY: as in `allocate`.
        if let Some(record) = unsafe { self.owned(|local, shared| local.pop(shared, request, stream)) } {
            return Ok(record);
        }
        // SAFETY: as in `allocate`.
        let store = unsafe { self.owned(|local, _| local.store()) };
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
        unsafe { self.owned(|local, shared| local.adopt(self, shared, fresh)) };
        record
    }

    /// Takes back what [`planned`](Cache::planned) served, if that is all there is to do; hands out any other record.
    ///
    /// # Safety
    /// The calling thread is inside the scope.
    #[inline(always)]
    pub(super) unsafe fn take_back_planned(&self, record: Box<Record>) -> Option<Box<Record>> {
        // SAFETY: inside the scope, this thread owns the cache; `take_back` touches plain data alone.
        unsafe { self.owned(|local, _| local.planner.take_back(record)) }
    }

    /// Takes a block back that no front end has a view of.
    ///
    /// # Safety
    /// The calling thread is inside the scope.
    #[inline]
    pub(super) unsafe fn give_back_inside(&self, record: Box<Record>) {
        self.put(record);
    }

    /// Takes a block back, from any thread.
    pub(super) fn give_back(&self, mut record: Box<Record>) {
        record.leave_view();
        match self.is_mine() {
            true => self.put(record),
            false => self.give_back_from_outside(record),
        }
    }

    /// Takes a block back. The calling thread owns the cache.
    #[inline]
    fn put(&self, record: Box<Record>) {
        // SAFETY: this thread owns the cache; `put` touches plain data alone.
        match unsafe { self.owned(|local, shared| local.put(shared, record)) } {
            Put::Kept if !self.shared.is_stale() => {}
            Put::Released(record) => self.release(record),
            Put::Kept | Put::KeptTooMuch => self.settle(),
        }
    }

    /// Gives a block's memory back, and keeps its record for the next miss, if it came from one that keeps blocks.
    #[inline(never)]
    fn release(&self, mut record: Box<Record>) {
        let generation = record.home().generation;
        let is_trimmed = self.shared.is_trimmed(generation);
        record.vacate();
        if generation == Home::NEVER_KEPT {
            drop(record);
        } else {
            // SAFETY: this thread owns the cache.
            unsafe { self.owned(|local, _| local.keep_spare(record)) };
        }
        if is_trimmed {
            registry::trim_to_demand(|device| self.serves(device));
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

    /// Releases the idle blocks now, and the busy ones when they return, all the way to the device.
    pub(crate) fn invalidate(&self) {
        self.shared.invalidate();
        // A thread inside the scope deals with it there.
        if self.hold_unless_entered() {
            self.settle();
            self.let_go();
        }
    }

    /// Gives idle blocks back to their range, unless another thread is inside the scope, and a plan's block too if that is
    /// better than to let the range grow by `need` bytes. Returns their bytes.
    pub(super) fn release_idle(&self, which: Idle, need: u64) -> u64 {
        let has_none = matches!(which, Idle::Budgeted) && self.stats().idle_bytes == 0;
        if has_none || !self.hold_unless_entered() {
            return 0;
        }
        let held = &self.shared.counters.held_bytes;
        let before = held.get();
        self.settle();
        // SAFETY: `try_hold` made this thread the owner; the records are released after the borrow.
        drop(unsafe {
            self.owned(|local, shared| match which {
                Idle::Budgeted if local.recycle() == Recycle::Keyed => Vec::new(),
                _ => local.take_idle(shared),
            })
        });
        // SAFETY: this thread owns the cache.
        unsafe { self.release_plans(need) };
        let bytes = before.saturating_sub(held.get());
        registry::count_release(bytes);
        self.let_go();
        bytes
    }

    /// Whether it has memory of this device, or may have.
    pub(super) fn serves(&self, device: u64) -> bool {
        self.shared.serves(device)
    }

    /// How many bytes of a device's memory the cache is likely to need again.
    pub(super) fn demand(&self, device: u64) -> u64 {
        self.shared.demand(device)
    }

    /// The end of the thread that the cache belonged to, however many entries it left open.
    pub(crate) fn close(&self) {
        self.shared.outdate();
        if self.is_mine() {
            // SAFETY: this thread owns the cache.
            unsafe { self.owned(|local, _| local.depth = 1) };
            self.let_go();
        } else {
            self.attend();
        }
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
    pub(super) fn is_entered(&self) -> bool {
        self.shared.is_entered.load(SeqCst)
    }

    pub(crate) fn stats(&self) -> ScopeStats {
        self.publish();
        self.shared.counters.read(&self.shared.returns)
    }

    /// Deals with what is due, unless another thread owns the cache.
    fn attend(&self) {
        if self.try_hold() {
            self.settle();
            self.let_go();
        }
    }

    /// Makes this thread the owner, once others that only have the cache for a moment are done. False if another thread
    /// is inside the scope.
    fn hold_unless_entered(&self) -> bool {
        while !self.try_hold() {
            if self.is_entered() {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }

    /// Deals with what is due: releases blocks after an invalidation, takes back what other threads returned, and gives
    /// back what has been idle longest while that is too much. The calling thread owns the cache.
    fn settle(&self) {
        if self.shared.is_stale() {
            let is_trimmed = self.shared.is_trimmed(self.shared.generation());
            // SAFETY: this thread owns the cache; the records are released after the borrow.
            drop(unsafe { self.owned(Local::renew) });
            // SAFETY: as above.
            unsafe { self.perform(self.owned(|local, _| local.planner.errands())) };
            if is_trimmed {
                registry::trim_to_demand(|device| self.serves(device));
            }
        }
        for mut record in self.shared.returns.take() {
            record.leave_view();
            // SAFETY: as above.
            if let Put::Released(record) = unsafe { self.owned(|local, shared| local.put(shared, record)) } {
                self.release(record);
            }
        }
        // SAFETY: as above.
        while let Some(record) = unsafe { self.owned(Local::overflow) } {
            self.release(record);
        }
        self.publish();
    }

    #[inline]
    fn is_mine(&self) -> bool {
        self.shared.owner.load(Relaxed) == TOKEN.get()
    }

    /// Makes this thread the owner, or the owner once more. False while another thread is.
    fn try_hold(&self) -> bool {
        // Looks first: an exchange takes the line away from the owner even where it fails.
        let is_free = || self.shared.owner.load(SeqCst) == NOBODY;
        let take = || self.shared.owner.compare_exchange(NOBODY, claim_token(), SeqCst, SeqCst).is_ok();
        let holds = self.is_mine() || is_free() && take();
        if holds {
            // SAFETY: this thread owns the cache.
            unsafe { self.owned(|local, _| local.depth += 1) };
        }
        holds
    }

    /// Undoes one [`try_hold`](Cache::try_hold). Who holds the cache last settles it, gives it up, and looks again;
    /// the others push or invalidate first and then try to hold it: one of the two sees what was done.
    fn let_go(&self) {
        // SAFETY: this thread owns the cache.
        let is_last = || unsafe { self.owned(|local, _| local.depth == 1) };
        while is_last() && self.shared.is_unsettled() {
            self.settle();
        }
        // SAFETY: as above.
        let depth = unsafe {
            self.owned(|local, _| {
                local.depth -= 1;
                local.depth
            })
        };
        if depth == 0 {
            self.shared.is_entered.store(false, SeqCst);
            self.shared.owner.store(NOBODY, SeqCst);
            if self.shared.is_unsettled() {
                self.attend();
            }
        }
    }

    /// Runs `act` on the owner's side.
    ///
    /// # Safety
    /// The calling thread owns the cache, and `act` reaches no code that could come back to this cache.
    #[inline]
    pub(super) unsafe fn owned<R>(&self, act: impl FnOnce(&mut Local, &Shared) -> R) -> R {
        // SAFETY: by the contract this thread alone touches `local`, and no other call of this function is under way.
        act(unsafe { &mut *self.local.get() }, &self.shared)
    }
}

thread_local! {
    /// Names this thread for good; 0 until it owns a cache for the first time.
    static TOKEN: Cell<u64> = const { Cell::new(0) };
}

fn claim_token() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    if TOKEN.get() == 0 {
        TOKEN.set(NEXT.fetch_add(1, Relaxed));
    }
    TOKEN.get()
}
