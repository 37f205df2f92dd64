//! Decides who may touch the owner's side of a cache: one thread at a time, without a lock.
//!
//! A thread owns the cache from its outermost entry of the scope to the exit of that entry. Other threads hold the cache for a
//! moment while nobody is inside.
//!
//! Invariants: `owner` names at most one thread. Only that thread touches `inside`, notes in `owner` that it has entered, and takes
//! itself out. `depth` is above zero while there is an owner.
//!
//! A thread that leaves work for the holder first leaves the work, and then calls [`Hold::attend`]. The last holder first gives the
//! cache up, and then looks whether work is due. Both acts and both looks are sequentially consistent, so at least one of the two
//! threads sees what the other did. `home/tests` checks this with loom.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

#[cfg(debug_assertions)]
use crate::base::finally::Finally;
use crate::base::finally::finally;
#[cfg(debug_assertions)]
use crate::base::held::Held;
use crate::base::sync::{AtomicU64, UnsafeCell, yield_now};

/// No thread owns the cache. No thread's token is as large as this.
const NOBODY: u64 = u64::MAX - 1;
/// The lowest bit of `owner`, beside the owner's token, which is shifted left by one. It says whether the owner is inside the scope
/// or only holds the cache to do work that is due. Both are in one number, so that an entry costs one exchange and an exit one
/// store.
const ENTERED: u64 = 1;
const HOLDING: u64 = 0;

pub(crate) struct Hold<T> {
    /// The owning thread's token with [`ENTERED`] or [`HOLDING`], or [`NOBODY`].
    owner: AtomicU64,
    inside: UnsafeCell<Content<T>>,
}

#[repr(C)]
struct Content<T> {
    content: T,
    /// How many reasons the owner has to keep the cache: open entries of the scope, and calls under way.
    depth: usize,
    /// Whether the contents are borrowed now.
    #[cfg(debug_assertions)]
    is_borrowed: bool,
}

/// The work that a holder of the cache has to do before it gives the cache up.
pub(crate) trait Duties {
    /// Whether work is due. This is a sequentially consistent look at what other threads did.
    fn is_due(&self) -> bool;

    /// Does the work that is due. The calling thread owns the cache.
    fn catch_up(&self);
}

// SAFETY: `owner` is atomic. Only the thread that won `owner` by an exchange touches `inside`, and it gives the cache up by a
// store. Both are sequentially consistent, so the uses of `inside` by different threads are ordered.
unsafe impl<T: Send> Sync for Hold<T> {}

impl<T> Hold<T> {
    pub(crate) fn new(content: T) -> Hold<T> {
        let inside = UnsafeCell::new(Content {
            content,
            depth: 0,
            #[cfg(debug_assertions)]
            is_borrowed: false,
        });
        Hold { owner: AtomicU64::new(NOBODY), inside }
    }

    /// Whether the thread with the token `me` owns the cache. Here and below, `me` is the token of the calling thread.
    #[inline]
    pub(crate) fn is_mine(&self, me: u64) -> bool {
        self.owner.load(Relaxed) >> 1 == me
    }

    /// Whether a thread is inside the scope.
    pub(crate) fn is_entered(&self) -> bool {
        self.owner.load(SeqCst) & ENTERED == ENTERED
    }

    /// Makes this thread the owner, or the owner once more, and notes that it is inside. Waits while another thread owns the cache.
    pub(crate) fn enter(&self, me: u64) {
        while !self.try_hold_as(me, ENTERED) {
            yield_now();
        }
    }

    /// Makes this thread the owner, or the owner once more. False while another thread owns the cache.
    pub(crate) fn try_hold(&self, me: u64) -> bool {
        self.try_hold_as(me, HOLDING)
    }

    #[inline]
    fn try_hold_as(&self, me: u64, purpose: u64) -> bool {
        let own = me << 1 | purpose;
        // Looks before it exchanges: an exchange takes the line out of the owner's processor cache even if it fails.
        let holds = match self.owner.load(SeqCst) {
            NOBODY => self.owner.compare_exchange(NOBODY, own, SeqCst, SeqCst).is_ok(),
            mine if mine >> 1 == me => {
                if mine < own {
                    self.owner.store(own, SeqCst);
                }
                true
            }
            _ => false,
        };
        if holds {
            // SAFETY: this thread owns the cache: its token stands in `owner`, or the exchange has just put it there.
            unsafe { self.set_depth(self.depth() + 1) };
        }
        holds
    }

    /// Makes this thread the owner, after other threads that only hold the cache for a moment. False if another thread is inside
    /// the scope.
    pub(crate) fn hold_unless_entered(&self, me: u64) -> bool {
        while !self.try_hold(me) {
            if self.is_entered() {
                return false;
            }
            yield_now();
        }
        true
    }

    /// Runs `act`, and then undoes one [`try_hold`](Hold::try_hold) or [`enter`](Hold::enter). It also does so if `act` or the due
    /// work panics, so the next entry finds the cache as usable as before. Returns whether this call gave the cache up and work was
    /// due afterwards.
    ///
    /// # Safety
    /// This thread owns the cache.
    pub(crate) unsafe fn exit_after(&self, me: u64, duties: &impl Duties, act: impl FnOnce()) -> bool {
        let leaving = finally(|| {
            // SAFETY: by this function's contract this thread owns the cache, until the store to `owner` below.
            let depth = unsafe { self.depth() } - 1;
            // SAFETY: this thread still owns the cache, since nothing has stored to `owner` in between.
            unsafe { self.set_depth(depth) };
            if depth == 0 {
                self.owner.store(NOBODY, SeqCst);
            }
        });
        act();
        // SAFETY: this thread owns the cache by this function's contract, and no other thread can take it before `leaving` gives it
        // up below.
        let depth = || unsafe { self.depth() };
        while depth() == 1 && duties.is_due() {
            duties.catch_up();
        }
        let is_last = depth() == 1;
        drop(leaving);
        let has_come_back = is_last && duties.is_due();
        if has_come_back {
            self.attend(me, duties);
        }
        has_come_back
    }

    /// Does the work that is due, unless another thread owns the cache. That thread looks when it leaves.
    pub(crate) fn attend(&self, me: u64, duties: &impl Duties) {
        if self.try_hold(me) {
            // SAFETY: this thread owns the cache, since `try_hold` returned true.
            unsafe { self.exit_after(me, duties, || ()) };
        }
    }

    /// How many times this thread has entered or holds the cache.
    ///
    /// # Safety
    /// This thread owns the cache.
    pub(crate) unsafe fn depth(&self) -> usize {
        // SAFETY: this thread owns the cache by this function's contract, so no other thread touches `depth`. The value is read at
        // once, and no reference to it is kept.
        self.inside.with_mut(|inside| unsafe { (*inside).depth })
    }

    /// Sets how many times this thread has entered or holds the cache.
    ///
    /// # Safety
    /// This thread owns the cache.
    unsafe fn set_depth(&self, depth: usize) {
        // SAFETY: this thread owns the cache by this function's contract, so no other thread touches `depth`. The value is written
        // at once, and no reference to it is kept.
        self.inside.with_mut(|inside| unsafe { (*inside).depth = depth });
    }

    /// Runs `act` on the contents.
    ///
    /// # Safety
    /// This thread owns the cache, and `act` reaches no code that could call back into this cache.
    #[inline(always)]
    pub(crate) unsafe fn owned<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        #[cfg(debug_assertions)]
        let _borrowed = self.note_borrow();
        #[cfg(debug_assertions)]
        let _held = Held::begin();
        // SAFETY: by the contract, only this thread touches the contents, and no other call of this function is under way.
        self.inside.with_mut(|inside| act(unsafe { &mut (*inside).content }))
    }

    /// Marks the contents as borrowed until the returned value is dropped. Panics if somebody calls back into the cache meanwhile.
    #[cfg(debug_assertions)]
    fn note_borrow(&self) -> Finally<impl FnMut()> {
        let note = |is_borrowed| {
            // SAFETY: only `owned` calls this function, and by its contract only this thread touches the contents.
            let before =
                self.inside.with_mut(|inside| unsafe { std::mem::replace(&mut (*inside).is_borrowed, is_borrowed) });
            debug_assert!(before != is_borrowed, "a cache is touched from within");
        };
        note(true);
        finally(move || note(false))
    }
}
