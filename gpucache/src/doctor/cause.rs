//! The causes that a diagnosis knows, each with what it means and what to change.

/// What keeps a scope from being planned, or has it hold more than it needs.
///
/// ```
/// use gpucache::{cache_scope, diagnosis::Cause, prelude::*};
///
/// let host = Host::new();
/// for _ in 0..20 {
///     cache_scope!(counted, recycle = "off", { drop(host.zeros::<u8>(4096)?) });
/// }
/// let diagnosis = gpucache::diagnose("counted").unwrap();
/// assert_eq!(diagnosis.findings[0].cause, Cause::NotRecycled);
/// println!("{}: {}", diagnosis.findings[0], Cause::NotRecycled.remedy());
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// Arrays outlive their entry. Either some are never dropped, so that more and more are alive, or they are dropped in no order
    /// and lie where the plan wants other arrays.
    Escapes,
    /// The order of allocations changes from entry to entry: some come that did not come before, or some stay out.
    ChangingOrder,
    /// The sizes of arrays change from entry to entry, independently of each other or by much.
    ChangingShapes,
    /// Entries allocate the same arrays, and drop them in other orders.
    ChangingDrops,
    /// Allocations are on several streams of the device, and a plan is of one.
    OtherStreams,
    /// Arrays are dropped within their entry while other streams may still use them, so that their memory waits for its end.
    UsedElsewhere,
    /// The scope is entered again inside itself, and hardly ever left: plans are of outermost entries.
    Nested,
    /// The scope encloses a loop instead of what the loop repeats: one entry has the same allocations many times.
    LoopInside,
    /// Most entries allocate nothing that the scope serves.
    Empty,
    /// The scope is entered with [`Recycle::Off`](crate::Recycle::Off): each allocation asks the device.
    NotRecycled,
    /// The scope keeps every block by [`Recycle::Keyed`](crate::Recycle::Keyed), and far more than is ever in use at once.
    KeyedWaste,
    /// Entries have more allocations than are recorded: 131,072.
    TooLong,
    /// The arrays of an entry have more bytes together than a plan has addresses for: 512 GiB.
    TooLarge,
    /// A limit of the scope, of the device or of the process leaves no room for the plan or for allocations, or has idle memory go
    /// back before it is needed again.
    Limit,
    /// The device has no room for the plan, or is short of memory again and again, without a limit.
    Short,
    /// The memory of the scope goes back between its entries, and is taken from the device again.
    GivenBack,
    /// The scope is invalidated again and again, and learns anew each time.
    Invalidated,
    /// Names that differ in a number alone have a scope each, and few of them are entered often enough to be planned.
    ManyNames,
}

impl Cause {
    /// What it means, as a sentence without its end.
    pub(super) fn meaning(self) -> &'static str {
        match self {
            Cause::Escapes => "arrays outlive their entry",
            Cause::ChangingOrder => "the order of allocations changes from entry to entry",
            Cause::ChangingShapes => "sizes change from entry to entry",
            Cause::ChangingDrops => "the same arrays are dropped in another order from entry to entry",
            Cause::OtherStreams => "allocations are on several streams, and a plan is of one",
            Cause::UsedElsewhere => "arrays are dropped while other streams may still use them",
            Cause::Nested => "it is entered again inside itself, and plans are of its outermost entries",
            Cause::LoopInside => "it encloses a loop: one entry has the same allocations many times",
            Cause::Empty => "most entries allocate nothing from it",
            Cause::NotRecycled => "it is entered with recycle = \"off\"",
            Cause::KeyedWaste => "recycle = \"keyed\" keeps far more than is in use at once",
            Cause::TooLong => "an entry has more allocations than are recorded (131072)",
            Cause::TooLarge => "the arrays of an entry are more than a plan has addresses for (512 GiB)",
            Cause::Limit => "a limit of the scope, of the device or of the process is in the way",
            Cause::Short => "memory of the device is short",
            Cause::GivenBack => "its memory is given back between entries, and taken from the device again",
            Cause::Invalidated => "it is invalidated again and again",
            Cause::ManyNames => "each of many names that differ in a number alone is entered a few times only",
        }
    }

    /// What to change, as a sentence without its end.
    ///
    /// ```
    /// assert!(gpucache::diagnosis::Cause::NotRecycled.remedy().contains("recycle"));
    /// ```
    pub fn remedy(self) -> &'static str {
        match self {
            Cause::Escapes => {
                "drop them, or allocate what is kept for long outside of the scope, by `uncached!` or in a scope of its own"
            }
            Cause::ChangingOrder => {
                "give what comes only now and then a scope of its own, or choose recycle = \"range\" if no order ever comes twice"
            }
            Cause::ChangingShapes => {
                "pad to a few sizes, give each size a scope of its own, or choose recycle = \"range\""
            }
            Cause::ChangingDrops => "drop arrays at fixed places of the entry, or choose recycle = \"range\"",
            Cause::OtherStreams => "give each stream a scope of its own",
            Cause::UsedElsewhere => {
                "allocate an array on the stream that uses it last, or drop it once that stream's work is waited for"
            }
            Cause::Nested => "give the outer block another name, or none: the one that repeats is to be the outermost",
            Cause::LoopInside => "put the scope around what the loop repeats, inside the loop",
            Cause::Empty => {
                "the innermost scope serves, on the thread that allocates: put this one where the arrays are made, or leave it out"
            }
            Cause::NotRecycled => "leave `recycle` out, unless the scope is only there to be counted",
            Cause::KeyedWaste => "choose recycle = \"auto\" or \"range\", which share memory between sizes",
            Cause::TooLong => "make the entry shorter: a scope for each part of it that repeats",
            Cause::TooLarge => "make the entry smaller: a scope for each part of it",
            Cause::Limit => {
                "raise the limit, or have less in use at once: the error of an allocation tells who holds what"
            }
            Cause::Short => "hold less on the device: `reclaim_of` and the error of an allocation tell who holds what",
            Cause::GivenBack => {
                "call `trim` and `invalidate` more rarely, or raise `limit_idle` and limits of the device"
            }
            Cause::Invalidated => "invalidate only where the work changes for good",
            Cause::ManyNames => {
                "use one name for all of them, or invalidate each when it is done with (`Scope::owned`)"
            }
        }
    }
}
