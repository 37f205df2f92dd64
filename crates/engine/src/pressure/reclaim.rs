//! Who may have memory to give, and how it is taken out of them when a device is short.
//!
//! Ages tell which scope was entered least recently, by a clock that costs an entry a load and a store. It goes on only where memory is
//! taken from a device or found missing, and not with each entry, which would have all threads write one word. So scopes that were
//! entered since the last time are of one age; of those the one goes first that was entered less often.
//!
//! Invariant: whoever holds memory stands in `HOLDERS`, and knows whether it does. One that is found to hold nothing is taken
//! out, so that a walk costs by what is held and not by how many names there are.

use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, PoisonError};

use super::lease::{self, Lease, Leased};
use super::steps::ReclaimStats;
use super::transit::Transit;
use crate::base::amounts::{add, total};
use crate::base::error::Result;
use crate::base::shortage::ScopeMemory;
use crate::base::sync::{Mutex, MutexGuard, OnceLock};

/// Which idle blocks to give back.
#[derive(Clone, Copy)]
pub(crate) enum Idle {
    /// Those of scopes that keep a budget anyway.
    Budgeted,
    /// As `Budgeted`, where the range may grow instead: a plan keeps its block unless its stream goes through this queue. What
    /// works on two streams at the same time would take it from each other in turn.
    OfQueue(u64),
    All,
}

/// Who has idle memory released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Releaser {
    /// The program, by a trim.
    Trim,
    /// The limit of idle memory.
    IdleLimit,
    /// A request that finds too little memory, or another limit.
    Others,
}

/// Above 0, which stands for what nobody will enter soon.
static CLOCK: AtomicU64 = AtomicU64::new(1);

/// The time by which ages are told.
#[inline]
pub(crate) fn now() -> u64 {
    CLOCK.load(Relaxed)
}

/// What is entered from now on is younger.
pub(crate) fn tick() {
    CLOCK.fetch_add(1, Relaxed);
}

/// Who holds memory that others may need more.
pub(crate) trait Holder: Sync {
    /// Whether it has memory of this device, or may have.
    fn serves(&self, device: u64) -> bool;

    /// Gives idle blocks back to their range, where nobody else is at work with them; what it is at work with itself if that is
    /// better than to let the range grow by `need` bytes. Returns the bytes.
    fn release_idle(&'static self, which: Idle, need: u64, by: Releaser) -> u64;

    /// Gives at least so many idle bytes back to their range, or what there is, where no other thread is inside: what was idle
    /// longest in its lists first, and its plan's blocks only once those are empty. Returns the bytes.
    fn release_some(&'static self, enough: u64, by: Releaser) -> u64;

    /// When it was entered last, by [`now`], 0 if its thread has ended; and how often it was entered.
    fn age(&self) -> (u64, u64);

    /// The name of its scope.
    fn name(&self) -> Option<Arc<str>>;

    /// An allocation of its scope found no memory, and took the reclaim steps.
    fn count_reclaim(&'static self, reclaim: &ReclaimStats, is_limited: bool);

    /// Where its scope was made.
    fn site(&self) -> Option<&'static Location<'static>>;

    /// Whether it held nothing, and need not be found any more.
    fn forget_holding(&'static self) -> bool;

    /// Bytes that are in use, and bytes that are idle.
    fn held_bytes(&'static self) -> (u64, u64);

    /// Of the blocks that it serves from without a lock.
    fn leases(&'static self) -> [&'static Lease; 2];
}

type Holders = Vec<&'static dyn Holder>;

fn holders() -> MutexGuard<'static, Holders> {
    static HOLDERS: Mutex<Holders> = Mutex::new(Vec::new());
    HOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A holder has memory from now on.
#[cold]
pub(crate) fn register(holder: &'static dyn Holder) {
    holders().push(holder);
}

/// Gives idle blocks of all scopes on a device back to its range, except where another thread is inside. Where a plan
/// serves an entry, its block goes back if that is better than to let the range grow by `need` bytes. Returns the bytes.
pub(crate) fn release_idle(which: Idle, device: u64, need: u64, by: Releaser) -> u64 {
    let (mut bytes, mut place) = (0, holders().len());
    // From behind: what is taken out is replaced by the last one, which was walked over already.
    while place > 0 {
        place -= 1;
        let Some(holder) = holders().get(place).copied() else { continue };
        if holder.serves(device) {
            add(&mut bytes, holder.release_idle(which, need, by));
        }
        if holder.forget_holding() {
            let mut holders = holders();
            let same = |other: &&'static dyn Holder| std::ptr::addr_eq(*other, holder);
            if let Some(place) = holders.iter().rposition(same) {
                holders.swap_remove(place);
            }
        }
    }
    bytes
}

/// Takes plans' blocks of a device away in which nothing is alive, whoever is inside of their scopes, for a request of so many
/// bytes, and gives them back to the range. Not where a graph is captured on their stream, in which a scope without its
/// block would fail. Returns the bytes; 0 if there was no such block at one moment at least.
pub(crate) fn revoke(device: u64, need: u64) -> u64 {
    let leases = serving(device).flat_map(|holder| holder.leases());
    let may = |leased: &Leased| leased.stream.memory_id() == device && !leased.stream.is_capturing();
    let mut transit = None;
    let taken = lease::revoke(leases, may, |idle| {
        let sizes: Vec<u64> = idle.iter().map(|leased| leased.bytes).collect();
        transit = (!sizes.is_empty()).then(Transit::begin);
        chosen(&sizes, need)
    });
    let bytes = total(taken.iter().map(|leased| leased.bytes));
    taken.into_iter().for_each(Leased::give_back);
    count_release(bytes);
    bytes
}

/// Which of some blocks are to make room for so many bytes: the smallest that does alone, otherwise the largest ones.
fn chosen(sizes: &[u64], need: u64) -> Vec<usize> {
    let mut places: Vec<usize> = (0..sizes.len()).collect();
    if let Some(place) = places.iter().copied().filter(|&place| sizes[place] >= need).min_by_key(|&place| sizes[place])
    {
        return vec![place];
    }
    places.sort_by_key(|&place| std::cmp::Reverse(sizes[place]));
    let mut room = 0;
    places.retain(|&place| {
        let is_needed = room < need;
        add(&mut room, sizes[place]);
        is_needed
    });
    places
}

/// How much of a device is in use in scopes. One that serves several devices counts for each.
pub(super) fn busy(device: u64) -> u64 {
    total(serving(device).map(|holder| holder.held_bytes().0))
}

/// Whoever may have memory of a device.
fn serving(device: u64) -> impl Iterator<Item = &'static dyn Holder> {
    let holders = holders().clone();
    holders.into_iter().filter(move |holder| holder.serves(device))
}

/// Whoever may have memory of a device but `own`, or of any device, in the order in which they give it: those that nobody will enter
/// soon, then by when they were entered last.
pub(crate) fn by_age(device: Option<u64>, own: Option<&'static dyn Holder>) -> Vec<&'static dyn Holder> {
    let is_own = |holder: &dyn Holder| own.is_some_and(|own| std::ptr::addr_eq(own, holder));
    let serves = |holder: &dyn Holder| device.is_none_or(|device| holder.serves(device));
    let mut known = holders().clone();
    known.retain(|holder| serves(*holder) && !is_own(*holder));
    known.sort_by_cached_key(|holder| holder.age());
    known
}

/// What the scopes of a device hold.
pub(super) fn scope_memory(device: u64) -> Vec<ScopeMemory> {
    let read = |holder: &'static dyn Holder| {
        let (busy, idle) = holder.held_bytes();
        Some(ScopeMemory::new(holder.name()?, busy, idle))
    };
    serving(device).filter_map(read).collect()
}

/// Has arrays of the device with this id leave, so that so many bytes are free. Returns the bytes; if there are none, the failure of the
/// device that kept an array from leaving.
type Spill = fn(u64, u64) -> Result<u64>;

static SPILL: OnceLock<Spill> = OnceLock::new();

/// Somebody has arrays that are in use and may leave the device all the same: is asked before an allocation fails.
pub fn on_spill(spill: Spill) {
    SPILL.get_or_init(|| spill);
}

/// Has arrays of a device leave, so that so many bytes are free. Returns the bytes.
///
/// # Errors
/// A failure of the device that kept an array from leaving, where none left.
pub(super) fn spill(device: u64, bytes: u64) -> Result<u64> {
    SPILL.get().map_or(Ok(0), |spill| spill(device, bytes))
}

static RELEASES: AtomicU64 = AtomicU64::new(0);

/// How often idle memory was given back so far.
pub(crate) fn releases() -> u64 {
    RELEASES.load(SeqCst)
}

pub(crate) fn count_release(bytes: u64) {
    RELEASES.fetch_add(u64::from(bytes > 0), SeqCst);
}

#[cfg(test)]
mod tests {
    use super::chosen;

    #[test]
    fn as_few_blocks_go_as_will_do() {
        assert_eq!(chosen(&[], 10), []);
        assert_eq!(chosen(&[30, 12, 20], 11), [1]);
        assert_eq!(chosen(&[3, 8, 1, 5], 12), [1, 3]);
        assert_eq!(chosen(&[3, 5], 100), [1, 0]);
    }
}
