//! The slots of a pool whose arrays are on the device, and the order in which these arrays leave.
//!
//! Arrays on the host are not here. So the cost of finding the next array to leave depends on the arrays on the device alone.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Weak;
use std::sync::atomic::Ordering::Relaxed;

use super::placement::Tag;
use gpucache_engine::base::sync::{Mutex, lock};

/// The time of the last use, and the number of the slot. The smallest key leaves first.
type Key = (u64, Reverse<u64>);

/// The slots on the device.
pub(super) struct Present<S: ?Sized> {
    /// By their numbers. A slot takes this lock while its own one is held, so nobody may lock or drop a slot under this lock.
    slots: Mutex<BTreeMap<u64, Weak<S>>>,
    /// The slots that leave next, the next one at the end. A slot that came after they were sorted waits until they are sorted again.
    line: Mutex<Vec<(Key, Weak<S>)>>,
}

fn key(tag: &Tag) -> Key {
    (tag.used.load(Relaxed), Reverse(tag.id))
}

impl<S: ?Sized> Default for Present<S> {
    fn default() -> Self {
        Present { slots: Mutex::default(), line: Mutex::default() }
    }
}

impl<S: ?Sized> Present<S> {
    /// The array of a slot comes to the device.
    pub(super) fn enter(&self, tag: &Tag, slot: &Weak<S>) {
        lock(&self.slots).insert(tag.id, slot.clone());
    }

    /// The array of a slot leaves the device.
    pub(super) fn leave(&self, tag: &Tag) {
        let left = lock(&self.slots).remove(&tag.id);
        drop(left);
    }

    /// The slots on the device now, the oldest first.
    pub(super) fn now(&self) -> Vec<Weak<S>> {
        lock(&self.slots).values().cloned().collect()
    }

    /// Sorts all slots by their last use, once for many that leave. Slots that are used meanwhile do not leave.
    pub(super) fn line_up(&self, tag: impl Fn(&S) -> &Tag) {
        let keyed = |slot: Weak<S>| Some((key(tag(&*slot.upgrade()?)), slot));
        let mut victims: Vec<_> = self.now().into_iter().filter_map(keyed).collect();
        victims.sort_unstable_by_key(|(key, _)| Reverse(*key));
        let before = std::mem::replace(&mut *lock(&self.line), victims);
        drop(before);
    }

    /// The next slot in the line, and the time of its last use when it got its place. `None` at the end.
    pub(super) fn next(&self) -> Option<(u64, Weak<S>)> {
        let next = lock(&self.line).pop();
        next.map(|((used, _), slot)| (used, slot))
    }
}
