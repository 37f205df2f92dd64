//! What a scope's allocations amount to, by what served them: [`Served`]; and what is in use of it: [`InUse`].

use super::counter::Counter;
use crate::base::amounts::{Bytes, add};
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
        self.by_service().into_iter().fold(Amount::default(), |mut sum, (_, one)| {
            sum += one;
            sum
        })
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

    /// What was served since an earlier reading.
    pub(super) fn since(&self, earlier: &Served) -> Served {
        let less = |now: Amount, then: Amount| Amount {
            allocations: now.allocations.saturating_sub(then.allocations),
            bytes: now.bytes.saturating_sub(then.bytes),
        };
        Served {
            planned: less(self.planned, earlier.planned),
            listed: less(self.listed, earlier.listed),
            ranged: less(self.ranged, earlier.ranged),
            direct: less(self.direct, earlier.direct),
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

impl std::ops::AddAssign for Amount {
    fn add_assign(&mut self, other: Amount) {
        add(&mut self.allocations, other.allocations);
        add(&mut self.bytes, other.bytes);
    }
}

impl std::ops::AddAssign for Served {
    fn add_assign(&mut self, other: Served) {
        self.planned += other.planned;
        self.listed += other.listed;
        self.ranged += other.ranged;
        self.direct += other.direct;
    }
}

impl std::ops::AddAssign for InUse {
    fn add_assign(&mut self, other: InUse) {
        add(&mut self.blocks, other.blocks);
        add(&mut self.bytes, other.bytes);
        add(&mut self.peak_bytes, other.peak_bytes);
    }
}

/// The bytes behind [`Served`], beside what else is counted of allocations.
#[derive(Default)]
pub(super) struct ServedCounters {
    /// Bytes of what lists, the range and the device itself served.
    pub(super) listed: Counter,
    ranged: Counter,
    direct: Counter,
    /// How many allocations the device itself served.
    directs: Counter,
}

impl ServedCounters {
    /// Counts a block that no list served, straight from the device or from its range.
    pub(super) fn supplied(&self, bytes: u64, is_direct: bool) {
        let served = if is_direct { &self.direct } else { &self.ranged };
        served.accumulate(bytes);
        self.directs.add(u64::from(is_direct));
    }

    /// What they say, with how many allocations lists served, how many none did, and what plans did.
    pub(super) fn read(&self, listed: u64, supplied: u64, planned: Amount) -> Served {
        let amount = |allocations, bytes: &Counter| Amount { allocations, bytes: bytes.get() };
        let directs = self.directs.get();
        Served {
            planned,
            listed: amount(listed, &self.listed),
            ranged: amount(supplied.saturating_sub(directs), &self.ranged),
            direct: amount(directs, &self.direct),
        }
    }

    pub(super) fn reset(&self) {
        let ServedCounters { listed, ranged, direct, directs } = self;
        [listed, ranged, direct, directs].into_iter().for_each(|counter| counter.set(0));
    }
}
