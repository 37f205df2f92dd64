//! Who may touch the owner's side of a cache: one thread at a time, without a lock.
//!
//! A thread owns it from its outermost entry of the scope to the exit of it; others hold it for a moment while nobody is
//! inside. Invariants: `owner` names at most one thread, and only that thread touches `inside`, says there that it has entered,
//! and takes itself out; `depth` is above zero while there is an owner.
//!
//! Whoever leaves something to do for the holder does that first and then calls [`Hold::attend`]. Who holds it last gives it
//! up first and then looks whether something is due. Both acts and both looks are sequentially consistent, so that one
//! of the two sees what the other did. `interleavings` checks this with loom.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

#[cfg(debug_assertions)]
use crate::base::held::Held;
use crate::base::sync::{AtomicU64, UnsafeCell, yield_now};

/// No thread owns the cache. No thread's token is as large.
const NOBODY: u64 = u64::MAX - 1;
/// Beside the owner's token, which is one place further left: whether it is inside the scope, and not only there to deal with
/// something. One number for both, so that an entry costs one exchange and an exit one store.
const ENTERED: u64 = 1;
const HOLDING: u64 = 0;

pub(crate) struct Hold<T> {
    /// The token of the owning thread with [`ENTERED`] or [`HOLDING`], or [`NOBODY`].
    owner: AtomicU64,
    inside: UnsafeCell<Content<T>>,
}

#[repr(C)]
struct Content<T> {
    content: T,
    /// How many reasons the owner has to keep it: open entries of the scope, and calls under way.
    depth: usize,
    /// Whether the contents are borrowed now.
    #[cfg(debug_assertions)]
    is_borrowed: bool,
}

/// What whoever holds the cache has to see to before it goes.
pub(crate) trait Duties {
    /// Whether anything is due, as a sequentially consistent look at what other threads did.
    fn is_due(&self) -> bool;

    /// Does what is due. The calling thread owns the cache.
    fn catch_up(&self);
}

// SAFETY: `owner` is atomic. `inside` is touched only by the thread that won `owner` by an exchange,
// and is given up by a store, both sequentially consistent, so its uses by different threads are ordered.
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

    /// Whether the thread with this token owns it; the calling thread, here and below.
    #[inline]
    pub(crate) fn is_mine(&self, me: u64) -> bool {
        self.owner.load(Relaxed) >> 1 == me
    }

    /// Whether a thread is inside the scope.
    pub(crate) fn is_entered(&self) -> bool {
        self.owner.load(SeqCst) & ENTERED == ENTERED
    }

    /// Makes this thread the owner, or the owner once more, while it is inside. Waits for others that hold it for a moment.
    pub(crate) fn enter(&self, me: u64) {
        while !self.try_hold_as(me, ENTERED) {
            yield_now();
        }
    }

    /// Makes this thread the owner, or the owner once more. False while another thread is.
    pub(super) fn try_hold(&self, me: u64) -> bool {
        self.try_hold_as(me, HOLDING)
    }

    #[inline]
    fn try_hold_as(&self, me: u64, purpose: u64) -> bool {
        let own = me << 1 | purpose;
        // Looks first: an exchange takes the line away from the owner even where it fails.
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
            // SAFETY: this thread owns it: its token stands in `owner`, or the exchange has just put it there.
            unsafe { self.set_depth(self.depth() + 1) };
        }
        holds
    }

    /// Makes this thread the owner, once others that only hold it for a moment are done. False if another thread is inside
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

    /// Undoes one [`try_hold`](Hold::try_hold) or [`enter`](Hold::enter), once `act` is done. Where that panics, or what is due does,
    /// it is undone too, so that the next entry finds the cache as usable as before. Returns whether it was given up and something was due
    /// then.
    ///
    /// # Safety
    /// This thread owns it.
    pub(crate) unsafe fn exit_after(&self, me: u64, duties: &impl Duties, act: impl FnOnce()) -> bool {
        let leaving = Leaving(self);
        act();
        // SAFETY: this thread owns it by this function's contract, and nobody else can take it before `leaving` gives it up below.
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

    /// As [`exit_after`](Hold::exit_after), with nothing to do.
    ///
    /// # Safety
    /// This thread owns it.
    pub(crate) unsafe fn exit(&self, me: u64, duties: &impl Duties) -> bool {
        // SAFETY: by the same contract.
        unsafe { self.exit_after(me, duties, || ()) }
    }

    /// Deals with what is due, unless another thread owns it, which looks when it leaves.
    pub(crate) fn attend(&self, me: u64, duties: &impl Duties) {
        if self.try_hold(me) {
            // SAFETY: this thread owns it since `try_hold` said so.
            unsafe { self.exit(me, duties) };
        }
    }

    /// How often this thread holds it.
    ///
    /// # Safety
    /// This thread owns it.
    pub(crate) unsafe fn depth(&self) -> usize {
        // SAFETY: this thread owns it by this function's contract, so that no other one touches `depth`, which is read in one
        // step and lent to nobody.
        self.inside.with_mut(|inside| unsafe { (*inside).depth })
    }

    /// Says how often this thread holds it: 1 where its end undoes all entries at once.
    ///
    /// # Safety
    /// This thread owns it.
    pub(crate) unsafe fn set_depth(&self, depth: usize) {
        // SAFETY: this thread owns it by this function's contract, so that no other one touches `depth`, which is written in one
        // step and lent to nobody.
        self.inside.with_mut(|inside| unsafe { (*inside).depth = depth });
    }

    /// Runs `act` on the contents.
    ///
    /// # Safety
    /// This thread owns it, and `act` reaches no code that could come back to it.
    #[inline(always)]
    pub(crate) unsafe fn owned<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        #[cfg(debug_assertions)]
        let _borrowed = BorrowNote::begin(self);
        #[cfg(debug_assertions)]
        let _held = Held::begin();
        // SAFETY: by the contract this thread alone touches it, and no other call of this function is under way.
        self.inside.with_mut(|inside| act(unsafe { &mut (*inside).content }))
    }

    /// Sees to it that nobody comes back while the contents are borrowed.
    #[cfg(debug_assertions)]
    fn note_borrow(&self, is_borrowed: bool) {
        // SAFETY: called by `owned` alone, whose contract says that this thread alone touches it.
        let before =
            self.inside.with_mut(|inside| unsafe { std::mem::replace(&mut (*inside).is_borrowed, is_borrowed) });
        debug_assert!(before != is_borrowed, "a cache is touched from within");
    }
}

/// Gives up one hold of the calling thread when it goes, whatever the reason.
struct Leaving<'a, T>(&'a Hold<T>);

impl<T> Drop for Leaving<'_, T> {
    fn drop(&mut self) {
        let Leaving(hold) = self;
        // SAFETY: `exit_after` alone makes one, by whose contract this thread owns it, until the store to `owner` below.
        let depth = unsafe { hold.depth() } - 1;
        // SAFETY: this thread still owns it: nothing since has stored to `owner`.
        unsafe { hold.set_depth(depth) };
        if depth == 0 {
            hold.owner.store(NOBODY, SeqCst);
        }
    }
}

/// The contents are borrowed as long as it is there: until a panic at the longest.
#[cfg(debug_assertions)]
struct BorrowNote<'a, T>(&'a Hold<T>);

#[cfg(debug_assertions)]
impl<'a, T> BorrowNote<'a, T> {
    fn begin(hold: &'a Hold<T>) -> BorrowNote<'a, T> {
        hold.note_borrow(true);
        BorrowNote(hold)
    }
}

#[cfg(debug_assertions)]
impl<T> Drop for BorrowNote<'_, T> {
    fn drop(&mut self) {
        self.0.note_borrow(false);
    }
}
