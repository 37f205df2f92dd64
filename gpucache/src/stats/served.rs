//! What a scope's allocations amount to, by what served them: [`Served`]; and what is in use of it: [`InUse`].

use super::counters::{Counter, Counters};
use crate::base::amounts::{Bytes, add, total};
use crate::base::table::{Align, Table};

/// Allocations, and their bytes together. A total that is more than a number says stays the largest number.
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
    /// How many there were.
    pub allocations: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// All that a scope ever allocated, by what served it: the words are those of [`ServedBy`](crate::trace::ServedBy).
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
    /// By the scope's plan, its ring included. The bytes are added when an entry ends, and are those of the plan's places: where sizes
    /// vary, an array counts as the largest of its place. An entry that leaves places out adds its part of all.
    pub planned: Amount,
    /// By a list of idle blocks.
    pub listed: Amount,
    /// By the device's range, whether it had the memory or took it from the device.
    pub ranged: Amount,
    /// By the device itself: with `recycle = "off"`, or on a device without a range.
    pub direct: Amount,
}

/// What is in use of a scope's memory.
///
/// ```
/// use gpucache::{cache_scope, prelude::*};
///
/// let kept = cache_scope!(in_use, { Host::new().zeros::<u8>(4096)? });
/// let beside = gpucache::stats("in_use").unwrap().beside;
/// assert_eq!((beside.blocks, beside.bytes, beside.peak_bytes), (1, 4096, 4096));
/// # drop(kept);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct InUse {
    /// Blocks in use by arrays now. Those of a plan that another thread serves are as of its last entry.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The most bytes at once since the process began or since peaks were reset; with several threads the sum of theirs.
    pub peak_bytes: u64,
}

impl Served {
    pub(super) fn of(counters: &Counters) -> Served {
        let get = |count| counters.get(count);
        // Another thread may read one number before an allocation and the other one behind it.
        let supplied = get(Counter::Supplied).saturating_sub(get(Counter::Grown));
        let ranged = supplied.saturating_sub(get(Counter::Direct));
        let planned = get(Counter::PlanServed) + get(Counter::Carried);
        Served {
            planned: Amount { allocations: planned, bytes: get(Counter::PlanServedBytes) },
            listed: Amount { allocations: get(Counter::Listed), bytes: get(Counter::ListedBytes) },
            ranged: Amount { allocations: ranged, bytes: get(Counter::RangedBytes) },
            direct: Amount { allocations: get(Counter::Direct), bytes: get(Counter::DirectBytes) },
        }
    }

    /// All of them together.
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

    /// Which part of the allocations a plan served, from 0 to 1; 0 where there was none.
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

    /// Combines each amount with that of another reading.
    pub(super) fn combine(&mut self, other: &Served, with: fn(u64, u64) -> u64) {
        let own = [&mut self.planned, &mut self.listed, &mut self.ranged, &mut self.direct];
        for (own, (_, other)) in own.into_iter().zip(other.by_service()) {
            own.allocations = with(own.allocations, other.allocations);
            own.bytes = with(own.bytes, other.bytes);
        }
    }

    /// The rows of a table: services, with what is in use by plan, and beside it.
    pub(super) fn table(&self, planned: &InUse, beside: &InUse) -> Table {
        let columns = [("", Align::Left), ("allocations", Align::Right), ("bytes", Align::Right)];
        let in_use = [("in use", Align::Right), ("at most", Align::Right)];
        let mut table = Table::new(columns.into_iter().chain(in_use));
        for (name, Amount { allocations, bytes }) in self.by_service() {
            table.row([name.into(), allocations.to_string(), Bytes(bytes).to_string()].into_iter().chain(match name {
                "planned" => cells(planned),
                _ => [String::new(), String::new()],
            }));
        }
        let empty = || ["all but planned".to_string(), String::new(), String::new()];
        table.row(empty().into_iter().chain(cells(beside)));
        table
    }
}

fn cells(in_use: &InUse) -> [String; 2] {
    [in_use.bytes, in_use.peak_bytes].map(|bytes| Bytes(bytes).to_string())
}

impl std::ops::AddAssign for InUse {
    fn add_assign(&mut self, other: InUse) {
        add(&mut self.blocks, other.blocks);
        add(&mut self.bytes, other.bytes);
        add(&mut self.peak_bytes, other.peak_bytes);
    }
}
