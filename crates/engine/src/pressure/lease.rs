//! The lease of a plan's block: the cache's owner serves from the block without a lock, and a thread that lacks memory may
//! revoke it all the same, if nothing in the block is alive. Where the owner is, and whether it ever runs again, is all one.
//!
//! **Protocol.** Dekker's, with a barrier that costs the owner nothing ([`barrier`]).
//!
//! - The owner *raises* `live`, and then looks at `is_revoked`, before it serves from the block. If that is set, it takes
//!   `live` back, and serves nothing before it had the lock and found the block still there ([`insist`](Lease::insist)).
//! - A thread in need takes the lock, sets `is_revoked`, and then looks at `live`. If that is 0 the block is its own, and
//!   `is_revoked` stays set; otherwise it takes that back.
//!
//! **Invariants.** Only the thread that owns the cache writes `live`, which is above 0 while anything served from the block has
//! not come back to the owner, wherever that is. Only who has the lock writes `is_revoked`, and puts or takes the block.
//! `is_revoked` is set while a thread in need decides, and from when it took the block until the owner found out.
//!
//! **Nothing is served from a block that was taken.** Of the two looks at least one comes behind the other side's store. If it
//! is the owner's, the owner goes by the lock, and finds what became of the block. If it is that of the thread in need, this
//! one sees `live` as it was raised, or as it was lowered since, when all that was served has come back. So a block is taken only
//! when all that was ever served from it has come back, and from then on the owner finds `is_revoked` set.
//!
//! **What was done with the memory is done before it is taken.** Who drops an array elsewhere hands it to the owner by the
//! return stack; the owner lowers `live` after that, with `Release`, and the thread in need reads the 0 with `Acquire`.
//! Work on the block's stream was put there before that, and the block goes back to the range as one that this
//! stream has freed now: later users are ordered behind.
//!
//! **A thread in need that finds no block idle is right**: it sets the flags of all first, so that from one barrier on what is
//! idle stays so, and looks at all of them. An owner that raises `live` meanwhile, and takes it back at once, can be met by one
//! look of two. What is found in use by both was in use, or about to be, between them.
//!
//! `interleavings` checks all of this with loom, with fences in place of the barriers.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use smallvec::SmallVec;

use super::barrier;
use crate::base::sync::{AtomicBool, AtomicU64, Lock, LockGuard, compiler_fence};
use crate::device::Stream;
use crate::range::{self, DeviceRange};

/// Who may serve from a block. Apart from what other threads write: the owner touches it with each array.
#[repr(align(128))]
pub(crate) struct Lease<B = Leased> {
    /// The bytes that are in use in the block, as they were asked for.
    live: AtomicU64,
    is_revoked: AtomicBool,
    block: Lock<Option<B>>,
}

/// The blocks of an arena or a ring.
pub(crate) struct Leased {
    /// One for an arena, and mostly one for a ring.
    pub(crate) pieces: SmallVec<[Piece; 1]>,
    pub(crate) stream: Stream,
    pub(crate) bytes: u64,
}

/// A block, with its room if it is to grow.
pub(crate) struct Piece {
    pub(crate) block: range::RangeBlock,
    pub(crate) room: Option<range::GrowthRoom>,
}

impl Piece {
    pub(crate) fn of(block: range::RangeBlock) -> Piece {
        Piece { block, room: None }
    }
}

impl Leased {
    /// Gives everything back to the range, in which nothing is alive.
    pub(crate) fn give_back(self) {
        let Some(range) = DeviceRange::of(&self.stream) else { return };
        for Piece { block, room } in self.pieces {
            range.free(&self.stream, block);
            room.into_iter().for_each(|room| range.close_room(room));
        }
    }
}

/// What an owner does with its own.
impl<B> Lease<B> {
    pub(crate) fn new() -> Lease<B> {
        Lease { live: AtomicU64::new(0), is_revoked: AtomicBool::new(false), block: Lock::new(None) }
    }

    fn block(&self) -> LockGuard<'_, Option<B>> {
        self.block.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves from this block from now on, and had none.
    pub(crate) fn begin(&self, block: B) {
        *self.block() = Some(block);
    }

    /// Takes the blocks out for a moment, in which they are changed. Nobody can revoke the lease meanwhile.
    pub(crate) fn take(&self) -> Option<B> {
        self.block().take()
    }

    /// The bytes that are in use.
    #[inline]
    pub(crate) fn live(&self) -> u64 {
        self.live.load(Relaxed)
    }

    /// So many bytes are in use from now on, instead of as many as `before`. If false, somebody revokes the lease, or did, and
    /// nothing has changed: nothing may be served then but what [`insist`](Lease::insist) allows.
    #[inline(always)]
    pub(crate) fn raise(&self, before: u64, live: u64) -> bool {
        // `Release` only so that who meets it sees as well what was lowered in other leases before.
        self.live.store(live, Release);
        compiler_fence(SeqCst);
        if self.is_revoked.load(Relaxed) {
            self.refuse(before);
            return false;
        }
        true
    }

    /// Takes back what [`raise`](Lease::raise) did. Inlined although it is rare: a call would take registers from the way of
    /// every array.
    #[cold]
    #[inline(always)]
    fn refuse(&self, before: u64) {
        self.lower(before);
    }

    /// As [`raise`](Lease::raise), once whoever revokes the lease is done. If false, the block is gone.
    pub(crate) fn insist(&self, before: u64, live: u64) -> bool {
        // Looks first, so that what is idle looks so to whoever revokes.
        if !self.is_revoked.load(Relaxed) && self.raise(before, live) {
            return true;
        }
        let block = self.block();
        if block.is_some() {
            self.live.store(live, Relaxed);
        }
        block.is_some()
    }

    /// Only so many bytes are in use from now on.
    #[inline(always)]
    pub(crate) fn lower(&self, live: u64) {
        self.live.store(live, Release);
    }

    /// Whether the block is known to be gone, for a look now and then.
    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        self.is_revoked.load(Relaxed) && self.block().is_none()
    }

    /// Serves from no block any more. Returns it, with what is alive in it, unless it is gone.
    pub(crate) fn end(&self) -> Option<B> {
        let mut block = self.block();
        self.is_revoked.store(false, Relaxed);
        self.live.store(0, Relaxed);
        block.take()
    }
}

/// A lease by which its owner begins to serve nothing meanwhile.
struct Suspended<'a, B> {
    lease: &'a Lease<B>,
    block: LockGuard<'a, Option<B>>,
}

/// For any thread: of the blocks that `may` be had takes those away that `choose` names of the ones in which nothing is alive.
/// If there are none, there was a moment at which something was alive in each of them, or about to be.
pub(crate) fn revoke<'a, B: 'a>(
    leases: impl Iterator<Item = &'a Lease<B>>,
    may: impl Fn(&B) -> bool,
    choose: impl FnOnce(&[&B]) -> Vec<usize>,
) -> Vec<B> {
    let mut leases: Vec<&Lease<B>> = leases.collect();
    // By address, and none twice, so that threads which do this at once do not wait for each other's locks in a circle.
    leases.sort_by_key(|lease| std::ptr::from_ref(*lease));
    leases.dedup_by_key(|lease| std::ptr::from_ref(*lease));
    let mut suspended: Vec<_> = leases.into_iter().filter_map(|lease| Suspended::new(lease, &may)).collect();
    if suspended.is_empty() || !barrier::heavy() {
        return Vec::new();
    }
    let mut idle: Vec<_> = suspended.extract_if(.., |suspended| suspended.is_idle()).collect();
    if idle.is_empty() {
        idle = suspended.extract_if(.., |suspended| suspended.is_idle()).collect();
    }
    let blocks: Vec<&B> = idle.iter().filter_map(|idle| idle.block.as_ref()).collect();
    let chosen = choose(&blocks);
    chosen.into_iter().filter_map(|place| idle.get_mut(place)?.block.take()).collect()
}

impl<'a, B> Suspended<'a, B> {
    /// `None` if there is no block, or none that `may` be had.
    fn new(lease: &'a Lease<B>, may: impl Fn(&B) -> bool) -> Option<Suspended<'a, B>> {
        let block = lease.block();
        block.as_ref().filter(|block| may(block))?;
        lease.is_revoked.store(true, Relaxed);
        Some(Suspended { lease, block })
    }

    fn is_idle(&self) -> bool {
        self.lease.live.load(Acquire) == 0
    }
}

impl<B> Drop for Suspended<'_, B> {
    /// The owner goes on as before, unless the block was taken.
    fn drop(&mut self) {
        self.lease.is_revoked.store(self.block.is_none(), Relaxed);
    }
}
