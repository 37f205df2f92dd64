//! The names of what is counted of a cache: [`Counter`].

/// Each number that is counted of a cache. Totals only grow; all else is as of now.
///
/// A live array is *beside plans* if neither the arena nor the ring of the scope's plans holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// How often the scope was entered.
    Entries,
    /// How often futures of the scope were polled.
    Polls,
    /// Allocations that a list served.
    Listed,
    /// Bytes of the allocations that a list served.
    ListedBytes,
    /// Allocations that neither a list nor a plan served, and those for which a ring grew.
    Supplied,
    /// Supplied allocations for which the device gave memory.
    Misses,
    /// Supplied allocations that the device itself served.
    Direct,
    /// Bytes of the allocations that the device itself served.
    DirectBytes,
    /// Bytes of the allocations that the device's range served.
    RangedBytes,
    /// Drops of blocks beside plans.
    Drops,
    /// Bytes in use beside plans.
    BusyBytes,
    /// Bytes that the cache holds, in use or idle.
    HeldBytes,
    /// Blocks that are held. Each position of a plan counts as one.
    HeldBlocks,
    /// The most bytes in use at once since the last invalidation, or in the first entry since a scope inside it last looked.
    Demand,
    /// The bytes that were in use at that look.
    Lasting,
    /// The most bytes in use at once since peaks were reset.
    Peak,
    /// The lesser of `Demand` and `Peak`: more bytes in use than that are noted.
    Mark,
    /// The most bytes in use at once beside the plan since the plan was installed.
    Beside,
    /// The most bytes in use at once beside plans since the owner last looked.
    BesideLately,
    /// The most bytes in use at once beside plans since peaks were reset.
    BesidePeak,
    /// The lesser of `BesideLately` and `BesidePeak`.
    BesideMark,
    /// Calls of the device's allocator.
    DeviceAllocations,
    /// Pieces of memory that were mapped.
    MappedPieces,
    /// Blocks that came back while other streams may still use them, and do not count as dropped yet.
    DeferredBlocks,
    /// Bytes of those blocks.
    DeferredBytes,
    /// Allocations that arenas served. The owner writes this number, and all that follow, at the end of each entry.
    PlanServed,
    /// Blocks in use in the arena.
    PlanLive,
    /// Blocks that were in use in an arena or ring when it was given up. They come back beside plans.
    Evicted,
    /// Allocations that rings served.
    Carried,
    /// Allocations that a ring served after it got more memory. They count as `Supplied` too.
    Grown,
    /// Blocks in use in the ring.
    RingBlocks,
    /// Bytes of the ring.
    RingBytes,
    /// Allocations that outlive their entry and that neither arena nor ring has a place for.
    Aside,
    /// The most bytes in use at once in arena and ring since peaks were reset.
    PlanPeak,
    /// Bytes of the places of all allocations that plans served, as of the last entry that ended.
    PlanServedBytes,
    /// How many allocations `PlanServedBytes` counts.
    Priced,
    /// Bytes of the arena; 0 while there is none.
    Arena,
    /// Bytes of the arena, if it lies in the arena of the scope around; 0 otherwise.
    Inside,
    /// 1 if the last arena lay there, so that the scope needs no memory for the next one.
    IsInside,
    /// Orders of allocations and drops that have a plan.
    Plans,
    /// Allocations that those plans have a place for.
    Positions,
    /// Bytes of the highest plan.
    PlanBytes,
    /// The least bytes that any layout of the highest plan could have.
    BoundBytes,
    /// Nanoseconds spent on layouts.
    PlanningTime,
    /// Loops that were found inside entries.
    Loops,
    /// Iterations of such loops that ended, and were planned or recorded like entries.
    Iterations,
    /// 1 while planning pauses.
    HasStopped,
    /// 1 if it pauses because page moves recurred with plans.
    MovesRecur,
    /// Allocations of other crates that the scope served.
    ForeignServed,
    /// Allocations of other crates that went on to the driver.
    ForeignPassedOn,
    /// Allocations of other crates in captures, which got memory of the graph.
    ForeignCaptured,
    /// Allocations that the plan did not expect.
    Extra,
    /// Allocations that the plan expected and that never came.
    Missing,
    /// Allocations that came earlier or later than planned, and that the plan served.
    Reordered,
    /// Allocations of more bytes than their position has.
    Larger,
    /// Allocations whose place still held a live array.
    Blocked,
    /// Blocks that were freed on another stream than their own.
    FreedElsewhere,
    /// Only in [`Counts`](super::Counts): bytes in use in arena and ring.
    PlannedBytes,
    /// Only in [`Counts`](super::Counts): blocks that other threads dropped and the owner has not taken back yet.
    ReturnedBlocks,
    /// Only in [`Counts`](super::Counts): bytes of those blocks.
    ReturnedBytes,
    /// Only in [`Counts`](super::Counts): blocks that hold arenas of scopes inside.
    LentBlocks,
    /// Only in [`Counts`](super::Counts): bytes of those blocks.
    LentBytes,
    /// Only in [`Counts`](super::Counts): bytes of those of these blocks that escaped from the arena.
    LentBeside,
}
