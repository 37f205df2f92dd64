//! The slots of a pool whose arrays are on the device, and the order in which these arrays leave.
//!
//! Arrays on the host are not here. So the cost of finding the next array to leave depends on the arrays on the device alone.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Weak;
use std::sync::atomic::Ordering::Relaxed;

use super::tag::Tag;
use gpucache_engine::base::sync::{Mutex, lock};

/// The time of the last use, and the number of the slot. The smallest key leaves first.
type Key = (u64, Reverse<u64>);

/// The slots on the device.
pub(super) struct Present<S: ?Sized> {
    /// By their numbers. A slot takes this lock while its own one is held, so nobody may lock or drop a slot under this lock.
    slots: Mutex<BTreeMap<u64, Weak<S>>>,
    /// Also taken under the lock of a slot.
    line: Mutex<Line<S>>,
}

/// The slots in the order in which they leave.
struct Line<S: ?Sized> {
    /// The next one is at the end.
    victims: Vec<(Key, Weak<S>)>,
    /// The time when this was made. Slots with a later use are not in it.
    made: u64,
    /// The key of the last one that was taken out; `None` once all were, so that none returns.
    taken: Option<Key>,
}

fn key(tag: &Tag) -> Key {
    (tag.used.load(Relaxed), Reverse(tag.id))
}

impl<S: ?Sized> Default for Present<S> {
    fn default() -> Self {
        let line = Line { victims: Vec::new(), made: 0, taken: None };
        Present { slots: Mutex::default(), line: Mutex::new(line) }
    }
}

impl<S: ?Sized> Present<S> {
    /// The array of a slot comes to the device. If its turn in the line is yet to come, as it left meanwhile without a use, it gets that.
    pub(super) fn enter(&self, tag: &Tag, slot: &Weak<S>) {
        lock(&self.slots).insert(tag.id, slot.clone());
        let key = key(tag);
        let line = &mut *lock(&self.line);
        if key.0 <= line.made
            && line.taken.is_some_and(|taken| key > taken)
            && let Err(place) = line.victims.binary_search_by(|(other, _)| key.cmp(other))
        {
            line.victims.insert(place, (key, slot.clone()));
        }
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
    pub(super) fn line_up(&self, made: u64, tag: impl Fn(&S) -> &Tag) {
        let keyed = |slot: Weak<S>| Some((key(tag(&*slot.upgrade()?)), slot));
        let mut victims: Vec<_> = self.now().into_iter().filter_map(keyed).collect();
        victims.sort_unstable_by_key(|(key, _)| Reverse(*key));
        let taken = Some((0, Reverse(u64::MAX)));
        let before = std::mem::replace(&mut *lock(&self.line), Line { victims, made, taken });
        drop(before);
    }

    /// The next slot in the line, and the time of its last use when it got its place. `None` at the end.
    pub(super) fn next(&self) -> Option<(u64, Weak<S>)> {
        let mut line = lock(&self.line);
        let next = line.victims.pop();
        line.taken = next.as_ref().map(|(key, _)| *key);
        next.map(|((used, _), slot)| (used, slot))
    }
}
