//! One scope: [`ScopeStats`], over all threads and for each.

use std::fmt;

use super::plan::PlanStats;
use super::served::{ForeignStats, InUse, Served};
use crate::offload::{OffloadStats, stats_of_scope};
use gpucache_engine::base::amounts::{Bytes, Combine, Count, SINCE, SUM, combine, total};
use gpucache_engine::cache::{Cache, NamedCaches};
use gpucache_engine::home::{Counter, Counts};
use gpucache_engine::pressure::ReclaimStats;

/// The statistics of a scope: its work since the process began and its memory now, over all threads.
///
/// Each allocation inside the scope is one hit, one recycled block or one miss ([`allocations`](ScopeStats::allocations)). If scopes
/// are nested, the innermost one counts it. A failed allocation does not count. Bytes are those that the arrays asked for; only the
/// arena of a plan counts as a whole. While other threads work in the scope, the numbers are of slightly different moments.
///
/// ```
/// use gpucache::{cache_scope, prelude::*};
///
/// let host = Host::new();
/// for _ in 0..3 {
///     cache_scope!(forward, {
///         let hidden = Array::<f32, _>::zeros(&host, [32, 64])?;
///         let _output = Array::<f32, _>::zeros(&host, [32, 10])?; // in the page that `hidden` does not fill
///         drop(hidden);
///     });
/// }
/// let stats = gpucache::stats("forward").unwrap();
/// assert_eq!((stats.entries, stats.hits, stats.recycled, stats.misses), (3, 4, 1, 1));
/// assert_eq!((stats.device_allocations, stats.mapped_pieces), (0, 1)); // on Linux, where a host has pages
/// assert_eq!((stats.plan.plans, stats.reclaim.failed, stats.threads.len()), (1, 0, 1));
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ScopeStats {
    /// The name of the scope.
    pub name: String,
    /// How often the scope was entered, entries within entries included. A call of an `async fn` counts as one entry, at its first
    /// poll.
    pub entries: u64,
    /// How often futures of the scope were polled, the first time included. Each poll is inside the scope while it runs.
    pub polls: u64,
    /// Allocations that the scope served with memory that it had kept: a block of a list, or a place in its plan. An allocation for which
    /// the ring of a plan got more memory counts as recycled or as a miss.
    pub hits: u64,
    /// Allocations that the device's range served with memory that it had: this scope or another one had returned it. Arrays without
    /// bytes need no memory, and count here or as hits.
    pub recycled: u64,
    /// Allocations for which the device gave memory, by a call of its allocator or by mapping pages.
    pub misses: u64,
    /// Blocks that live arrays use now, including arrays that left the scope.
    pub busy_blocks: u64,
    /// Bytes of the busy blocks.
    pub busy_bytes: u64,
    /// Blocks that the scope keeps for its next allocations: those in its lists, and the free places of a plan that has an arena.
    /// Memory that went back to the device's range does not count.
    pub idle_blocks: u64,
    /// Bytes of the idle blocks. Places of a plan may overlap, so each free byte of the arena counts once.
    pub idle_bytes: u64,
    /// The most bytes that were in use at once since the process began, or since peaks were reset
    /// ([`reset_peaks`]). For several threads, the sum of their peaks.
    pub high_water_bytes: u64,
    /// Calls of the device's allocator for the scope since the process began. Misses with `recycle = "off"` call it, and on a device
    /// without pages all misses do, for an array or for a chunk of the range.
    pub device_allocations: u64,
    /// Pieces of memory that were mapped for the scope since the process began, by its misses and for the arenas of its plans. A
    /// piece is one page, or several that are mapped and unmapped together.
    pub mapped_pieces: u64,
    /// Bytes that the scope is likely to need again: those that were in use at once since the last invalidation and are not in use
    /// now. The scope or the device's range keeps them.
    pub spare_bytes: u64,
    /// The allocations, by the part of gpucache that served them.
    pub served: Served,
    /// The live memory in the arena and the ring of plans. A drop on another thread counts once the owner of the memory has
    /// noticed it.
    pub in_plan: InUse,
    /// All other live memory.
    pub outside_plan: InUse,
    /// How the scope plans.
    pub plan: PlanStats,
    /// How often the scope's allocations found a device short of memory, and which reclaim step served them then. An allocation that
    /// the scope's own limit refuses counts in `failed`.
    pub reclaim: ReclaimStats,
    /// Arrays that moved between a device and host memory while the scope was the outermost one of its thread. Not counted by
    /// thread.
    pub offload: OffloadStats,
    /// Memory of other crates.
    pub foreign: ForeignStats,
    /// The same for each thread, in the order in which the threads came. Empty for the statistics of one thread.
    pub threads: Vec<ThreadStats>,
}

/// The statistics of a scope on one thread. If a thread took over the memory of a thread that ended, both count here.
///
/// ```
/// use gpucache::{cache_scope, prelude::*};
///
/// let work = || cache_scope!(of_worker, { drop(Host::new().zeros::<u8>(4096)); });
/// std::thread::Builder::new().name("worker".into()).spawn(work)?.join().unwrap();
/// let threads = gpucache::stats("of_worker").unwrap().threads;
/// assert_eq!((&threads[0].thread, threads[0].stats.entries), (&None, 1)); // it has ended
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ThreadStats {
    /// The thread's name, or `thread` and a number if it has none; `None` once the thread has ended.
    pub thread: Option<String>,
    /// Whether the thread is inside the scope now.
    pub is_inside: bool,
    /// The statistics of the scope on the thread.
    pub stats: ScopeStats,
    /// The number of the cache that counted, by which two readings of it are compared.
    cache: u64,
}

impl ScopeStats {
    /// The work of the scope since an earlier reading, also for each thread. Busy and idle memory, peaks and plans are those of this reading.
    /// If a thread began after the earlier reading, all of its work counts.
    ///
    /// ```
    /// use gpucache::{cache_scope, prelude::*};
    ///
    /// cache_scope!(phases, { Host::new().zeros::<u8>(4096)? });
    /// let warm = gpucache::stats("phases").unwrap();
    /// cache_scope!(phases, { Host::new().zeros::<u8>(4096)? });
    /// let since = gpucache::stats("phases").unwrap().since(&warm);
    /// assert_eq!((since.entries, since.hits, since.misses), (1, 1, 0));
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn since(&self, earlier: &ScopeStats) -> ScopeStats {
        let mut since = self.clone();
        since.combine(earlier, SINCE);
        for thread in &mut since.threads {
            if let Some(earlier) = earlier.same_thread(thread) {
                thread.stats = thread.stats.since(earlier);
            }
        }
        since
    }

    /// The statistics of the same thread in this reading.
    pub(super) fn same_thread(&self, thread: &ThreadStats) -> Option<&ScopeStats> {
        self.threads.iter().find(|other| other.cache == thread.cache).map(|other| &other.stats)
    }

    /// All allocations since the process began: hits, recycled blocks and misses.
    ///
    /// ```
    /// use gpucache::{cache_scope, prelude::*};
    ///
    /// for _ in 0..3 {
    ///     cache_scope!(counted, { Host::new().zeros::<u8>(4096)? });
    /// }
    /// assert_eq!(gpucache::stats("counted").unwrap().allocations(), 3);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn allocations(&self) -> u64 {
        total([self.hits, self.recycled, self.misses])
    }
}

/// The statistics of a scope.
pub(crate) fn of_scope(scope: &NamedCaches) -> ScopeStats {
    let (past, threads) = scope.read(of_thread);
    let mut all = ScopeStats::of(&past);
    // Nobody plans there any more.
    all.plan.unplanned = None;
    threads.iter().for_each(|thread| all += &thread.stats);
    let offload = stats_of_scope(scope);
    ScopeStats { name: scope.name().to_string(), reclaim: scope.reclaim(), offload, threads, ..all }
}

fn of_thread(cache: &'static Cache) -> ThreadStats {
    ThreadStats {
        thread: cache.thread().map(|name| name.to_string()),
        is_inside: cache.is_entered(),
        stats: ScopeStats { reclaim: cache.reclaim(), ..ScopeStats::of(&cache.counts()) },
        cache: cache.number(),
    }
}

impl ScopeStats {
    /// The statistics of one thread's cache.
    pub(crate) fn of(counts: &Counts) -> ScopeStats {
        let get = |count| counts.get(count);
        let (busy_blocks, busy_bytes) = (counts.busy_blocks(), counts.busy_bytes());
        let (in_plan, blocks) = (get(Counter::PlannedBytes).min(busy_bytes), counts.planned_blocks());
        ScopeStats {
            entries: get(Counter::Entries),
            polls: get(Counter::Polls),
            hits: counts.hits(),
            recycled: get(Counter::Supplied).saturating_sub(get(Counter::Misses)),
            misses: get(Counter::Misses),
            busy_blocks,
            busy_bytes,
            idle_blocks: (total([get(Counter::HeldBlocks), get(Counter::RingBlocks)])).saturating_sub(busy_blocks),
            idle_bytes: counts.idle_bytes(),
            high_water_bytes: get(Counter::Peak),
            device_allocations: get(Counter::DeviceAllocations),
            mapped_pieces: get(Counter::MappedPieces),
            spare_bytes: get(Counter::Demand).saturating_sub(busy_bytes),
            served: Served::of(counts),
            in_plan: InUse { blocks, bytes: in_plan, peak_bytes: get(Counter::PlanPeak) },
            outside_plan: InUse {
                blocks: busy_blocks - blocks,
                bytes: busy_bytes - in_plan,
                peak_bytes: get(Counter::BesidePeak),
            },
            plan: PlanStats::of(counts),
            foreign: ForeignStats::of(counts),
            ..ScopeStats::default()
        }
    }
}

combine! {
    ScopeStats:
        entries polls hits recycled misses device_allocations mapped_pieces served plan reclaim offload foreign;
        busy_blocks busy_bytes idle_blocks idle_bytes high_water_bytes spare_bytes in_plan outside_plan
}

/// Two lines, what the scope did and what it holds; then a table of what served the allocations. `{:#}` leaves the table out.
impl fmt::Display for ScopeStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = Count(self.entries, "entry", "entries");
        let allocations = Count(self.allocations(), "allocation", "allocations");
        let (hits, misses) = (Count(self.hits, "hit", "hits"), Count(self.misses, "miss", "misses"));
        write!(f, "{entries}")?;
        if self.polls > 0 {
            write!(f, " ({})", Count(self.polls, "poll", "polls"))?;
        }
        writeln!(f, ", {allocations}: {hits}, {} recycled, {misses}", self.recycled)?;
        let blocks = |number| Count(number, "block", "blocks");
        let (busy, idle, most) = (Bytes(self.busy_bytes), Bytes(self.idle_bytes), Bytes(self.high_water_bytes));
        write!(f, "{busy} in use in {}, peak {most}; ", blocks(self.busy_blocks))?;
        write!(f, "{idle} idle in {}", blocks(self.idle_blocks))?;
        if f.alternate() { Ok(()) } else { write!(f, "\n{}", self.served.table(&self.in_plan, &self.outside_plan)) }
    }
}

/// The sum of two scopes or threads, without their names and threads.
impl std::ops::AddAssign<&ScopeStats> for ScopeStats {
    fn add_assign(&mut self, other: &ScopeStats) {
        self.combine(other, SUM);
        self.plan.unplanned = self.plan.unplanned.or(other.plan.unplanned);
    }
}

/// Sets the peaks of the scope `name` to the memory in use now: [`high_water_bytes`](super::ScopeStats::high_water_bytes), and the
/// peaks of [`in_plan`](super::ScopeStats::in_plan) and [`outside_plan`](super::ScopeStats::outside_plan). Returns whether a thread
/// ever entered a scope of this name. Nothing else changes.
///
/// If a thread is inside the scope now, its peaks start again when it leaves, or before.
///
/// ```
/// use gpucache::{cache_scope, prelude::*, stats};
///
/// let host = Host::new();
/// cache_scope!(phase, { drop(host.zeros::<u8>(4096)?) });
/// assert!(stats::reset_peaks("phase"));
/// cache_scope!(phase, { drop(host.zeros::<u8>(100)?) });
/// assert_eq!(stats("phase").unwrap().high_water_bytes, 100);
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn reset_peaks(name: impl AsRef<str>) -> bool {
    let scope = NamedCaches::find(name.as_ref());
    scope.iter().for_each(|scope| scope.reset_peaks());
    scope.is_some()
}

/// The result of an invalidation: the memory that it freed in one scope or several, over all threads.
///
/// ```
/// use gpucache::{cache_scope, invalidate, prelude::*};
///
/// let host = Host::new();
/// let kept = cache_scope!(given, { host.zeros::<u8>(4096)? });
/// cache_scope!(given, { host.zeros::<u8>(4096)? });
/// let given = invalidate("given");
/// assert_eq!((given.is_known, given.bytes, given.busy_blocks), (true, 4096, 1));
/// # drop(kept);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Invalidated {
    /// Whether a scope of this name exists. If not, the name may be misspelt.
    pub is_known: bool,
    /// Bytes that the scope no longer keeps: the larger of [`idle_bytes`](super::ScopeStats::idle_bytes) and
    /// [`spare_bytes`](super::ScopeStats::spare_bytes) before the call. The device's range keeps the part of them that other scopes are
    /// likely to need; [`Device::memory`](crate::device::Device::memory) shows how much went back to the device.
    pub bytes: u64,
    /// Blocks in use. Their memory is freed when their arrays are dropped.
    pub busy_blocks: u64,
}

impl fmt::Display for Invalidated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_known {
            true => {
                let busy = Count(self.busy_blocks, "block", "blocks");
                write!(f, "{} freed, {busy} still in use", Bytes(self.bytes))
            }
            false => f.write_str("no scope of this name exists"),
        }
    }
}
