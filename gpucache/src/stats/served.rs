//! The allocations of a scope, by what served them: [`Served`], and those of other crates: [`ForeignStats`]; and its live memory: [`InUse`].

use std::fmt;

use gpucache_engine::base::amounts::{Bytes, Count, combine, total};
use gpucache_engine::base::table::Table;
use gpucache_engine::home::{Counter, Counts};

/// A number of allocations, and the sum of their bytes. A sum beyond `u64::MAX` stays at `u64::MAX`.
///
/// ```
/// use gpucache::{cache_scope, prelude::*};
///
/// cache_scope!(two, { (Host::new().zeros::<u8>(100)?, Host::new().zeros::<u8>(200)?) });
/// let all = gpucache::stats("two").unwrap().served.all();
/// assert_eq!((all.allocations, all.bytes), (2, 300));
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Amount {
    /// The number of allocations.
    pub allocations: u64,
    /// The sum of their bytes.
    pub bytes: u64,
}

/// All allocations that a scope ever made, by the part of gpucache that served them. A trace names the same four parts with
/// [`ServedBy`](crate::trace::ServedBy).
///
/// ```
/// use gpucache::{cache_scope, prelude::*};
///
/// for _ in 0..10 {
///     cache_scope!(mostly_planned, { drop(Host::new().zeros::<u8>(4096)?) });
/// }
/// let served = gpucache::stats("mostly_planned").unwrap().served;
/// assert_eq!((served.planned.allocations, served.planned.bytes), (8, 8 * 4096));
/// assert_eq!((served.listed.allocations, served.ranged.allocations), (1, 1)); // while it learned
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Served {
    /// Allocations that a plan served, from its arena or its ring.
    ///
    /// The bytes are added when an entry ends. They are the bytes of the plan's places, so an array of varying size counts as the
    /// largest one of its place. If an entry leaves places out, a proportional part of the plan's bytes is added.
    pub planned: Amount,
    /// Allocations that a list of idle blocks served.
    pub listed: Amount,
    /// Allocations that the device's range served, whether it had the memory or got it from the device.
    pub ranged: Amount,
    /// Allocations that the device itself served: with `recycle = "off"`, or on a device without a range.
    pub direct: Amount,
}

/// The live memory of a scope, or a part of it.
///
/// ```
/// use gpucache::{cache_scope, prelude::*};
///
/// let kept = cache_scope!(in_use, { Host::new().zeros::<u8>(4096)? });
/// let live = gpucache::stats("in_use").unwrap().outside_plan;
/// assert_eq!((live.blocks, live.bytes, live.peak_bytes), (1, 4096, 4096));
/// # drop(kept);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct InUse {
    /// Blocks that live arrays use now. For a plan of another thread, the number is as of that thread's last entry.
    pub blocks: u64,
    /// Bytes of those blocks.
    pub bytes: u64,
    /// The most bytes that were in use at once since the process began, or since peaks were reset. For several threads, the sum of
    /// their peaks.
    pub peak_bytes: u64,
}

combine!(Amount: allocations bytes;);
combine!(Served: planned listed ranged direct;);
combine!(InUse: ; blocks bytes peak_bytes);

impl Served {
    pub(super) fn of(counts: &Counts) -> Served {
        let get = |count| counts.get(count);
        // Another thread may write between the readings of two numbers.
        let supplied = get(Counter::Supplied).saturating_sub(get(Counter::Grown));
        let ranged = supplied.saturating_sub(get(Counter::Direct));
        Served {
            planned: Amount { allocations: counts.planned(), bytes: get(Counter::PlanServedBytes) },
            listed: Amount { allocations: get(Counter::Listed), bytes: get(Counter::ListedBytes) },
            ranged: Amount { allocations: ranged, bytes: get(Counter::RangedBytes) },
            direct: Amount { allocations: get(Counter::Direct), bytes: get(Counter::DirectBytes) },
        }
    }

    /// All four together.
    ///
    /// ```
    /// use gpucache::{cache_scope, prelude::*};
    ///
    /// cache_scope!(one, { Host::new().zeros::<u8>(100)? });
    /// let stats = gpucache::stats("one").unwrap();
    /// assert_eq!(stats.served.all().allocations, stats.allocations());
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn all(&self) -> Amount {
        let all = self.by_service().map(|(_, one)| one);
        Amount { allocations: total(all.map(|one| one.allocations)), bytes: total(all.map(|one| one.bytes)) }
    }

    /// The share of the allocations that a plan served, from 0 to 1; 0 if there was no allocation.
    ///
    /// ```
    /// use gpucache::{cache_scope, prelude::*};
    ///
    /// for _ in 0..10 {
    ///     cache_scope!(share, { drop(Host::new().zeros::<u8>(4096)?) });
    /// }
    /// assert_eq!(gpucache::stats("share").unwrap().served.planned_share(), 0.8);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn planned_share(&self) -> f64 {
        self.planned.allocations as f64 / self.all().allocations.max(1) as f64
    }

    fn by_service(&self) -> [(&'static str, Amount); 4] {
        [("planned", self.planned), ("listed", self.listed), ("ranged", self.ranged), ("direct", self.direct)]
    }

    /// A row for each service, with the live memory in the plan; then one for the live memory outside of it.
    pub(super) fn table(&self, in_plan: &InUse, outside_plan: &InUse) -> Table {
        let mut table = Table::new(1, &["", "allocations", "bytes", "in use", "peak"]);
        for (name, Amount { allocations, bytes }) in self.by_service() {
            table.row([name.into(), allocations.to_string(), Bytes(bytes).to_string()].into_iter().chain(match name {
                "planned" => cells(in_plan),
                _ => [String::new(), String::new()],
            }));
        }
        let empty = || ["not planned".to_string(), String::new(), String::new()];
        table.row(empty().into_iter().chain(cells(outside_plan)));
        table
    }
}

fn cells(in_use: &InUse) -> [String; 2] {
    [in_use.bytes, in_use.peak_bytes].map(|bytes| Bytes(bytes).to_string())
}

/// Counts of the memory that other crates allocate and free through the driver inside a scope. They cover all threads since the
/// process began. All are 0 without the feature `foreign`. See `gpucache::foreign`.
///
/// ```no_run
/// use gpucache::cache_scope;
///
/// # fn candle_step() {}
/// cache_scope!(train_step, { candle_step() });
/// let foreign = gpucache::stats("train_step").unwrap().foreign;
/// println!("{} of {}", foreign.served, foreign.served + foreign.passed_on);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ForeignStats {
    /// Allocations that the scope served.
    pub served: u64,
    /// Of these, allocations in a capture that other code began. Their memory belongs to the graph until the graph is destroyed. It counts
    /// for the device and not for the scope.
    pub captured: u64,
    /// Allocations inside the scope that went on to the driver, because the beginning of a capture was not seen or the context is not the
    /// device's own.
    pub passed_on: u64,
    /// Blocks of the scope that were freed on another stream than their own. The next use of their memory waits for that stream.
    pub freed_elsewhere: u64,
}

impl ForeignStats {
    pub(super) fn of(counts: &Counts) -> ForeignStats {
        ForeignStats {
            served: counts.get(Counter::ForeignServed),
            captured: counts.get(Counter::ForeignCaptured),
            passed_on: counts.get(Counter::ForeignPassedOn),
            freed_elsewhere: counts.get(Counter::FreedElsewhere),
        }
    }
}

combine!(ForeignStats: served captured passed_on freed_elsewhere;);

impl fmt::Display for ForeignStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let allocations = Count(self.served, "allocation", "allocations");
        write!(f, "{allocations} served")?;
        if self.captured > 0 {
            write!(f, " ({} in captures)", self.captured)?;
        }
        write!(f, ", {} passed on, {} freed elsewhere", self.passed_on, self.freed_elsewhere)
    }
}
