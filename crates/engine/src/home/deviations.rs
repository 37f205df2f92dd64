//! Where an entry went other ways than its plan: [`Deviations`].

use std::fmt;

use super::counter::Counter;
use super::counters::Counters;
use crate::base::amounts::{combine, total};

/// How often entries deviated from their plan since the process began, by kind.
///
/// ```
/// use gpucache::{cache_scope, prelude::*};
///
/// for layers in [2, 2, 2, 2, 3] {
///     cache_scope!(extra, {
///         for _ in 0..layers {
///             drop(Host::new().zeros::<u8>(4096)?);
///         }
///     });
/// }
/// let deviations = gpucache::stats("extra").unwrap().plan.deviations;
/// assert_eq!((deviations.extra, deviations.missing), (1, 0));
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Deviations {
    /// Allocations that the plan did not expect. Lists and the range served them.
    pub extra: u64,
    /// Allocations that the plan expected and that did not come.
    pub missing: u64,
    /// Allocations that came earlier or later than planned. The plan served them.
    pub reordered: u64,
    /// Allocations of more bytes than their place has. Lists and the range served them.
    pub larger: u64,
    /// Allocations whose place still held an array that lived longer than planned. Lists and the range served them.
    pub blocked: u64,
}

impl Deviations {
    /// The sum of all kinds.
    ///
    /// ```
    /// use gpucache::{cache_scope, prelude::*};
    ///
    /// for layers in [2, 2, 2, 2, 3] {
    ///     cache_scope!(deviating, {
    ///         for _ in 0..layers {
    ///             drop(Host::new().zeros::<u8>(4096)?);
    ///         }
    ///     });
    /// }
    /// assert_eq!(gpucache::stats("deviating").unwrap().plan.deviations.total(), 1);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn total(&self) -> u64 {
        total([self.extra, self.missing, self.reordered, self.larger, self.blocked])
    }

    /// Whether there is any.
    pub(crate) fn is_any(&self) -> bool {
        *self != Deviations::default()
    }

    /// Counts those of an entry.
    pub(crate) fn count(&self, counters: &Counters) {
        counters.add(Counter::Extra, self.extra);
        counters.add(Counter::Missing, self.missing);
        counters.add(Counter::Reordered, self.reordered);
        counters.add(Counter::Larger, self.larger);
        counters.add(Counter::Blocked, self.blocked);
    }
}

combine!(Deviations: extra missing reordered larger blocked;);

impl fmt::Display for Deviations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Deviations { extra, missing, reordered, larger, blocked } = self;
        write!(f, "{extra} extra, {missing} missing, {reordered} reordered, {larger} larger, {blocked} blocked")
    }
}
