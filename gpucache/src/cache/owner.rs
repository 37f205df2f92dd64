//! A cache: the owner's side, everyone's side, and the rule that says when the first may be touched.
//!
//! Invariants: `local` is touched only by the thread whose token `shared.owner` holds, while `depth` is above zero, and
//! no reference into it is alive while a device is called. A thread owns the cache from its outermost entry of the
//! scope to the exit of it; others take it for a moment, while nobody is inside. A cache lives as long as the process.
#![allow(unsafe_code)]

use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use super::block::{Home, Record};
use super::local::{Fresh, Local};
use super::policy::Recycle;
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
    pub(crate) fn enter(&self, recycle: Recycle) {
        while !self.try_hold() {
            std::thread::yield_now();
        }
        self.shared.is_entered.store(true, SeqCst);
        self.shared.counters.entries.add(1);
        // SAFETY: this thread owns the cache.
        unsafe { self.owned(|local, _| local.set_recycle(recycle)) };
        if self.shared.is_unsettled() {
            self.settle();
        }
    }

    /// Leaves the scope. Nothing to do on a thread that does not own the cache (its end took it away).
    pub(crate) fn leave(&self) {
        if self.is_mine() {
            self.let_go();
        }
    }

    /// A block from the keyed lists, else from the device. `keeps` says whether it returns to the lists.
    ///
    /// # Safety
    /// The calling thread is inside the scope.
    #[inline]
    pub(super) unsafe fn allocate(
        &'static self,
        stream: &Stream,
        request: &Request<'_>,
        keeps: bool,
    ) -> Result<Box<Record>> {
        if keeps {
            // SAFETY: inside the scope, this thread owns the cache; `pop` touches lists and counters alone.
            if let Some(record) = unsafe { self.owned(|local, shared| local.pop(shared, request, stream.id())) } {
                return Ok(record);
            }
        }
        self.miss(stream, request, keeps)
    }

    /// As [`allocate`](Cache::allocate), with its contract, once the lists have nothing.
    #[inline(never)]
    fn miss(&'static self, stream: &Stream, request: &Request<'_>, keeps: bool) -> Result<Box<Record>> {
        if keeps && self.shared.is_unsettled() {
            self.settle();
            // SAFETY: as in `allocate`.
            if let Some(record) = unsafe { self.owned(|local, shared| local.pop(shared, request, stream.id())) } {
                return Ok(record);
            }
        }
        let Supplied { mut record, calls } = match keeps {
            // SAFETY: as in `allocate`.
            true => supply::from_range(stream, request, unsafe { self.owned(|local, _| local.spare()) })?,
            false => Supplied { record: supply::from_device(stream, request)?, calls: u64::from(request.bytes > 0) },
        };
        self.shared.note_device(stream.memory_id());
        let fresh = Fresh { record: &mut record, request, stream: stream.id(), keeps, calls };
        // SAFETY: as above; `adopt` touches lists and counters alone.
        unsafe { self.owned(|local, shared| local.adopt(self, shared, fresh)) };
        Ok(record)
    }

    /// Takes a block back, from any thread.
    #[inline]
    pub(super) fn give_back(&self, record: Box<Record>) {
        if !self.is_mine() {
            return self.give_back_from_outside(record);
        }
        // SAFETY: this thread owns the cache; `put` and `is_over_budget` touch lists and counters alone.
        let (released, is_over) =
            unsafe { self.owned(|local, shared| (local.put(shared, record), local.is_over_budget(shared))) };
        if let Some(record) = released {
            self.release(record);
        } else if is_over || self.shared.is_stale() {
            self.settle();
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
            registry::trim_to_demand();
        }
        if self.shared.is_unsettled() {
            self.settle();
        }
    }

    /// A drop by a thread that is not inside the scope: at once if nobody is, else when the owner looks.
    #[cold]
    fn give_back_from_outside(&self, record: Box<Record>) {
        self.shared.returns.push(record);
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

    /// Gives idle blocks back to their range, unless another thread is inside the scope. Returns their bytes.
    pub(super) fn release_idle(&self, which: Idle) -> u64 {
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
        let bytes = before.saturating_sub(held.get());
        registry::count_release(bytes);
        self.let_go();
        bytes
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

    pub(crate) fn stats(&self) -> ScopeStats {
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
            if self.shared.is_entered.load(SeqCst) {
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
            if is_trimmed {
                registry::trim_to_demand();
            }
        }
        for record in self.shared.returns.take() {
            // SAFETY: as above.
            if let Some(record) = unsafe { self.owned(|local, shared| local.put(shared, record)) } {
                self.release(record);
            }
        }
        // SAFETY: as above.
        while let Some(record) = unsafe { self.owned(Local::overflow) } {
            self.release(record);
        }
    }

    #[inline]
    fn is_mine(&self) -> bool {
        self.shared.owner.load(Relaxed) == TOKEN.get()
    }

    /// Makes this thread the owner, or the owner once more. False while another thread is.
    fn try_hold(&self) -> bool {
        let holds = self.is_mine() || self.shared.owner.compare_exchange(NOBODY, claim_token(), SeqCst, SeqCst).is_ok();
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
    unsafe fn owned<R>(&self, act: impl FnOnce(&mut Local, &Shared) -> R) -> R {
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
