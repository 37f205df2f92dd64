//! Where an entry went other ways than its plan: [`Deviations`].

use super::counter::Counter;
use super::counters::Counters;

/// How often an entry went other ways than its plan, by kind. [`Counter`] tells what each kind is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deviations {
    pub(crate) extra: u64,
    pub(crate) missing: u64,
    pub(crate) reordered: u64,
    pub(crate) larger: u64,
    pub(crate) blocked: u64,
}

impl Deviations {
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
