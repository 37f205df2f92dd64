//! The lease of a plan's block. The cache's owner serves from the block without a lock. A thread that lacks memory may still revoke
//! the lease, if nothing in the block is alive. It does not matter where the owner is, or whether it ever runs again.
//!
//! **Protocol.** This is Dekker's protocol, with a barrier that costs the owner nothing ([`barrier`]).
//!
//! - Before the owner serves from the block, it *raises* `live`, and then looks at `is_revoked`. If `is_revoked` is set, the owner
//!   lowers `live` again. It then serves nothing before it has taken the lock and found the block still there
//!   ([`insist`](Lease::insist)).
//! - A thread in need takes the lock, sets `is_revoked`, and then looks at `live`. If `live` is 0, the thread takes the block, and
//!   `is_revoked` stays set. Otherwise it clears `is_revoked` again.
//!
//! **Invariants.** Only the thread that owns the cache writes `live`. It is above 0 while anything that was served from the block
//! has not returned to the owner, wherever it is. Only the thread that has the lock writes `is_revoked`, and puts or takes the
//! block. `is_revoked` is set while a thread in need decides, and from the moment when it took the block until the owner found out.
//!
//! **Nothing is served from a block that was taken.** At least one of the two looks comes after the other side's store. If that is
//! the owner's look, the owner takes the lock, and finds out whether the block is still there. If it is the look of the thread in
//! need, this thread sees the raised `live`. Or it sees a later, lowered value, and then everything that was served has returned.
//! So a block is taken only when everything that was ever served from it has returned. From then on the owner finds `is_revoked`
//! set.
//!
//! **All uses of the memory come before it is taken.** A thread that drops an array elsewhere hands it to the owner by the return
//! stack. After that the owner lowers `live` with `Release`, and the thread in need reads the 0 with `Acquire`. All work on the
//! block's stream was put there before. The block goes back to the range as one that this stream has freed now, so later users are
//! ordered behind that work.
//!
//! **A thread in need that finds no idle block is right.** It first sets the flags of all leases. So after one barrier, every idle
//! block stays idle, and the thread looks at all of them. An owner that raises `live` meanwhile, and lowers it again at once, can
//! disturb only one of two looks. A block that both looks find in use was in use, or about to be, between them.
//!
//! `home/tests` checks all of this with loom, with fences in place of the barriers.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use smallvec::SmallVec;

use super::barrier;
use crate::base::sync::{AtomicBool, AtomicU64, Lock, LockGuard, compiler_fence};
use crate::device::Stream;
use crate::range::{self, DeviceRange};

/// The right to serve from a block. Aligned apart from data that other threads write, since the owner touches it with each array.
#[repr(align(128))]
pub(crate) struct Lease<B = Leased> {
    /// The bytes in use in the block, as they were requested.
    live: AtomicU64,
    is_revoked: AtomicBool,
    block: Lock<Option<B>>,
}

/// The blocks of an arena or a ring.
pub(crate) struct Leased {
    /// An arena has one piece, and a ring mostly has one.
    pub(crate) pieces: SmallVec<[Piece; 1]>,
    pub(crate) stream: Stream,
    pub(crate) bytes: u64,
}

/// A block, and its room if the block is meant to grow.
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
    /// Gives everything back to the range. Nothing in the blocks may be alive.
    pub(crate) fn give_back(self) {
        let Some(range) = DeviceRange::of(&self.stream) else { return };
        for Piece { block, room } in self.pieces {
            range.free(&self.stream, block);
            room.into_iter().for_each(|room| range.close_room(room));
        }
    }
}

impl Lease {
    /// The bytes of the blocks, if nothing in them is in use and they are of the queue of this stream.
    pub(super) fn idle_on(&self, stream: &Stream) -> u64 {
        let is_idle = self.live() == 0;
        let place = |stream: &Stream| (stream.memory_id(), stream.queue());
        let block = self.block();
        block
            .as_ref()
            .filter(|leased| is_idle && place(&leased.stream) == place(stream))
            .map_or(0, |leased| leased.bytes)
    }
}

/// The functions for the owner.
impl<B> Lease<B> {
    pub(crate) fn new() -> Lease<B> {
        Lease { live: AtomicU64::new(0), is_revoked: AtomicBool::new(false), block: Lock::new(None) }
    }

    fn block(&self) -> LockGuard<'_, Option<B>> {
        self.block.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to serve from this block. The lease had none before.
    pub(crate) fn begin(&self, block: B) {
        *self.block() = Some(block);
    }

    /// Takes the blocks out for a moment, to change them. Meanwhile nobody can revoke the lease.
    pub(crate) fn take(&self) -> Option<B> {
        self.block().take()
    }

    /// The bytes in use.
    #[inline]
    pub(crate) fn live(&self) -> u64 {
        self.live.load(Relaxed)
    }

    /// Raises the bytes in use from `before` to `live`. If it returns false, another thread revokes the lease or has revoked it,
    /// and nothing has changed. Then nothing may be served, unless [`insist`](Lease::insist) allows it.
    #[inline(always)]
    pub(crate) fn raise(&self, before: u64, live: u64) -> bool {
        // `Release`, so that a thread which sees this value also sees the lowered values of other leases from before.
        self.live.store(live, Release);
        compiler_fence(SeqCst);
        if self.is_revoked.load(Relaxed) {
            self.refuse(before);
            return false;
        }
        true
    }

    /// Undoes [`raise`](Lease::raise). Inline although it is rare: a call would take registers from the path of every array.
    #[cold]
    #[inline(always)]
    fn refuse(&self, before: u64) {
        self.lower(before);
    }

    /// As [`raise`](Lease::raise), but waits until a thread that revokes the lease is done. If it returns false, the block is gone.
    pub(crate) fn insist(&self, before: u64, live: u64) -> bool {
        // Looks before it raises `live`, so that an idle block looks idle to a thread that revokes.
        if !self.is_revoked.load(Relaxed) && self.raise(before, live) {
            return true;
        }
        let block = self.block();
        if block.is_some() {
            self.live.store(live, Relaxed);
        }
        block.is_some()
    }

    /// Lowers the bytes in use to `live`.
    #[inline(always)]
    pub(crate) fn lower(&self, live: u64) {
        self.live.store(live, Release);
    }

    /// Whether the block is known to be gone. For regular checks.
    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        self.is_revoked.load(Relaxed) && self.block().is_none()
    }

    /// Ends the lease, and returns the block with everything that is alive in it, unless the block is gone.
    pub(crate) fn end(&self) -> Option<B> {
        let mut block = self.block();
        self.is_revoked.store(false, Relaxed);
        self.live.store(0, Relaxed);
        block.take()
    }
}

/// A lease that is suspended: its owner cannot begin to serve from the block.
struct Suspended<'a, B> {
    lease: &'a Lease<B>,
    block: LockGuard<'a, Option<B>>,
}

/// For any thread: takes blocks away. Of the blocks for which `may` holds and in which nothing is alive, `choose` names the ones to
/// take. If no block was idle, there was a moment at which something was alive, or about to be, in each of them.
pub(crate) fn revoke<'a, B: 'a>(
    leases: impl Iterator<Item = &'a Lease<B>>,
    may: impl Fn(&B) -> bool,
    choose: impl FnOnce(&[&B]) -> Vec<usize>,
) -> Vec<B> {
    let mut leases: Vec<&Lease<B>> = leases.collect();
    // Sorted by address, and none twice. So threads that do this at once do not wait for each other's locks in a circle.
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
    /// `None` if there is no block, or `may` does not hold for it.
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
