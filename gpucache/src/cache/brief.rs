//! A cache that a thread holds for a moment while nobody is inside the scope: to take blocks back, to invalidate, to give memory back.
//!
//! The thread that the cache belongs to waits for that when it enters the scope. So it is a lock, and no code of the program runs under
//! it: there is no news of plans to tell then, as those come of an entry's end.

use std::ops::Deref;

use super::owner::{Cache, Owner};
use crate::base::held::Held;

/// The proof that the calling thread owns a cache, until it gives it up.
pub(super) struct BriefOwner {
    owner: Owner,
    /// Not where the thread is inside of the scope anyway, since nobody waits for that.
    held: Option<Held>,
}

impl Deref for BriefOwner {
    type Target = Owner;

    fn deref(&self) -> &Owner {
        &self.owner
    }
}

impl BriefOwner {
    /// Undoes one [`hold_unless_entered`](Cache::hold_unless_entered).
    pub(super) fn exit(self) {
        let BriefOwner { owner, held } = self;
        owner.exit();
        drop(held);
    }
}

impl Cache {
    /// The proof that the calling thread owns the cache, for the moment, if no thread is inside the scope. Waits for others that hold it
    /// for a moment.
    pub(super) fn hold_unless_entered(&'static self) -> Option<BriefOwner> {
        let owner = if self.try_to_hold() { self.owner() } else { None }?;
        let held = (!owner.is_entered()).then(Held::begin);
        Some(BriefOwner { owner, held })
    }
}
