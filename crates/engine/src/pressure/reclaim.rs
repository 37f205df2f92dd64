//! The holders of memory, and how they give memory back when a device is short.
//!
//! The *age* of a holder says how recently its scope was entered. The clock for ages costs an entry one load and one store. It
//! advances only when memory is taken from a device or found missing. If it advanced with each entry, all threads would write one
//! word. So all scopes that were entered since its last advance have the same age. Among those, the scope with fewer entries gives
//! memory first.
//!
//! Invariant: every holder that has memory stands in `HOLDERS`, and knows that it does. A holder without memory is taken out when
//! it is found. So a walk costs as much as there are holders with memory, and not as there are names.

use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};

use super::lease::{self, Lease, Leased};
use super::steps::ReclaimStats;
use super::transit::Transit;
use crate::base::amounts::{add, total};
use crate::base::error::Result;
use crate::base::shortage::{ScopeMemory, Shortage};
use crate::base::sync::{Mutex, OnceLock, lock};
use crate::device::{Memory, Stream};

/// The idle blocks to give back.
#[derive(Clone, Copy)]
pub(crate) enum Idle {
    /// Idle blocks of scopes that keep only a budget.
    Budgeted,
    /// As `Budgeted`, if the range can grow instead. A plan keeps its block, unless its stream uses this queue. Otherwise two
    /// scopes that work on two streams at the same time would take the block from each other in turn.
    OfQueue(u64),
    All,
}

/// Who asks for the release of idle memory.
#[derive(Clone, Copy)]
pub(crate) enum Releaser {
    /// The program, by a trim.
    Trim,
    /// The limit of idle memory.
    IdleLimit,
    /// A request that finds too little memory, of this holder if it is known; or another limit.
    Request(Option<&'static dyn Holder>),
}

impl Releaser {
    /// Whether a request of another holder asks.
    pub(crate) fn is_other_than(self, holder: &dyn Holder) -> bool {
        matches!(self, Releaser::Request(Some(asking)) if !std::ptr::addr_eq(asking, holder))
    }
}

/// Begins above 0, since the age 0 stands for scopes that nobody will enter soon.
static CLOCK: AtomicU64 = AtomicU64::new(1);

/// The current time of the clock for ages.
#[inline]
pub(crate) fn now() -> u64 {
    CLOCK.load(Relaxed)
}

/// Advances the clock: scopes that are entered from now on are younger.
pub(crate) fn tick() {
    CLOCK.fetch_add(1, Relaxed);
}

/// An owner of memory that others may need more.
pub(crate) trait Holder: Sync {
    /// Whether the holder has, or may have, memory of this device.
    fn serves(&self, device: u64) -> bool;

    /// Gives idle blocks back to their range, unless another thread works with them. A block that an entry of this thread uses goes back only if
    /// the range would otherwise grow by `need` bytes and that is worse. Returns the bytes.
    fn release_idle(&'static self, which: Idle, need: u64, by: Releaser) -> u64;

    /// Gives at least `enough` idle bytes back to their range, or all that it has, unless another thread is inside. The blocks that
    /// were idle longest in the lists go first. The blocks of plans go only once the lists are empty. Returns the bytes.
    fn release_some(&'static self, enough: u64, by: Releaser) -> u64;

    /// The time of the last entry, by [`now`], or 0 if the holder's thread has ended; and the number of entries.
    fn age(&self) -> (u64, u64);

    /// The name of the holder's scope.
    fn name(&self) -> Option<Arc<str>>;

    /// Counts a reclaim: an allocation of the scope found no memory and took the reclaim steps.
    fn count_reclaim(&'static self, reclaim: &ReclaimStats, is_limited: bool);

    /// The place in the program that made the scope.
    fn site(&self) -> Option<&'static Location<'static>>;

    /// Whether the holder has no memory and can be taken out of the list.
    fn forget_holding(&'static self) -> bool;

    /// The bytes in use, and the idle bytes.
    fn held_bytes(&'static self) -> (u64, u64);

    /// The bytes that the holder is likely to need again, those that it has included.
    fn expected_bytes(&'static self) -> u64;

    /// Whether the blocks of the plans, where they are idle, wait for the next entry or for the end of a scope of this thread inside the holder's
    /// own. They may then lie elsewhere.
    fn waits(&self) -> bool;

    /// Whether another thread is inside the scope.
    fn is_entered_elsewhere(&self) -> bool;

    /// The leases of the blocks that the holder serves from without a lock.
    fn leases(&'static self) -> [&'static Lease; 2];
}

/// Arenas of scopes that take turns may together exceed the largest of them by this share, 1/32: as much as a plan may reserve more than an
/// entry needs.
const LITTLE_MORE: u64 = 32;

/// The holders with memory, and how many holders there are.
static HOLDERS: Mutex<Vec<&'static dyn Holder>> = Mutex::new(Vec::new());
static ALL: AtomicUsize = AtomicUsize::new(0);

/// Makes room in the list for another holder. A warm scope may be taken out of the list and registered again, which must take no memory of the
/// heap.
#[cold]
pub(crate) fn expect_another() {
    let mut holders = lock(&HOLDERS);
    let all = ALL.fetch_add(1, Relaxed) + 1;
    let missing = all.saturating_sub(holders.len());
    holders.reserve(missing);
}

/// Registers a holder, which has memory from now on.
#[cold]
pub(crate) fn register(holder: &'static dyn Holder) {
    lock(&HOLDERS).push(holder);
}

/// Makes all scopes give idle blocks of a device back to its range, except where another thread is inside. If a plan serves an
/// entry, its block goes back only if the range would otherwise grow by `need` bytes and that is worse. Returns the bytes.
pub(crate) fn release_idle(which: Idle, device: u64, need: u64, by: Releaser) -> u64 {
    let (mut bytes, mut place) = (0, lock(&HOLDERS).len());
    // Walks from the end: the last holder replaces one that is taken out, and the walk has passed the last one already.
    while place > 0 {
        place -= 1;
        let Some(holder) = lock(&HOLDERS).get(place).copied() else { continue };
        if holder.serves(device) {
            add(&mut bytes, holder.release_idle(which, need, by));
        }
        if holder.forget_holding() {
            let mut holders = lock(&HOLDERS);
            let same = |other: &&'static dyn Holder| std::ptr::addr_eq(*other, holder);
            if let Some(place) = holders.iter().rposition(same) {
                holders.swap_remove(place);
            }
        }
    }
    bytes
}

/// Takes blocks of plans away for a request of `need` bytes, and gives them back to the range, even while threads are inside their scopes.
/// Only blocks of this device in which nothing is alive are taken. If a graph is captured on a block's stream, the block stays,
/// since the scope would fail without it. Returns the bytes. If it returns 0, there was at least one moment without such a block.
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

/// Chooses blocks that make room for `need` bytes: the smallest block that suffices alone, or else the largest ones.
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

/// The bytes of plans' blocks on a queue that wait for the next entry of their scope. An arena of `bytes` bytes may take their place, since
/// entries on one queue come one after the other. It need not if all of them together are hardly more than the largest: then they stay, and
/// the scopes need not take turns.
pub(crate) fn replaceable(stream: &Stream, bytes: u64, own: &'static dyn Holder) -> u64 {
    let (mut all, mut largest) = (0, bytes);
    for holder in about(stream.memory_id()).filter(|holder| !std::ptr::addr_eq(*holder, own) && holder.waits()) {
        for idle in holder.leases().map(|lease| lease.idle_on(stream)) {
            add(&mut all, idle);
            largest = largest.max(idle);
        }
    }
    if all.saturating_add(bytes) <= largest.saturating_add(largest / LITTLE_MORE) { 0 } else { all }
}

/// The bytes of a device that scopes have in use. A scope that serves several devices counts for each of them.
pub(super) fn busy(device: u64) -> u64 {
    total(serving(device).map(|holder| holder.held_bytes().0))
}

/// The bytes of a device that scopes hold, and those that they are likely to need again.
pub(crate) fn held_and_expected(device: u64) -> (u64, u64) {
    let (mut held, mut expected) = (0, 0);
    for holder in about(device) {
        let (busy, idle) = holder.held_bytes();
        add(&mut held, busy.saturating_add(idle));
        add(&mut expected, holder.expected_bytes());
    }
    (held, expected)
}

/// The holders that may have memory of a device, for an estimate. One that is taken out meanwhile may hide another one. A copy of the list, as
/// in `serving`, would take memory of the heap.
fn about(device: u64) -> impl Iterator<Item = &'static dyn Holder> {
    let all = (0..).map_while(|place| lock(&HOLDERS).get(place).copied());
    all.filter(move |holder| holder.serves(device))
}

/// The holders that may have memory of a device.
fn serving(device: u64) -> impl Iterator<Item = &'static dyn Holder> {
    let holders = lock(&HOLDERS).clone();
    holders.into_iter().filter(move |holder| holder.serves(device))
}

/// The holders that may have memory of a device, or of any device, except `own`. They come in the order in which they give memory:
/// first those that nobody will enter soon, then the least recently entered.
pub(crate) fn by_age(device: Option<u64>, own: Option<&'static dyn Holder>) -> Vec<&'static dyn Holder> {
    let is_own = |holder: &dyn Holder| own.is_some_and(|own| std::ptr::addr_eq(own, holder));
    let serves = |holder: &dyn Holder| device.is_none_or(|device| holder.serves(device));
    let mut known = lock(&HOLDERS).clone();
    known.retain(|holder| serves(*holder) && !is_own(*holder));
    known.sort_by_cached_key(|holder| holder.age());
    known
}

/// The memory of each scope on a device.
pub(super) fn scope_memory(device: u64) -> Vec<ScopeMemory> {
    let read = |holder: &'static dyn Holder| {
        let (busy_bytes, idle_bytes) = holder.held_bytes();
        let is_entered_elsewhere = holder.is_entered_elsewhere();
        Some(ScopeMemory { scope: holder.name()?, busy_bytes, idle_bytes, is_entered_elsewhere })
    };
    serving(device).filter_map(read).collect()
}

/// The functions of whoever has arrays that may move to host memory: see [`Memory::on_spill`].
type Offloading = (fn(&Memory, u64) -> Result<u64>, fn(&Memory, &mut Shortage));

static OFFLOADING: OnceLock<Offloading> = OnceLock::new();

impl Memory {
    /// Registers the functions of whoever has arrays that may move to host memory. They are called before an allocation fails.
    ///
    /// `spill` moves arrays to host memory, so that as many bytes become free, and returns the bytes. If no array left, it returns the device
    /// failure that prevented it. `note_staying` adds the bytes of such arrays that cannot leave.
    #[doc(hidden)]
    pub fn on_spill(spill: fn(&Memory, u64) -> Result<u64>, note_staying: fn(&Memory, &mut Shortage)) {
        OFFLOADING.get_or_init(|| (spill, note_staying));
    }
}

/// Moves arrays of a device to host memory, so that `bytes` bytes become free. Returns the bytes.
///
/// # Errors
/// The device failure that prevented an array from leaving, if no array left.
pub(super) fn spill(memory: &Memory, bytes: u64) -> Result<u64> {
    OFFLOADING.get().map_or(Ok(0), |(spill, _)| spill(memory, bytes))
}

/// Adds the bytes of arrays that would move to host memory if nothing kept them on the device, by the reason.
pub(super) fn note_staying(memory: &Memory, shortage: &mut Shortage) {
    OFFLOADING.get().into_iter().for_each(|(_, note_staying)| note_staying(memory, shortage));
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
    use super::*;

    /// Each registration finds room, however many holders there are.
    #[test]
    fn the_list_has_room_for_all_holders() {
        for _ in 0..100 {
            expect_another();
            let holders = lock(&HOLDERS);
            assert!(holders.capacity() >= ALL.load(Relaxed));
        }
    }

    #[test]
    fn as_few_blocks_go_as_will_do() {
        assert_eq!(chosen(&[], 10), []);
        assert_eq!(chosen(&[30, 12, 20], 11), [1]);
        assert_eq!(chosen(&[3, 8, 1, 5], 12), [1, 3]);
        assert_eq!(chosen(&[3, 5], 100), [1, 0]);
    }
}
